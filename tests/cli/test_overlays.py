"""``allot overlays``: what it shows of files, in every format, and of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allotment.api.autoscaling import NodeOverlay, NodePool
from allotment.api.codec import to_builtins
from tests.autoscaler.build import GPU, device, devices, gpus, is_type, overlay, pool, template, type_, where
from tests.command_line import Allot, Ran, same_as_golden
from tests.contract.api import Api

if TYPE_CHECKING:
    from tests.contract.embedded import Embedded

EXAMPLE = (
    "--catalog",
    "examples/autoscaling/catalogue.yaml",
    "--offline",
    "examples/autoscaling/overlays.yaml",
)
ROOT = "resource.kubernetes.io/pcieRoot"

MACHINES = (
    type_("small", {"a": "1", "b": "1.1", "b+": "0.4"}),
    type_("large", {"a": "9"}, dynamicResources=gpus(2, model="x")),
    pool("everyone"),
)
OVERLAYS = (
    overlay("cheaper", where("karpenter.sh/capacity-type", "In", "spot"), priceAdjustment="-50%"),
    overlay("one", is_type("small"), weight=3, dynamicResources=gpus(1)),
    overlay("two", is_type("small"), weight=3, dynamicResources=gpus(4)),
    overlay(
        "shared",
        is_type("large"),
        capacity={"example.com/fuse": "2"},
        dynamicResources=devices(
            template(
                "far",
                "disk.example.com",
                device("disk-0", attributes={ROOT: {"bindingKey": "k"}}),
                device("disk-1", attributes={ROOT: {"bindingKey": "k"}, "kind": "ssd"}),
                nodeSelector={"nodeSelectorTerms": [{"matchLabelKeys": ["topology.kubernetes.io/zone"]}]},
            )
        ),
    ),
    overlay("wrong", weight=0, price="1"),
)


def written(*objects: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [to_builtins(each) for each in objects]})


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    file = tmp_path / "types.json"
    file.write_text(written(*MACHINES))
    return str(file)


def overlays(allot: Allot, catalog: str, *options: str) -> Ran:
    return allot("overlays", "--catalog", catalog, "--offline", "-", *options, stdin=written(*OVERLAYS))


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_every_format(allot: Allot, catalog: str, form: str) -> None:
    ran = overlays(allot, catalog, "-o", form)
    assert (ran.code, ran.err) == (1, "")  # some cannot be applied
    same_as_golden(f"overlays-{form}.txt", ran.out)


def test_the_devices_of_a_type(allot: Allot, catalog: str) -> None:
    same_as_golden("overlays-type.txt", overlays(allot, catalog, "--type", "large").out)


def test_json_and_yaml_say_the_same(allot: Allot, catalog: str) -> None:
    forms = [overlays(allot, catalog, "-o", form).out for form in ("json", "yaml")]
    assert json.loads(forms[0]) == yaml.safe_load(forms[1])


def test_the_examples(allot: Allot) -> None:
    ran = allot("overlays", *EXAMPLE)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden("overlays-example.txt", ran.out)


def test_overlays_of_other_types_do_not_matter_to_one(allot: Allot, catalog: str) -> None:
    assert overlays(allot, catalog, "--type", "large").code == 0
    assert overlays(allot, catalog, "--type", "small").code == 1


def test_a_type_that_is_not_there(allot: Allot) -> None:
    ran = allot("overlays", *EXAMPLE, "--type", "gpu-h100-9")
    assert ran.code == 1
    assert "there is no machine of type gpu-h100-9\ndid you mean gpu-h100-8" in ran.err


def test_what_is_wrong_with_a_catalogue_is_told_at_once(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(
        "apiVersion: allotment.dev/v1\nkind: InstanceType\nmetadata: {name: m}\nspec: {capcity: {}}\n"
    )
    ran = allot("overlays", "--catalog", str(file), "--offline", "-", stdin="")
    assert ran.code == 2
    assert f"{file}:4: InstanceType m: spec.capcity: unknown field (did you mean capacity?)" in ran.err
    assert f"{file}:4: InstanceType m: spec.offerings: is required" in ran.err


def test_without_machines_it_says_what_to_do(allot: Allot) -> None:
    ran = allot("overlays", "--offline", "-", stdin=written(overlay("o", price="1")))
    assert ran.code == 0
    assert "--catalog names files with instance types" in ran.out


def test_files_and_a_server_are_one_too_many(allot: Allot) -> None:
    assert allot("overlays", "--offline", "-", "--context", "c").code == 2


def test_other_objects_and_fields_in_files_do_not_matter(allot: Allot, catalog: str) -> None:
    newer = to_builtins(overlay("o", price="7"))
    newer["spec"]["notInventedYet"] = True
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [newer, pod]})
    ran = allot("overlays", "--catalog", catalog, "--offline", "-", "-o", "json", stdin=text)
    assert ran.code == 0
    assert {each["price"] for each in json.loads(ran.out)["machines"]} == {"7"}


def test_overlays_and_pools_of_a_server(allot: Allot, embedded: Embedded, tmp_path: Path) -> None:
    types = tmp_path / "types.json"
    types.write_text(written(type_("m"), overlay("theirs", price="5")))
    transport = embedded.over_tls()
    api = Api("tls", transport, embedded.forget)
    made: dict[str, NodeOverlay | NodePool] = {
        "/apis/karpenter.sh/v1alpha1/nodeoverlays": overlay("theirs", price="6"),
        "/apis/karpenter.sh/v1/nodepools": pool("p"),
    }
    for path, obj in made.items():
        api.post(path, to_builtins(obj)).must(201)
    ran = allot(
        *("overlays", "--catalog", str(types), "--kubeconfig", str(embedded.kubeconfig), "-o", "json")
    )
    for path, obj in made.items():
        api.delete(f"{path}/{obj.metadata.name}").must()
    transport.close()
    assert ran.code == 0
    found = json.loads(ran.out)["machines"]
    assert [(each["name"], each["price"]) for each in found] == [("p/m/a/on-demand", "6")]


def test_the_driver_of_a_conflict_is_left_out(allot: Allot, catalog: str) -> None:
    told = json.loads(overlays(allot, catalog, "-o", "json").out)
    small = [each for each in told["machines"] if each["type"] == "small"]
    assert all(GPU not in [driver["driver"] for driver in each["drivers"]] for each in small)
    [one] = [each for each in told["overlays"] if each["name"] == "one"]
    assert (one["valid"], one["reason"]) == (False, "Conflict")
    assert {each["other"] for each in one["conflicts"]} == {"two"}
