"""``allot plan``: what it shows of files, in every format, and of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from allotment.api.codec import to_builtins
from allotment.api.meta import OwnerReference
from allotment.autoscaler.catalogue.node_claims import claim_of
from tests.allocator import build
from tests.autoscaler.build import GPU, evaluated, gpus, overlay, pool, type_
from tests.autoscaler.builders import asking
from tests.autoscaler.simulate.test_node_arrival import daemons
from tests.builders.typed import node, pod
from tests.command_line import Allot, same_as_golden
from tests.contract.api import Api
from tests.contract.embedded import Embedded

EXAMPLE = ("-f", "examples/autoscaling/pods.yaml", "--catalog", "examples/autoscaling/catalogue.yaml")


def written(*objects: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [to_builtins(each) for each in objects]})


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    return saved(tmp_path, "types.json", type_("t", {"a": "1", "b": "2"}), pool("p"))


def saved(folder: Path, name: str, *objects: Any) -> str:
    file = folder / name
    file.write_text(written(*objects))
    return str(file)


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_the_example_in_every_format(allot: Allot, form: str) -> None:
    ran = allot("plan", *EXAMPLE, "--empty", "-o", form)
    assert (ran.code, ran.err) == (1, "")  # one pod fits on no machine
    same_as_golden(f"plan-{form}.txt", ran.out)


def test_json_and_yaml_say_the_same(allot: Allot) -> None:
    told = [allot("plan", *EXAMPLE, "--empty", "-o", form).out for form in ("json", "yaml")]
    assert json.loads(told[0]) == yaml.safe_load(told[1])


def test_a_comparison_with_overlays(allot: Allot) -> None:
    other = "examples/autoscaling/overlays.yaml"
    ran = allot("plan", *EXAMPLE, "--empty", "--cheapest-alternative", "--compare", other)
    same_as_golden("plan-compared.txt", ran.out)
    told = json.loads(allot("plan", *EXAMPLE, "--empty", "--compare", other, "-o", "json").out)
    assert set(told["compared"]) == set(told) - {"compared", "notes"}


def test_another_catalogue_takes_the_place_of_the_first(allot: Allot, catalog: str, tmp_path: Path) -> None:
    other = saved(tmp_path, "other.json", type_("u", {"a": "0.5"}))
    arguments = ("plan", "-f", "-", "--catalog", catalog, "--compare", other, "--empty", "-o", "json")
    told = json.loads(allot(*arguments, stdin=written(pod("p", cpu=1))).out)
    assert (told["price"], told["compared"]["price"]) == ("1", "0.5")


def test_pods_go_to_the_nodes_of_a_saved_cluster_first(allot: Allot, catalog: str, tmp_path: Path) -> None:
    cluster = saved(tmp_path, "cluster.json", node("old", cpu=2), pod("there", cpu=1, node="old"))
    arguments = ("plan", "-f", "-", "--catalog", catalog, "--offline", cluster, "-o", "json")
    ran = allot(*arguments, stdin=written(pod("small", cpu=1), pod("large", cpu=2)))
    told = json.loads(ran.out)
    assert ran.code == 0
    assert [each["pod"] for each in told["existing"]] == ["default/small"]
    assert [each["pod"] for each in told["machines"][0]["pods"]] == ["default/large"]


def test_without_files_the_pods_that_wait_in_the_cluster_are_planned_for(
    allot: Allot, catalog: str, tmp_path: Path
) -> None:
    done = pod("done", cpu=1, phase="Succeeded")
    cluster = saved(tmp_path, "cluster.json", pod("waits", cpu=1), pod("runs", cpu=1, node="old"), done)
    told = json.loads(allot("plan", "--catalog", catalog, "--offline", cluster, "-o", "json").out)
    assert [each["pod"] for each in told["machines"][0]["pods"]] == ["default/waits"]


def test_overlays_and_pools_of_the_cluster_count(allot: Allot, catalog: str, tmp_path: Path) -> None:
    cheaper, full = overlay("cheaper", price="0.25"), pool("p", limits={"cpu": "8"})
    cluster = saved(tmp_path, "cluster.json", cheaper, full)
    arguments = ("plan", "-f", "-", "--catalog", catalog, "--offline", cluster, "-o", "json")
    ran = allot(*arguments, stdin=written(*(pod(name, cpu=5) for name in "ab")))
    told = json.loads(ran.out)
    assert (ran.code, told["price"]) == (1, "0.25")
    assert told["pending"][0]["types"] == {
        "t": "would fit, but the limits of NodePool p are reached (cpu: 0 left, it has 8)"
    }


def test_a_claim_is_made_from_its_template_as_if_the_controller_had(allot: Allot, tmp_path: Path) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    class_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {},
    }
    catalog = saved(tmp_path, "types.json", type_("t", dynamicResources=gpus(2)))
    waiting = [to_builtins(pod(name, templates={"dev": "gpu"})) for name in "ab"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [template, class_, *waiting]})
    told = json.loads(allot("plan", "-f", "-", "--catalog", catalog, "--empty", "-o", "json", stdin=text).out)
    devices = [each["devices"] for each in told["machines"][0]["pods"]]
    assert devices == [[f"{GPU}/new-1/gpu-0"], [f"{GPU}/new-1/gpu-1"]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server of this module's own: a plan is made of all that there is."""
    with Embedded(tmp_path_factory.mktemp("alone")) as ours:
        yield ours


def test_the_pods_that_wait_on_a_server(allot: Allot, alone: Embedded, catalog: str) -> None:
    transport = alone.over_tls()
    api = Api("tls", transport, alone.forget)
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "planned"}, "spec": spec}
    api.post(pods, made).must(201)
    ran = allot("plan", "--catalog", catalog, "--kubeconfig", str(alone.kubeconfig), "-o", "json")
    api.delete(f"{pods}/planned").must()
    transport.close()
    assert ran.code == 0
    assert [each["pod"] for each in json.loads(ran.out)["machines"][0]["pods"]] == ["default/planned"]


# --- the other way round ---

RUNNING = (
    "--catalog",
    "examples/autoscaling/catalogue.yaml",
    "--offline",
    "examples/autoscaling/running.yaml",
)


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_which_nodes_of_the_example_can_go_in_every_format(allot: Allot, form: str) -> None:
    ran = allot("plan", "--consolidate", *RUNNING, "-o", form)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden(f"plan-consolidate-{form}.txt", ran.out)


def test_groups_and_disruption_budgets_of_files_count(allot: Allot, catalog: str, tmp_path: Path) -> None:
    """A gang of two on two nodes, one of which has no pool; and one pod that may not be evicted."""
    labels = {"karpenter.sh/nodepool": "p"}
    owner = OwnerReference(kind="ReplicaSet", name="o", uid="o", controller=True)
    pods = [
        pod("a", node="n1", group="gang"),
        pod("b", node="n2", group="gang"),
        pod("c", node="n3", labels={"app": "web"}),
    ]
    budget_ = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    gang = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    nodes = [node("n1", labels=labels), node("n2"), node("n3", labels=labels)]
    owned = [replace(each, metadata=replace(each.metadata, owner_references=(owner,))) for each in pods]
    items = [*(to_builtins(each) for each in (*nodes, *owned)), budget_, gang]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    ran = allot("plan", "--consolidate", "--catalog", catalog, "--offline", str(cluster), "-o", "json")
    told = {each["name"]: each["reason"] for each in json.loads(ran.out)["stays"]}
    assert told["n1"] == "a gang moves whole, and has members on nodes that stay"
    assert told["n2"] == "it comes from no pool and no group"
    assert "disruption budgets" in told["n3"]


def test_a_group_that_cannot_be_read_is_named(allot: Allot, catalog: str) -> None:
    text = json.dumps(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": 3},
        }
    )
    ran = allot("plan", "-f", "-", "--catalog", catalog, "--empty", stdin=text)
    assert ran.code == 2
    assert "schedulingPolicy" in ran.err


def test_what_can_go_on_a_server(allot: Allot, alone: Embedded, catalog: str) -> None:
    transport = alone.over_tls()
    api = Api("tls", transport, alone.forget)
    made = to_builtins(node("idle", labels={"karpenter.sh/nodepool": "p"}))
    api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **made}).must(201)
    ran = allot(
        "plan", "--consolidate", "--catalog", catalog, "--kubeconfig", str(alone.kubeconfig), "-o", "json"
    )
    api.delete("/api/v1/nodes/idle").must()
    transport.close()
    assert ran.code == 0
    assert [each["name"] for each in json.loads(ran.out)["nodes"]] == ["idle"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-f", "examples/autoscaling/pods.yaml", "--empty"), "--catalog"),
        ((*EXAMPLE, "--consolidate"), "leave out -f"),
        ((*EXAMPLE, "--empty", "--offline", "examples"), "--empty uses no cluster"),
        (
            ("-f", "nowhere.yaml", "--catalog", "examples/autoscaling/catalogue.yaml", "--empty"),
            "nowhere.yaml",
        ),
    ],
)
def test_what_cannot_be_asked(allot: Allot, arguments: tuple[str, ...], words: str) -> None:
    ran = allot("plan", *arguments)
    assert ran.code == 2
    assert words in ran.err


# conditions of a machine that was asked for; the places on nodes that are there or come, the machines to add
COMING: dict[str, tuple[str, list[str], list[str]]] = {
    "a machine on its way takes the pod": ("Launched=True", ["default/p"], []),
    "what was out of stock is not asked for again": ("Launched=False", [], ["b"]),
}


@pytest.mark.parametrize("case", COMING)
def test_machines_that_were_asked_for_count(allot: Allot, catalog: str, tmp_path: Path, case: str) -> None:
    told, existing, zones = COMING[case]
    machine = next(
        each for each in evaluated(type_("t", {"a": "1", "b": "2"}), pool("p")).machines if each.price == 1
    )
    made = to_builtins(claim_of(machine, {}, name="c"))
    type_of, status = told.split("=")
    time = "2030-01-01T00:00:00Z"
    condition = {"type": type_of, "status": status, "reason": "R", "lastTransitionTime": time}
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({**made, "status": {"conditions": [condition]}}))
    arguments = ("plan", "-f", "-", "--catalog", catalog, "--offline", str(cluster), "-o", "json")
    ran = allot(*arguments, stdin=written(pod("p", cpu=1)))
    assert ran.err == ""
    found = json.loads(ran.out)
    assert [each["pod"] for each in found["existing"]] == existing
    assert [each["zone"] for each in found["machines"]] == zones


# --- what decides is named ---


def test_prices_have_equal_decimals_and_the_cheaper_alternative_is_mentioned(
    allot: Allot, tmp_path: Path
) -> None:
    offers = [
        type_("good", {"a": "3"}, dynamicResources=gpus(model="good")),
        type_("plain", {"a": "1.25"}, dynamicResources=gpus(model="plain")),
    ]
    first = build.either(
        "r", *(build.sub(each, f'device.attributes["{GPU}"].model == "{each}"') for each in ("good", "plain"))
    )
    who, wanted = asking("p", first, cpu=1)
    small = pod("q", cpu=8)
    catalog = saved(tmp_path, "types.json", *offers)
    ran = allot(
        "plan",
        "-f",
        saved(tmp_path, "pods.json", build.class_(), who, wanted, small),
        "--catalog",
        catalog,
        "--empty",
    )
    shown = [line.split()[5] for line in ran.out.splitlines() if line.startswith("new-")]
    assert sorted(shown) == ["1.25", "3.00"]
    assert "With --cheapest-alternative 2.5 per hour would do (41.2% less)" in ran.out


def test_limits_and_conflicts_that_decide_are_named(allot: Allot, tmp_path: Path) -> None:
    who, wanted = asking("p", build.request("r"))
    limited = saved(tmp_path, "limited.json", type_("t"), pool("main", limits={"cpu": "4"}))
    ran = allot("plan", "-f", saved(tmp_path, "one.json", pod("q", cpu=1)), "--catalog", limited, "--empty")
    assert "would fit, but the limits of NodePool main are reached (cpu: 4 left, it has 8)" in ran.out
    clashing = [overlay(name, dynamicResources=gpus()) for name in ("one", "two")]
    catalog = saved(tmp_path, "clash.json", type_("t"), *clashing)
    ran = allot(
        "plan",
        "-f",
        saved(tmp_path, "two.json", build.class_(), who, wanted),
        "--catalog",
        catalog,
        "--empty",
    )
    assert f"note: overlay one does not count for t: driver {GPU}: overlay two has the same weight" in ran.out


def test_daemon_sets_of_files_count(allot: Allot, catalog: str, tmp_path: Path) -> None:
    files = saved(tmp_path, "pods.json", daemons(cpu=2), pod("q", cpu=7))
    ran = allot("plan", "-f", files, "--catalog", catalog, "--empty")
    assert "has too little cpu left, need 7: t" in ran.out


def test_owners_of_pods_that_are_not_known_are_named(allot: Allot, catalog: str, tmp_path: Path) -> None:
    pattern = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"replicatedJobs": [pattern]},
    }
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({**owner, "metadata": {"name": "j"}}))
    ran = allot("plan", "-f", str(file), "--catalog", catalog, "--empty", "-o", "json")
    assert json.loads(ran.out)["notes"] == [
        "the pods of 1 JobSet of jobset.x-k8s.io/v1alpha2 are not counted: give the pods themselves"
    ]


def test_notes_say_what_is_done_with_everything_in_the_files(
    allot: Allot, catalog: str, tmp_path: Path
) -> None:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    file = tmp_path / "owners.json"
    items = [owner, other, to_builtins(daemons(cpu=2))]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    ran = allot("plan", "-f", str(file), "--catalog", catalog, "--empty", "-o", "json")
    assert json.loads(ran.out)["notes"] == [
        "ignored: 1 Service",
        "the pods that these owners still lack are included: 1 Deployment (2 pods)",
        "the pods that these owners still lack are included: 1 DaemonSet (one pod on each node that it may use)",
    ]


def test_pods_that_a_saved_cluster_does_not_have_yet_are_said_to_be_left_out(
    allot: Allot, catalog: str, tmp_path: Path
) -> None:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"}, "spec": spec}
    mine = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="w", uid="u", controller=True)
    bare = [pod(f"w-{n}", node="n") for n in range(2)]
    there = [replace(each, metadata=replace(each.metadata, owner_references=(mine,))) for each in bare]
    file = tmp_path / "cluster.json"
    words = "note: a saved cluster is taken as it is, without pods that do not exist yet (StatefulSet: 1 pod)"
    for count, expected in ((1, True), (2, False)):
        items = [owner, to_builtins(node("n", cpu=4)), *map(to_builtins, there[:count])]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert (words in allot("plan", "--catalog", catalog, "--offline", str(file)).out) is expected
        steps = json.dumps(
            {"apiVersion": "allotment.dev/v1", "kind": "Scenario", "steps": [{"drainNode": "n"}]}
        )
        assert (words[6:] in allot("whatif", "-", "--offline", str(file), stdin=steps).out) is expected


def test_long_lists_are_cut(allot: Allot, catalog: str, tmp_path: Path) -> None:
    files = saved(tmp_path, "pods.json", *(pod(f"p{n}", cpu="10m") for n in range(105)))
    ran = allot("plan", "-f", files, "--catalog", catalog, "--empty")
    assert "and 5 more: -o wide has all" in ran.out
    assert (
        "more: -o wide" not in allot("plan", "-f", files, "--catalog", catalog, "--empty", "-o", "wide").out
    )


def test_long_lists_of_machines_are_cut(allot: Allot, catalog: str, tmp_path: Path) -> None:
    files = saved(tmp_path, "pods.json", *(pod(f"p{n}", cpu=5) for n in range(103)))
    ran = allot("plan", "-f", files, "--catalog", catalog, "--empty")
    assert sum(line.startswith("new-") for line in ran.out.splitlines()) == 100
    assert ran.out.count("and 3 more: -o wide has all") == 2
    wide = allot("plan", "-f", files, "--catalog", catalog, "--empty", "-o", "wide").out
    assert sum(line.startswith("new-") for line in wide.splitlines()) == 103


def test_machines_are_planned_for_claims_of_the_semantic(allot: Allot) -> None:
    folder = "examples/autoscaling/semantic"
    files = ("examples/semantic/claims.yaml", "examples/semantic/classes.yaml", f"{folder}/pods.yaml")
    given = [part for file in files for part in ("-f", file)]
    told = json.loads(allot("plan", *given, "--catalog", f"{folder}/types.yaml", "--empty", "-o", "json").out)
    assert (told["price"], told["exact"], told["pending"]) == ("4.8", True, [])
    assert [pod["devices"][1] for each in told["machines"] for pod in each["pods"]] == [
        "cards.dra.example.com/new-1/partitionable-gpu-1/halves/half-0",
        "cards.dra.example.com/new-2/partitionable-gpu-1/halves/half-0",
    ]
