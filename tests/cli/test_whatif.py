"""``allot whatif``: what it shows of files and of a server, in every format, and that it only reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.autoscaler.scenarios import submit, workload
from tests.builders.typed import node, pod
from tests.cli.test_plan import saved
from tests.command_line import Allot, same_as_golden
from tests.contract.api import Api
from tests.insight import fleet

if TYPE_CHECKING:
    from tests.contract.embedded import Embedded

FOLDER = "examples/autoscaling"
EXAMPLE = (f"{FOLDER}/scenario.yaml", "--catalog", f"{FOLDER}/catalogue.yaml", "--empty")
GPU = fleet.GPU


def written(*steps: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "allotment.dev/v1", "kind": "Scenario", "steps": steps})


def objects(name: str = "wi") -> list[dict[str, Any]]:
    """A node with two devices, and three pods that want one each."""
    class_ = {"apiVersion": fleet.V1, "kind": "DeviceClass", "metadata": {"name": f"{name}-gpu"}, "spec": {}}
    there = fleet.reporting_node(name)
    there["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    exact = {"name": "gpu", "exactly": {"deviceClassName": f"{name}-gpu"}}
    found = [there, class_, fleet.slice_of(name, "gpu-0", "gpu-1")]
    for number in range(3):
        meta = {"name": f"{name}-{number}", "namespace": "default"}
        claim = {"apiVersion": fleet.V1, "kind": "ResourceClaim", "metadata": meta}
        uses = [{"name": "gpu", "resourceClaimName": meta["name"]}]
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
        found += [
            {**claim, "spec": {"devices": {"requests": [exact]}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"resourceClaims": uses, "containers": [container]}},
        ]  # fmt: skip
    return found


def places(found: dict[str, Any]) -> dict[str, str]:
    return {each["pod"].removeprefix("default/"): each["change"] for each in found["changes"]}


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_the_example_in_every_format(allot: Allot, form: str) -> None:
    ran = allot("whatif", *EXAMPLE, "-o", form)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden(f"whatif-{form}.txt", ran.out)


def test_json_and_yaml_say_the_same(allot: Allot) -> None:
    told = [allot("whatif", *EXAMPLE, "-o", form).out for form in ("json", "yaml")]
    assert json.loads(told[0]) == yaml.safe_load(told[1])


def test_a_saved_cluster(allot: Allot, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all(objects()))
    steps = written({"addNodes": {"like": "wi"}}, {"removeNode": {"name": "wi", "force": True}})
    ran = allot("whatif", "-", "--offline", str(cluster), "-o", "json", stdin=steps)
    told = json.loads(ran.out)
    assert ran.code == 0
    assert places(told["start"]) == {"wi-0": "placed", "wi-1": "placed"}
    assert [places(each) for each in told["steps"]] == [
        {"wi-2": "placed"},
        {"wi-0": "moved", "wi-1": "lost"},
    ]
    assert [each["pod"] for each in told["steps"][1]["pending"]] == ["default/wi-1"]


def test_a_taint_rule_of_a_saved_cluster_can_be_taken_away(allot: Allot, tmp_path: Path) -> None:
    rule = {
        "apiVersion": fleet.V1,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": GPU}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all([*objects(), rule]))
    steps = written({"delete": {"kind": "DeviceTaintRule", "name": "broken"}})
    told = json.loads(allot("whatif", "-", "--offline", str(cluster), "-o", "json", stdin=steps).out)
    assert (places(told["start"]), places(told["steps"][0])) == ({}, {"wi-0": "placed", "wi-1": "placed"})
    rule["spec"] = {"taint": {"effect": "Sometimes"}}
    cluster.write_text(yaml.safe_dump_all([*objects(), rule]))
    ran = allot("whatif", "-", "--offline", str(cluster), stdin=steps)
    assert ran.code == 2
    assert "spec.taint.effect" in ran.err


def test_what_is_refused_or_not_as_expected_is_told_in_the_end(allot: Allot, tmp_path: Path) -> None:
    cluster = saved(tmp_path, "cluster.json", node("n1", cpu=2), pod("a", cpu=1, node="n1"))
    steps = written(
        {"drainNode": "n1"},
        submit(workload("Deployment", "web", pod("p", cpu=1), replicas=3), expect={"counts": {"pending": 0}}),
        {"expect": {"running": ["a"]}},
        {"scale": {"kind": "Deployment", "name": "web", "replicas": 1}},
    )
    ran = allot("whatif", "-", "--offline", cluster, stdin=steps)
    assert (ran.code, ran.err) == (1, "")
    same_as_golden("whatif-refused.txt", ran.out)
    ran = allot("whatif", "-", "--offline", cluster, "--stop", stdin=steps)
    assert ran.code == 1
    assert "not tried: steps 2, 3, 4" in ran.out
    assert (
        json.loads(allot("whatif", "-", "--offline", cluster, "--stop", "-o", "json", stdin=steps).out)[
            "notTried"
        ]
        == 3
    )


def test_many_pods_are_told_in_short(allot: Allot) -> None:
    many = submit(workload("Job", "j", pod("p"), parallelism=30))
    steps = written({"addNodes": {"type": "general-32", "name": "n"}}, many)
    arguments = ("whatif", "-", "--catalog", f"{FOLDER}/catalogue.yaml", "--empty")
    short, wide = (allot(*arguments, "-o", form, stdin=steps).out for form in ("table", "wide"))
    assert "and 10 more; -o wide names them" in short
    assert wide.count("placed ") == 30


@pytest.fixture
def served(embedded: Embedded) -> Iterator[Api]:
    """A server with such a node and pods."""
    transport = embedded.over_tls()
    api = Api("tls", transport, embedded.forget)
    made = []
    for each in objects():
        namespace = each["metadata"].get("namespace")
        plural = f"{each['kind'].lower()}{'es' if each['kind'].endswith('s') else 's'}"
        root = "/api/v1" if each["apiVersion"] == "v1" else f"/apis/{each['apiVersion']}"
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        api.post(path, each).must(201)
        made.append(f"{path}/{each['metadata']['name']}")
    yield api
    for path in reversed(made):
        api.delete(path).must()
    transport.close()


def test_a_server_is_only_read(allot: Allot, embedded: Embedded, served: Api) -> None:
    steps = written(
        {"delete": {"kind": "Pod", "name": "wi-0"}},
        {"taintDevice": {"driver": GPU, "pool": "wi", "device": "gpu-0", "effect": "NoExecute"}},
        {"removeNode": {"name": "wi", "force": True}},
    )
    before = served.get("/api/v1/pods").must()
    ran = allot("whatif", "-", "--kubeconfig", str(embedded.kubeconfig), "-o", "json", stdin=steps)
    after = served.get("/api/v1/pods").must()
    told = json.loads(ran.out)
    assert ran.code == 0, ran.err
    assert [places(each) for each in told["steps"]] == [
        {"wi-0": "gone", "wi-2": "placed"},
        {"wi-2": "lost"},
        {"wi-1": "lost"},
    ]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_catalogue_says_what_its_overlays_cannot_do(allot: Allot) -> None:
    steps = written({"addNodes": {"type": "gpu-h100-8", "zone": "nowhere"}})
    ran = allot("whatif", "-", "--catalog", f"{FOLDER}/catalogue.yaml", "--empty", stdin=steps)
    assert ran.code == 1
    assert "refused: instance type gpu-h100-8 is not offered there" in ran.out


WRONG = {
    "no such file": (("nowhere.yaml", "--empty"), "nowhere.yaml: no such file"),
    "a cluster and none": ((*EXAMPLE, "--offline", "examples"), "--empty uses no cluster"),
    "not a scenario": ((f"{FOLDER}/pods.yaml", "--empty"), "must be one Scenario of allotment.dev/v1"),
    "no scenario": (("--empty",), "Missing argument"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked(allot: Allot, arguments: tuple[str, ...], words: str) -> None:
    ran = allot("whatif", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_all_that_is_wrong_with_a_scenario_and_its_files_is_told_at_once(
    allot: Allot, tmp_path: Path
) -> None:
    (tmp_path / "pods.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containres: []}\n"
    )
    file = tmp_path / "s.yaml"
    file.write_text(written({"submit": "pods.yaml"}, {"submit": "none.yaml"}, {"drainNode": ""}))
    ran = allot("whatif", str(file), "--empty")
    assert ran.code == 2
    assert [line.removeprefix(str(tmp_path)) for line in ran.err.splitlines()] == [
        "/pods.yaml:4: spec.containres: unknown field (did you mean containers?)",
        "/s.yaml:1: step 2: submit.file: none.yaml: no such file or directory",
        "/s.yaml:1: step 3: drainNode.name: is required",
    ]
