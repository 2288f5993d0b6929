"""Nodes that do not exist yet in a simulated cluster: the scheduler's own plugins decide about bound devices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.core import Pod
from allotment.api.resource import DeviceAttribute, ResourceClaim, ResourceSlice
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation
from allotment.scheduler.diagnosis import NoNode
from tests.allocator.build import match, request
from tests.autoscaler.build import GPU, NIC, ROOT, binding, device, devices, machine, overlay, template, type_
from tests.autoscaler.builders import bind, devices_of, machines, simulation
from tests.builders.typed import claim, pod

IS_GPU, IS_NIC = f'device.driver == "{GPU}"', f'device.driver == "{NIC}"'


def paired(count: int = 2) -> Machine:
    """So many GPUs, each bound to a NIC: the last to the first, and so on."""
    numbers = range(count)
    said = devices(
        template("gpus", GPU, *(device(f"gpu-{number}") for number in numbers)),
        template("nics", NIC, *(device(f"nic-{number}") for number in numbers)),
        bindings=[
            binding(("gpus", f"gpu-{number}"), ("nics", f"nic-{count - 1 - number}")) for number in numbers
        ],
    )
    return machine(type_("t"), overlay("o", dynamicResources=said))


def wanting(name: str, *more: str) -> tuple[Pod, ResourceClaim]:
    """A pod that wants a GPU and the NIC beside it."""
    requests = request("gpu", IS_GPU, *more), request("nic", IS_NIC)
    return pod(name, claims=[name]), claim(name, *requests, constraints=[match(ROOT)])


def on_new_nodes(*names: str) -> Simulation:
    there = simulation(*machines("old"))
    for name in names:
        there.simulate_add_node(*node_of(paired(), name))
    return there


def test_pods_get_bound_pairs_until_there_are_none_left() -> None:
    there = on_new_nodes("new-1", "new-2")
    for number in range(4):
        there.put(wanting(f"p{number}")[1])
    got = []
    for number in range(4):
        who = wanting(f"p{number}")[0]
        there.put(who)
        assert isinstance(there.schedule(who), BoundPod)
        got.append(devices_of(there, f"default/p{number}"))
    assert sorted(got) == [
        ["new-1/gpu-0", "new-1/nic-1"],
        ["new-1/gpu-1", "new-1/nic-0"],
        ["new-2/gpu-0", "new-2/nic-1"],
        ["new-2/gpu-1", "new-2/nic-0"],
    ]
    last, wish = wanting("last")
    there.put(wish)
    there.put(last)
    assert isinstance(there.fits(last), NoNode)
    there.validate()


def test_what_is_bound_is_taken_and_given_back_as_pairs() -> None:
    there = on_new_nodes("new")
    for name in ("one", "two", "three"):
        who, wish = wanting(name)
        there.put(wish)
        there.put(who)
    one, two, three = (wanting(name)[0] for name in ("one", "two", "three"))
    bind(there, one, "new")
    bind(there, two, "new")
    assert isinstance(there.fits(three), NoNode)
    there.simulate_evict_pod(one, "new")
    bind(there, three, "new")
    assert devices_of(there, "default/three") == ["new/gpu-0", "new/nic-1"]


def test_a_selector_on_what_is_not_known_is_told_and_fits_nowhere() -> None:
    there = on_new_nodes("new-1", "new-2")
    who, wish = wanting("p", 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0"')
    there.put(wish)
    there.put(who)
    refusal = there.fits_on(who, "new-1")
    assert isinstance(refusal, NoNode)
    assert "no known value before the machine runs" in refusal.words
    assert isinstance(there.fits(who), NoNode)


@pytest.mark.parametrize("known", [True, False])
def test_it_fits_once_the_machine_has_told_its_values(known: bool) -> None:
    """The same question about the node when it runs: what was foreseen is replaced by what is published."""
    there = simulation(*machines("old"))
    host, slices = node_of(paired(), "new")
    if known:
        slices = [_published(each) for each in slices]
    there.simulate_add_node(host, slices)
    who, wish = wanting("p", 'device.attributes["resource.kubernetes.io"].pcieRoot == "root-1"')
    there.put(wish)
    there.put(who)
    assert there.fits(who) == "new" if known else isinstance(there.fits(who), NoNode)


def _published(made: ResourceSlice) -> ResourceSlice:
    """With a root for each GPU, called after it, that its NIC has too."""

    def root(name: str) -> DeviceAttribute:
        number = int(name[-1])
        return DeviceAttribute(string_value=f"root-{number if made.spec.driver == GPU else 1 - number}")

    found = [replace(each, attributes={ROOT: root(each.name)}) for each in made.spec.devices]
    return replace(made, spec=replace(made.spec, devices=tuple(found)))
