"""``allot explain``: why a pod or a claim has no devices, and what would help, from files."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.api.batch import PodGroup
from allotment.api.codec import decode
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.api.storage import PersistentVolume
from allotment.insight.errors import NoAnswer
from allotment.insight.explain.claim import told_of_claim
from allotment.insight.explain.document import explanation_document
from allotment.insight.explain.explanation import Outlook
from allotment.insight.explain.pod import told_of_pod
from allotment.insight.snapshot import Snapshot
from tests.cli.test_fit import gpu_template
from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import (
    GPU,
    HEALTHY,
    OLD,
    WRONG,
    Json,
    gpu_class,
    pool_counts,
    reporting_node,
    running_pod,
    slice_of,
    team_claim,
    written,
)

AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def machine(name: str, **labels: str) -> Json:
    """A node that says how much it has."""
    made = reporting_node(name)
    return {
        **made,
        "metadata": {**made["metadata"], "labels": labels},
        "status": {**made["status"], "allocatable": AMOUNTS},
    }


def gpus(name: str, count: int = 4) -> Json:
    devices = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 2}}} for n in range(count)]
    return slice_of(name, *devices)


def waiting(name: str, *claims: str, says: str = "", template: str = "", cpu: str = "", **spec: Any) -> Json:
    """A pod without a node, with these claims or one from a template."""
    made = running_pod(name, phase="Pending")
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    if template:
        entries.append({"name": "gpu", "resourceClaimTemplateName": template})
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    container = {"name": "main", "image": "example.com/x", "resources": resources}
    made["spec"] = {"containers": [container], "resourceClaims": entries, **spec}
    if says:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": says}
        made["status"]["conditions"] = [condition]
    return made


def matched(name: str, count: int) -> Json:
    """A claim whose devices must be of one numa node."""
    made = team_claim(name, count=count)
    made["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{GPU}/numa"}]
    return made


FLEET = (
    gpu_class(),
    *(machine(f"node-{n}") for n in range(1, 5)),
    *(gpus(f"node-{n}") for n in range(1, 4)),
    slice_of("node-4", {"name": "gpu-0", "taints": [{"key": "hot", "effect": "NoSchedule", "timeAdded": OLD}]}),
    {**machine("node-5"), "spec": {"unschedulable": True}},
    *(team_claim(f"train-{n}", "gpu-0", pool=f"node-{n}", users=(f"train-{n}",)) for n in range(1, 4)),
    *({**running_pod(f"train-{n}"), "spec": {"containers": [], "nodeName": f"node-{n}",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"train-{n}"}]}} for n in range(1, 4)),
    matched("pair", 3),
    team_claim("one"),
    waiting("wide", "pair", says="0/5 nodes: a scheduler said so"),
)  # fmt: skip


def explain(allot: Allot, *arguments: str, objects: tuple[Json, ...] = FLEET) -> Ran:
    return allot("explain", *arguments, "--offline", "-", stdin=written(*objects))


def document(ran: Ran) -> Any:
    return json.loads(ran.out)


def words(ran: Ran) -> list[str]:
    return [each["words"].removeprefix("fits ") for each in document(ran)["remedies"]]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("explain-pod.txt", ("pod", "wide"), 1),
        ("explain-pod-wide.txt", ("pod", "team-a/wide", "-o", "wide"), 1),
        ("explain-pod.json", ("pod", "wide", "-n", "team-a", "-o", "json"), 1),
        ("explain-pod-placed.txt", ("pod", "train-1"), 0),
        ("explain-claim.txt", ("claim", "pair"), 1),
        ("explain-claim-fits.txt", ("claim", "one"), 0),
        ("explain-claim-allocated.json", ("claim", "train-2", "-o", "json"), 0),
    ],
)
def test_what_is_printed(allot: Allot, name: str, arguments: tuple[str, ...], code: int) -> None:
    ran = explain(allot, *arguments)
    assert ran.code == code, ran.err
    same_as_golden(name, ran.out)


def test_json_and_yaml_say_the_same(allot: Allot) -> None:
    said = [explain(allot, "pod", "wide", "-o", form).out for form in ("json", "yaml")]
    assert json.loads(said[0]) == yaml.safe_load(said[1])


def test_kubectl_finds_it(capfd: pytest.CaptureFixture[str]) -> None:
    from allotment.cli.main import main

    assert main(["explain", "pod", "--help"], name="kubectl dra") == 0
    assert "Usage: kubectl dra explain pod" in capfd.readouterr().out


# --- what a pod may wait for ---

ONE = (gpu_class(), machine("n", disk="ssd"), gpus("n", 1))
WAITS = {
    "a gate": (waiting("p", schedulingGates=[{"name": "g"}]), "Waits", "waiting for 1 scheduling gate"),
    "a claim": (waiting("p", "c"), "Waits", "the pod's resource claim team-a/c does not exist"),
    "a template": (waiting("p", template="t"), "Waits", "there is no ResourceClaimTemplate team-a/t"),
    "node labels": (waiting("p", nodeSelector={"disk": "hdd"}), "FitsNowhere", "node selector or affinity"),
    "cpu": (waiting("p", cpu="9"), "FitsNowhere", "cpu"),
    "a class": (waiting("p", "strange"), "Waits", "device class none"),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_is_not_a_matter_of_devices_is_told_as_the_scheduler_does(allot: Allot, name: str) -> None:
    asked, state, reason = WAITS[name]
    strange = team_claim("strange")
    strange["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
    ran = explain(allot, "pod", "p", "-o", "json", objects=(*ONE, strange, asked))
    told = document(ran)
    assert (ran.code, told["state"]) == (1, state)
    assert reason in told["reason"]
    people = explain(allot, "pod", "p", objects=(*ONE, strange, asked)).out
    assert ("What would help" in people) is (state == "FitsNowhere")


def selecting(name: str, expression: str, of_class: str = "gpu") -> Json:
    made = team_claim(name)
    exactly = made["spec"]["devices"]["requests"][0]["exactly"]
    exactly |= {"deviceClassName": of_class, "selectors": [{"cel": {"expression": expression}}]}
    return made


def amounts(name: str, cpu: str, memory: str, **labels: str) -> Json:
    made = machine(name, **labels)
    return {**made, "status": {**made["status"], "allocatable": {"cpu": cpu, "memory": memory, "pods": "9"}}}


def affine(key: str, value: str) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}}}  # fmt: skip


def extended(name: str) -> Json:
    return {**gpu_class(), "metadata": {"name": "extended"}, "spec": {"extendedResourceName": name}}


def asking_extended(name: str, resource: str) -> Json:
    pod = waiting(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    return pod


AFFINITY = affine("zone", "b")
LABELLED = {**gpus("n", 1), "metadata": {"name": "labelled"}}
LABELLED["spec"]["devices"][0]["attributes"] |= {"model": {"string": "A100"}}
SMALL, LARGE = amounts("small", "4", "64Gi", disk="ssd"), amounts("large", "16", "32Gi", disk="nvme")
NICS = slice_of("fabric", "port-0", driver="nic.example.com", node="")
ELSEWHERE = 'device.driver == "gpu.nvidia.com"'
MISSPELT = f'device.attributes["{GPU}"].?modle.orValue("") == "A100"'
OTHER = f'device.attributes["{GPU}"].model == "a-100"'
# what is in the cluster beside a class; the pod; what is told under "What would help", line by line
HELP: dict[str, tuple[tuple[Json, ...], Json, list[str]]] = {
    "a label that no node has": (
        (SMALL, LARGE),
        waiting("p", nodeSelector={"disk": "sdd"}),
        ["fits without node selector disk=sdd (no node has it; there is disk=nvme, ssd)"],
    ),
    "a label that nobody has heard of": (
        (SMALL,),
        waiting("p", nodeSelector={"zone": "a"}),
        ["fits without node selector zone=a (no node has a label zone)"],
    ),
    "node affinity": (
        (SMALL,),
        waiting("p", affinity=AFFINITY),
        ["fits without its required node affinity (zone In b: no node has a label zone)"],
    ),
    "node affinity to a value that is misspelt": (
        (SMALL, LARGE),
        waiting("p", affinity=affine("disk", "nvm")),
        ["fits without its required node affinity (disk In nvm: no node has it; did you mean nvme)"],
    ),
    "node affinity, and cpu besides": (
        (SMALL, LARGE),
        waiting("p", cpu="20", affinity=affine("dsk", "nvme")),
        [
            "node affinity dsk In nvme: no node has a label dsk; did you mean disk",
            "node large has the most cpu left: 16 of 16, and the pod requests 20",
            "no single change",
        ],
    ),
    "an extended resource that is misspelt": (
        (amounts("small", "4", "64Gi", disk="ssd"), extended("example.com/gpu")),
        asking_extended("p", "example.com/gpuu"),
        ["nothing offers example.com/gpuu; did you mean example.com/gpu?", "no single change"],
    ),
    "cpu, in less than the largest node has": (
        (SMALL, LARGE),
        waiting("p", cpu="20"),
        ["fits with cpu ≤ 16 (it requests 20; node large has the most left)"],
    ),
    "cpu, and a label besides": (
        (SMALL, LARGE),
        waiting("p", cpu="20", nodeSelector={"disk": "sdd"}),
        [
            "node selector disk=sdd: no node has it; there is disk=nvme, ssd",
            "node large has the most cpu left: 16 of 16, and the pod requests 20",
            "no single change",
        ],
    ),
    "a node taint": (
        ({**SMALL, "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}},),
        waiting("p"),
        ["fits with a toleration of node taint spot"],
    ),
    "a driver that publishes nothing": (
        (SMALL, gpus("small", 1), selecting("c", ELSEWHERE)),
        waiting("p", "c"),
        [
            f"fits without selector `{ELSEWHERE}` (request gpu)",
            "no driver gpu.nvidia.com publishes anything; drivers that do: gpu.example.com, nic.example.com",
        ],
    ),
    "an attribute that is misspelt": (
        (machine("n"), LABELLED, selecting("c", MISSPELT)),
        waiting("p", "c"),
        [
            f"fits without selector `{MISSPELT}` (request gpu)",
            f"no device has attribute {GPU}/modle; did you mean model?",
        ],
    ),
    "a value that no device has": (
        (machine("n"), LABELLED, selecting("c", OTHER)),
        waiting("p", "c"),
        [f"fits without selector `{OTHER}` (request gpu)", 'no device has model "a-100"; did you mean A100?'],
    ),
}


OF = f'device.attributes["{GPU}"]'


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        (f'{OF}["model"] == "a-100"', 'no device has model "a-100"; did you mean A100?'),
        (f'"a-100" == {OF}.model', 'no device has model "a-100"; did you mean A100?'),
        (f'{OF}.model in ["a-100", "H100"]', 'no device has model "a-100" or "H100"; did you mean A100?'),
        (f'{OF}.?model.orValue("") == "a-100"', 'no device has model "a-100"; did you mean A100?'),
        # the other driver has a model of that name
        (f'{OF}.model == "mlx-7"', 'no device has model "mlx-7"; there is A100'),
        (f'{OF}.model in ["a-100", "A100"] && false', ""),
        (f'{OF}.model == """a-100""" && false', ""),
        (
            f'device.capacity["{GPU}"].memroy.compareTo(quantity("1Gi")) > 0',
            f"no device has capacity {GPU}/memroy; did you mean memory?",
        ),
        # the right name in the wrong place
        (f'{OF}.memory.isGreaterThan(quantity("1Gi"))', f'no device has attribute {GPU}/memory; there is device.capacity["{GPU}"].memory'),
        (f'device.capacity["{GPU}"].model.isLessThan(quantity("1"))', f'no device has capacity {GPU}/model; there is device.attributes["{GPU}"].model'),
        ('device.attributes["gpu.exmaple.com"].model == "A100"', f"no device has an attribute or capacity of gpu.exmaple.com; did you mean {GPU}?"),
        ('device.capacity["gpu.exmaple.com"].memory.isGreaterThan(quantity("0"))', f"no device has an attribute or capacity of gpu.exmaple.com; did you mean {GPU}?"),
    ],
)  # fmt: skip
def test_what_a_selector_may_have_misspelt(allot: Allot, selector: str, told: str) -> None:
    nic = slice_of("fabric", "port-0", driver="nic.example.com", node="")
    nic["spec"]["devices"][0]["attributes"] = {"model": {"string": "mlx-7"}}
    gpu = {**gpus("n", 1), "metadata": {"name": "sized"}}
    gpu["spec"]["devices"][0] |= {
        "attributes": {"model": {"string": "A100"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    objects = (gpu_class(), nic, gpu, machine("n"), selecting("c", selector), waiting("p", "c"))
    ran = explain(allot, "pod", "p", objects=objects)
    hints = [line.strip() for line in ran.out.splitlines() if "no device has" in line]
    assert hints == ([told] if told else [])


@pytest.mark.parametrize("name", HELP)
def test_what_would_help_comes_first_and_names_what_there_is(allot: Allot, name: str) -> None:
    objects, asked, told = HELP[name]
    ran = explain(allot, "pod", "p", objects=(gpu_class(), NICS, *objects, asked))
    found = ran.out.partition("What would help\n---------------\n")[2]
    helping, _, nodes = found.partition("\n\n")
    assert [line.strip() for line in helping.splitlines()] == told
    assert nodes.startswith("Node by node")


def test_a_class_that_is_misspelt(allot: Allot) -> None:
    ran = explain(allot, "pod", "p", objects=(*ONE, selecting("c", "true", "gpuu"), waiting("p", "c")))
    assert "there is no device class gpuu; did you mean gpu?" in ran.out


@pytest.mark.parametrize(
    ("name", "namespace", "told"),
    [
        ("large", "team-a", "there is no claim team-a/larg; did you mean large?"),
        ("larg", "team-b", "claim larg is in team-b, but a pod can only use claims of its own namespace"),
    ],
)
def test_a_claim_that_is_misspelt_or_elsewhere(allot: Allot, name: str, namespace: str, told: str) -> None:
    made = selecting(name, "true")
    made["metadata"]["namespace"] = namespace
    ran = explain(allot, "pod", "p", objects=(*ONE, made, waiting("p", "larg")))
    assert told in ran.out


def test_a_template_that_is_misspelt(allot: Allot) -> None:
    there = {**gpu_template("large", 1), "metadata": {"name": "large", "namespace": "team-a"}}
    ran = explain(allot, "pod", "p", objects=(*ONE, there, waiting("p", template="larg")))
    assert "there is no ResourceClaimTemplate team-a/larg; did you mean large?" in ran.out


def test_a_claim_that_is_to_be_made_is_explained_as_if_it_were(allot: Allot) -> None:
    made = {**gpu_template("t", 2), "metadata": {"name": "t", "namespace": "team-a"}}
    ran = explain(allot, "pod", "p", "-o", "json", objects=(*ONE, made, waiting("p", template="t")))
    assert ran.code == 1
    assert words(ran) == ["with count ≤ 1 (request gpu asks for 2)"]
    assert (
        "claim gpu does not exist yet: the answer assumes that it is created from template t"
        in document(ran)["notes"]
    )


def test_manifests_without_uids(allot: Allot) -> None:
    bare = waiting("p", "c")
    del bare["metadata"]["uid"]
    assert explain(allot, "pod", "p", objects=(*ONE, team_claim("c"), bare)).code == 0


def test_claims_of_one_pod_have_to_fit_together(allot: Allot) -> None:
    objects = (*ONE, team_claim("a"), team_claim("b"), waiting("p", "a", "b"))
    ran = explain(allot, "pod", "p", objects=objects)
    assert ran.code == 1
    assert "team-a/p does not fit: 0/1 nodes" in ran.out
    assert "no single change" in ran.out
    assert explain(allot, "claim", "a", objects=objects).code == 0


def test_extended_resources(allot: Allot) -> None:
    wanted = {"requests": {"deviceclass.resource.kubernetes.io/gpu": "2"}}
    asked = waiting(
        "p", containers=[{"name": "m", "image": "x", "resources": {**wanted, "limits": wanted["requests"]}}]
    )
    ran = explain(allot, "pod", "p", "-o", "json", objects=(*ONE, asked))
    assert document(ran)["state"] == "FitsNowhere"
    assert [each["kind"] for each in document(ran)["remedies"]] == ["count"]


def test_a_change_that_something_else_undoes_is_not_offered(allot: Allot) -> None:
    """Releasing the claim would free a device, on a node that is too small."""
    small = {**machine("m"), "status": {"allocatable": {**AMOUNTS, "cpu": "1"}}}
    objects = (
        *ONE, small, gpus("m", 1), team_claim("x", "gpu-0", pool="m"), team_claim("y", "gpu-0", pool="n"),
        team_claim("c"), waiting("p", "c", cpu="2"),
    )  # fmt: skip
    assert words(explain(allot, "pod", "p", "-o", "json", objects=objects)) == [
        "if claim team-a/y is released"
    ]


@pytest.mark.parametrize(
    ("change", "state", "reason"),
    [
        ({"status": {"phase": "Succeeded"}}, "Ended", "has ended (Succeeded)"),
        (
            {"metadata": {"name": "p", "namespace": "team-a", "deletionTimestamp": OLD}},
            "Ended",
            "is being deleted",
        ),
        ({"spec": {"containers": [], "nodeName": "n"}}, "Placed", "is on node n and asks for no devices"),
    ],
)
def test_pods_that_wait_for_nothing(allot: Allot, change: Json, state: str, reason: str) -> None:
    ran = explain(allot, "pod", "p", "-o", "json", objects=(*ONE, {**waiting("p"), **change}))
    assert (ran.code, document(ran)["state"]) == (0, state)
    assert reason in document(ran)["reason"]


def test_what_is_wrong_with_a_placed_pods_claims(allot: Allot) -> None:
    placed = {**running_pod("train-0"), "spec": {"containers": [], "nodeName": "node-1",
        "resourceClaims": [{"name": "a", "resourceClaimName": "lost"}]}}  # fmt: skip
    others = tuple(each for each in (*HEALTHY, *WRONG) if each["metadata"]["name"] != "train-0")
    ran = explain(allot, "pod", "train-0", objects=(*others, placed))
    assert ran.code == 1
    assert "1 thing is wrong" in ran.out
    assert "DeviceVanished: it " in ran.out


def test_a_running_pod_whose_claim_was_removed(allot: Allot) -> None:
    runs = {**running_pod("p"), "spec": {"containers": [], "nodeName": "node-1",
        "resourceClaims": [{"name": "a", "resourceClaimName": "gone"}]}}  # fmt: skip
    ran = explain(allot, "pod", "p", objects=(*HEALTHY, runs))
    assert ran.code == 1
    assert "ClaimGone: it runs with claim gone, which is gone" in ran.out


def test_another_schedulers_pod(allot: Allot) -> None:
    other = waiting("other", says="0/1 nodes: none", schedulerName="volcano")  # which shows that there is one
    mine = waiting("p", "c", schedulerName="volcano")
    ran = explain(allot, "pod", "p", objects=(*ONE, team_claim("c"), mine, other))
    assert ran.code == 0
    assert (
        "note: the pod is for scheduler volcano: this is what Allotment's own scheduler would say" in ran.err
    )


def test_without_nodes_those_in_slices_are_taken(allot: Allot) -> None:
    objects = (
        gpu_class(),
        gpus("n", 1),
        team_claim("c"),
        waiting("p", "c", cpu="4", nodeSelector={"disk": "ssd"}),
    )
    ran = explain(allot, "pod", "p", "-o", "json", objects=objects)
    told = document(ran)
    assert (ran.code, told["state"], told["certain"]) == (0, "Fits", False)
    assert told["notes"] == [
        "no nodes are visible, so the pod's node selector, affinity and spreading are not checked",
        "you may see no nodes: 1 are made up from the slices, without labels",
    ]


def test_a_cluster_without_nodes_says_so() -> None:
    seen = seen_of(gpu_class(), gpus("n", 1), team_claim("c"), counts=())
    seen.objects[Node] = []
    told = told_of_claim(seen.claims[0], seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)
    assert (told.state, told.reason) == (Outlook.NOWHERE, "0/0 nodes: there are none in the cluster")


@pytest.mark.parametrize(
    ("kind", "plural"), [(ResourceSlice, "resourceslices"), (DeviceClass, "deviceclasses")]
)
def test_what_must_be_seen(kind: type[ApiStruct], plural: str) -> None:
    seen = seen_of(gpu_class(), machine("n"), gpus("n", 1), team_claim("c"), counts=())
    seen.objects[ResourcePool] = [decode(ResourcePool, pool_counts("n", 1, 0, 1))]
    del seen.objects[kind]
    seen.denied[kind] = plural
    with pytest.raises(NoAnswer, match=f"you may not list {plural}"):
        told_of_claim(seen.claims[0], seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)


@pytest.mark.parametrize(
    ("least", "state", "words"),
    [
        (2, Outlook.WAITS, "it fits on node n by itself, but its group does not fit: "),
        (1, Outlook.FITS, "fits on node n; nothing stands in its way"),
    ],
)
def test_gangs_are_placed_as_a_whole(least: int, state: Outlook, words: str) -> None:
    """Of two pods of the gang, one finds the only device."""
    seen = seen_of(gpu_class(), machine("n"), gpus("n", 1), team_claim("a"), team_claim("b"), counts=())
    seen.namespaces = None
    group = {
        "metadata": {"name": "g", "namespace": "team-a"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }
    seen.objects[PodGroup] = [decode(PodGroup, group)]
    member: Json = {"schedulingGroup": {"podGroupName": "g"}, "schedulerName": "default-scheduler"}
    seen.objects[Pod] = [decode(Pod, waiting(f"p-{name}", name, **member)) for name in "ab"]
    told = told_of_pod(seen.of(Pod)[0], seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)
    assert told.state is state
    assert told.reason.startswith(words)


VOLUMES: Json = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_volumes_of_pods_are_looked_at(allot: Allot) -> None:
    ran = explain(allot, "pod", "p", objects=(*ONE, waiting("p", **VOLUMES)))
    assert ran.code == 1
    assert 'persistentvolumeclaim "data" not found' in ran.out
    asked: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "team-a",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeName": "v",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    ran = explain(allot, "pod", "p", objects=(*ONE, asked, waiting("p", **VOLUMES)))
    assert "unavailable due to one or more PVCs bound to non-existent PVs" in ran.out


def test_of_volumes_that_may_not_be_listed_nothing_is_said_but_that() -> None:
    seen = seen_of(gpu_class(), machine("n"), gpus("n", 1), counts=())
    seen.namespaces = None
    seen.denied[PersistentVolume] = "persistentvolumes"
    seen.objects[Pod] = [decode(Pod, waiting("p", schedulerName="default-scheduler", **VOLUMES))]
    told = told_of_pod(seen.of(Pod)[0], seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)
    assert (told.state, told.reason) == (
        Outlook.MAY_FIT,
        "fits on node n according to what you may see, but its volumes are unknown",
    )
    assert (
        "you may not list persistentvolumes: whether a node suits the pod's volumes is unknown" in seen.notes
    )


def test_a_group_that_cannot_be_seen(allot: Allot) -> None:
    ran = explain(allot, "pod", "p", objects=(*ONE, waiting("p", schedulingGroup={"podGroupName": "g"})))
    assert ran.code == 0
    assert "note: you may not see the pod's group: the answer is for the pod alone" in ran.err


# --- names ---


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("pod", "wid"), 1, "did you mean wide?"),
        (("pod", "team-b/wide"), 1, "there is no pod team-b/wide"),
        (("claim", "pear"), 1, "did you mean pair?"),
        (("pod",), 2, "Missing argument 'NAME'"),
    ],
)
def test_names_that_are_not_there(allot: Allot, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = explain(allot, *arguments)
    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_a_name_in_several_namespaces(allot: Allot) -> None:
    twin = {**waiting("wide"), "metadata": {"name": "wide", "namespace": "team-b", "uid": "twin"}}
    ran = explain(allot, "pod", "wide", objects=(*FLEET, twin))
    assert ran.code == 1
    assert "there are pods wide in several namespaces: team-a, team-b" in ran.err


def test_the_semantic_is_explained_by_itself_too(allot: Allot) -> None:
    early = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": "old", "namespace": "team-a"},
        "spec": {"resourceClassName": "x"},
    }
    ran = explain(allot, "claim", "old", objects=(*ONE, early))
    assert ran.code == 1
    assert "there is no ResourceClass 'x'" in ran.out


# --- bounds ---


def test_without_patience_it_says_that_the_search_was_cut(allot: Allot) -> None:
    ran = explain(allot, "pod", "wide", "--patience", "0")
    assert ran.code == 1
    assert "no single change that was tried" in ran.out
    assert "the search ran out of time; other changes may help too" in ran.out


def test_a_large_cluster_is_folded_and_bounded(allot: Allot, tmp_path: Path) -> None:
    names = [f"n{number:03}" for number in range(400)]
    objects = (
        gpu_class(),
        *map(machine, names),
        *(gpus(name, 2) for name in names),
        *(team_claim(f"c-{name}", "gpu-0", pool=name) for name in names),
        team_claim("two", count=2),
        waiting("p", "two"),
    )
    file = tmp_path / "large.json"
    file.write_text(written(*objects))
    begin = time.thread_time()
    ran = allot("explain", "pod", "p", "--offline", str(file), "--patience", "2")
    assert time.thread_time() - begin < 20  # bounded; of this thread's own, as the machine may be busy
    assert ran.code == 1
    assert "0/400 nodes: 400 have 1 free gpu, need 2" in ran.out
    assert "n000, n001, n002, n003, n004 and 395 more: request gpu needs 2" in ran.out
    assert "the search ran out of time" in ran.out  # ten claims to release are enough
    assert len(ran.out.splitlines()) < 40
    wide = allot("explain", "pod", "p", "--offline", str(file), "-o", "wide").out
    assert "n000/gpu-0: in use\n" in wide  # no claim has the devices of all nodes that look alike
    assert "... and 399 more nodes like that" in wide


# --- claims that may not be seen ---


def seen_of(*objects: Json, counts: tuple[Json, ...]) -> Snapshot:
    """What somebody sees who may list the claims of team-a only."""
    kinds = {
        "Node": Node,
        "ResourceSlice": ResourceSlice,
        "DeviceClass": DeviceClass,
        "ResourceClaim": ResourceClaim,
    }
    seen = Snapshot({ResourcePool: [decode(ResourcePool, each) for each in counts]}, namespaces=("team-a",))
    for each in objects:
        kind: Any = kinds[each["kind"]]
        seen.objects.setdefault(kind, []).append(decode(kind, each))
    return seen


@pytest.mark.parametrize(
    ("counts", "asked", "state", "hidden", "offered"),
    [
        # all that looks free is known to be held: nothing is left, and nobody is named
        ((pool_counts("n", 3, 3, 0),), 1, Outlook.NOWHERE, (2, 2), ["if claim team-a/mine is released"]),
        # one of two is held, nobody knows which
        ((pool_counts("n", 3, 2, 1),), 1, Outlook.MAY_FIT, (1, 2), []),
        ((pool_counts("n", 3, 2, 1),), 4, Outlook.NOWHERE, (1, 2), ["with count ≤ 2 (request gpu asks for 4)"]),
        # counts that say that nothing is hidden
        ((pool_counts("n", 3, 1, 2),), 2, Outlook.FITS, None, []),
        # no counts
        ((), 2, Outlook.MAY_FIT, (None, 2), []),
        ((), 3, Outlook.NOWHERE, (None, 2), ["with count ≤ 2 (request gpu asks for 3)", "if claim team-a/mine is released"]),
    ],
)  # fmt: skip
def test_hidden_claims_are_counted_and_never_named(
    counts: tuple[Json, ...],
    asked: int,
    state: Outlook,
    hidden: tuple[int | None, int] | None,
    offered: list[str],
) -> None:
    mine = team_claim("mine", "gpu-0", pool="n")
    seen = seen_of(gpu_class(), machine("n"), gpus("n", 3), mine, team_claim("c", count=asked), counts=counts)
    wanted = next(each for each in seen.claims if each.metadata.name == "c")
    told = told_of_claim(wanted, seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)
    assert told.state is state
    assert ((told.hidden.held, told.hidden.free) if told.hidden is not None else None) == hidden
    assert [each.words for each in told.remedies.found] == offered
    assert explanation_document(told)["certain"] is (state is not Outlook.MAY_FIT)


def test_of_a_shared_device_something_may_be_left_whoever_holds_the_rest() -> None:
    nic = {"name": "nic", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    seen = seen_of(
        gpu_class(), machine("n"), slice_of("n", nic), team_claim("c"), counts=(pool_counts("n", 1, 1, 0),)
    )
    told = told_of_claim(seen.claims[0], seen, datetime(2026, 1, 2, tzinfo=UTC), lambda: True)
    assert (told.state, told.certain) == (Outlook.MAY_FIT, False)


def test_names_cannot_command_the_terminal(allot: Allot) -> None:
    loud = team_claim("c")
    loud["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": 'device.driver == "\x1b[31m"'}}
    ]
    ran = explain(allot, "claim", "c", objects=(*ONE, loud))
    assert ran.code == 1
    assert "\x1b" not in ran.out


def test_a_note_is_one_line_whatever_the_names_in_it_hold(allot: Allot) -> None:
    name = "mine\npod team-a/p fits on node n"
    who = waiting("p")
    who["spec"]["schedulerName"] = name
    who["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    ran = explain(allot, "pod", "p", objects=(*ONE, who))
    [note] = [line for line in ran.err.splitlines() if "for scheduler" in line]
    assert "mine\\npod team-a/p fits on node n" in note
    assert not [line for line in ran.err.splitlines() if line.lstrip().startswith("pod team-a/p")]
