"""What machines that do not exist take: an answer for one lot must be right for others that it is used for."""

from __future__ import annotations

from typing import Any

from allotment.api.core import Pod
from allotment.autoscaler.provision.lots import bundled, lots_of
from allotment.autoscaler.provision.machine_trials import MachineTrials
from tests.autoscaler.build import evaluated, gpus, type_
from tests.autoscaler.builders import simulation
from tests.builders.typed import claim, pod

LARGE = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def _asking(name: str, **more: Any) -> Pod:
    """A pod with a claim of its own, called alike by all pods."""
    return pod(name, claims={"gpu": name}, **more)


def _most(pods: list[Pod], devices: int = 3) -> dict[str, int]:
    """By the name of each lot's first pod, how many a machine takes."""
    there = simulation(*(claim(each.metadata.name) for each in pods), *pods)
    lots, refused = lots_of(bundled(pods, there), there)
    assert not refused
    machines = evaluated(type_("t", capacity=LARGE, dynamicResources=gpus(devices))).machines
    room = MachineTrials(there, machines, lots)
    return {lot.sample[0].metadata.name: room.verdict(0, number).most for number, lot in enumerate(lots)}


def test_lots_that_differ_in_resources_alone_are_counted_each_by_its_own_room() -> None:
    """One pod of a, then five of b and of c: what was tried with a says nothing about more than one."""
    pods = [
        _asking(f"{name}{number}", cpu=cpu)
        for name, count, cpu in (("a", 1, 1), ("b", 5, 2), ("c", 5, 7), ("d", 1, 17))
        for number in range(count)
    ]
    assert _most(pods) == {"a0": 1, "b0": 3, "c0": 2, "d0": 0}


def test_pods_with_ports_and_the_same_devices_are_tried_by_themselves() -> None:
    free = [_asking(f"f{number}", cpu=1) for number in range(2)]
    held = [_asking(f"p{number}", cpu=2, ports=[80]) for number in range(2)]
    assert _most([*free, *held]) == {"f0": 2, "p0": 1}


def test_what_is_too_small_has_words_when_they_are_asked_for() -> None:
    there = simulation(big := pod("big", cpu=99))
    lots, _ = lots_of(bundled([big], there), there)
    room = MachineTrials(there, evaluated(type_("t")).machines, lots)
    assert room.verdict(0, 0).most == 0
    assert "cpu" in room.why(0, 0)
