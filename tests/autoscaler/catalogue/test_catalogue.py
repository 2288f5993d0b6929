"""Catalogues from files: what is in them, and how mistakes are told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.resource import DeviceAttribute, ResourceSlice
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.api.validation import validate_slice
from allotment.autoscaler.catalogue.catalogue import Catalogue, CatalogueError, read_catalogue
from allotment.autoscaler.catalogue.machine import node_of
from allotment.autoscaler.catalogue.overlays import evaluate
from tests.autoscaler.build import group, pool
from tests.checkout import CHECKOUT

EXAMPLES = CHECKOUT / "examples" / "autoscaling"
TYPE = """apiVersion: allotment.dev/v1
kind: InstanceType
metadata: {name: m1}
spec:
  capacity: {cpu: "4", memory: 16Gi, pods: "110"}
  offerings:
  - {zone: a, price: "1.5"}
"""


def complaints(*texts: str) -> list[str]:
    with pytest.raises(CatalogueError) as caught:
        read_catalogue([(f"{number}.yaml", text) for number, text in enumerate(texts)])
    return caught.value.complaints


def test_a_type_with_the_least_that_it_needs() -> None:
    found = read_catalogue([("types.yaml", TYPE)])
    [machine] = evaluate(found).machines
    assert (machine.name, str(machine.price), machine.offering.available) == ("/m1/a/on-demand", "1.5", True)


MISTAKES = {
    "a misspelt field": (
        TYPE.replace("capacity:", "capcity:"),
        "0.yaml:5: InstanceType m1: spec.capcity: unknown field",
    ),
    "a price that is a number": (
        TYPE.replace('"1.5"', "1.5"),
        "0.yaml:7: spec.offerings[0].price: must be a string",
    ),
    "no price": (
        TYPE.replace(', price: "1.5"', ""),
        "0.yaml:7: InstanceType m1: spec.offerings[0].price: is required",
    ),
    "no zone": (
        TYPE.replace("zone: a", 'zone: ""'),
        "0.yaml:7: InstanceType m1: spec.offerings[0].zone: is required",
    ),
    "no memory": (
        TYPE.replace("memory: 16Gi, ", ""),
        "0.yaml:5: InstanceType m1: spec.capacity[memory]: is required",
    ),
    "no offering": (
        TYPE.partition("  offerings")[0],
        "0.yaml:4: InstanceType m1: spec.offerings: is required: where the machine is sold",
    ),
    "one offering twice": (
        TYPE + '  - {zone: a, price: "2"}\n',
        "0.yaml:8: InstanceType m1: spec.offerings[1]: 'a/on-demand' is there already",
    ),
    "a capacity type that does not exist": (
        TYPE.replace("zone: a,", "zone: a, capacityType: cheap,"),
        "0.yaml:7: InstanceType m1: spec.offerings[0].capacityType: 'cheap' is not supported",
    ),
    "more overhead than there is": (
        TYPE + '  overhead: {cpu: "5"}\n',
        "0.yaml:8: InstanceType m1: spec.overhead[cpu]: must not be more than the capacity",
    ),
    "another kind": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: node}\n",
        "0.yaml:1: Node node: does not belong in a catalogue",
    ),
    "a kind that nobody knows": (
        "apiVersion: x/v1\nkind: Other\n",
        "0.yaml:1: Other: does not belong in a catalogue",
    ),
    "no YAML": ("a: [", "0.yaml:2: not valid YAML"),
    "a group without room": (
        "apiVersion: allotment.dev/v1\nkind: NodeGroup\nmetadata: {name: g}\n"
        "spec: {min: 3, max: 2, template: {status: {capacity: {cpu: '1'}}}}\n",
        "0.yaml:4: NodeGroup g: spec.max: must be at least 1, at least min",
    ),
    "a pool that is too heavy": (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 101}\n",
        "0.yaml:4: NodePool p: spec.weight: must be 1 to 100",
    ),
    "an overlay that is not valid": (
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: o}\nspec: {price: cheap}\n",
        "0.yaml:4: NodeOverlay o: spec.price: must be an amount per hour",
    ),
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_name_file_line_object_and_field(text: str, words: str) -> None:
    found = complaints(text)
    assert any(each.startswith(words) for each in found), found


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    found = complaints(TYPE.replace("zone: a", 'zone: ""'), "a: [", TYPE)
    assert [each.partition(":")[0] for each in sorted(found)] == ["0.yaml", "1.yaml", "2.yaml"]
    assert sorted(found)[-1] == "2.yaml:3: InstanceType m1: metadata.name: already exists, at 0.yaml:1"


def test_pools_of_a_cluster_take_the_place_of_those_in_files() -> None:
    files = Catalogue(pools={"p": pool("p", weight=1), "q": pool("q")})
    both = files.with_pools([pool("p", weight=2), pool("broken", weight=-1)], [group("g")])
    assert {name: each.spec.weight for name, each in both.pools.items()} == {"p": 2, "q": None}
    assert list(both.groups) == ["g"]


def _published(made: ResourceSlice) -> ResourceSlice:
    """With some value in place of each that is not known."""
    found = [
        replace(
            device,
            attributes={
                name: DeviceAttribute(string_value="x") if isinstance(each, UnknownAttribute) else each
                for name, each in device.attributes.items()
            },
        )
        for device in made.spec.devices
    ]
    return replace(made, spec=replace(made.spec, devices=tuple(found)))


def test_the_examples() -> None:
    found = evaluate(
        read_catalogue(
            [(name, (EXAMPLES / name).read_text()) for name in ("catalogue.yaml", "overlays.yaml")]
        )
    )
    assert found.notes == ()
    assert all(each.applies and not each.errors and not each.conflicts for each in found.findings.values())
    machines = {each.name: each for each in found.machines}
    for each in found.machines:
        for made in node_of(each, "new")[1]:
            assert validate_slice(_published(made)) == []  # a driver could publish just that
    _, slices = node_of(machines["gpu/gpu-h100-8/zone-a/on-demand"], "new")
    assert [(each.spec.driver, len(each.spec.devices)) for each in slices] == [
        ("gpu.example.com", 8),
        ("nic.example.com", 8),
    ]
