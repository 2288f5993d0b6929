"""Partitions by kind, and shared devices taken together."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.allocator.pool import PoolID
from allotment.api.resource import Device, ResourceClaim, ResourceSlice
from allotment.usage.partitions import PartitionError
from allotment.usage.usage import Usage
from tests.allocator.build import DRIVER, counter_set, device, draw, slice_, taint
from tests.usage.build import holder, part

ID = PoolID(DRIVER, "pool")
PROFILE = f"{DRIVER}/profile"


def piece(name: str, gpu: str, memory: str, profile: str = "", **more: object) -> Device:
    attributes = {"profile": profile} if profile else {}
    return device(name, attributes=attributes, draws=[draw(gpu, memory=memory)], **more)  # type: ignore[arg-type]


def cut(*devices: Device, names: str | None = PROFILE, gpus: int = 1) -> list[ResourceSlice]:
    """A pool of GPUs of 80Gi each that are cut into these; its slices say which attribute tells kinds apart."""
    sets = [counter_set(f"gpu-{n}", memory="80Gi") for n in range(gpus)]
    counters, pieces = slice_(name="counters", counters=sets, of=2), slice_(*devices, name="pieces", of=2)
    return [counters, replace(pieces, spec=replace(pieces.spec, partition_type_attribute=names))]


HALVES = [piece(f"half-{n}", "gpu-0", "40Gi", "half") for n in range(2)]
QUARTERS = [piece(f"quarter-{n}", "gpu-0", "20Gi", "quarter") for n in range(4)]


def kinds(
    slices: list[ResourceSlice], *claims: ResourceClaim, default: str | None = None
) -> list[tuple[str, int, int]]:
    found = Usage([*slices, *claims]).partitions(ID, default)
    assert all(kind.attribute == PROFILE for kind in found)
    return [(kind.type, kind.total, kind.allocatable) for kind in found]


@pytest.mark.parametrize(
    ("held", "halves", "quarters"),
    [
        ((), 2, 4),
        (("quarter-0",), 1, 3),
        (("half-0",), 1, 2),
        (("half-0", "quarter-0"), 0, 1),
        (("half-0", "half-1"), 0, 0),
    ],
)
def test_what_others_hold_of_the_counters_is_missing(
    held: tuple[str, ...], halves: int, quarters: int
) -> None:
    found = kinds(cut(*HALVES, *QUARTERS), *(holder(name, name) for name in held))
    assert found == [("half", 2, halves), ("quarter", 4, quarters)]


def test_partitions_of_two_gpus_are_one_kind() -> None:
    """Kubernetes calls this a mismatch."""
    pieces = [piece(f"{gpu}-{n}", gpu, "40Gi", "half") for gpu in ("gpu-0", "gpu-1") for n in range(2)]
    assert kinds(cut(*pieces, gpus=2), holder("c", "gpu-0-0")) == [("half", 4, 3)]


def test_what_is_tainted_is_not_offered() -> None:
    """Kubernetes offers it."""
    broken = piece("half-1", "gpu-0", "40Gi", "half", taints=[taint("broken")])
    assert kinds(cut(HALVES[0], broken)) == [("half", 2, 1)]


def test_admin_access_holds_nothing() -> None:
    assert kinds(cut(*HALVES), holder("c", part("half-0", admin=True))) == [("half", 2, 2)]


@pytest.mark.parametrize(
    ("names", "default", "found"),
    [
        (PROFILE, None, [("half", 2, 2)]),
        (None, PROFILE, [("half", 2, 2)]),
        (None, None, []),
        (PROFILE, f"{DRIVER}/other", [("half", 2, 2)]),  # what slices say comes first
    ],
)
def test_who_names_the_attribute(
    names: str | None, default: str | None, found: list[tuple[str, int, int]]
) -> None:
    assert kinds(cut(*HALVES, names=names), default=default) == found


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        (cut(piece("a", "gpu-0", "1Gi")), f'PartitionTypeMissing: device "a" has no attribute "{PROFILE}"'),
        (
            cut(piece("a", "gpu-0", "1Gi", "x"), piece("b", "gpu-0", "2Gi", "x")),
            'PartitionCostMismatch: partitions of type "x"',
        ),
        (cut(*(piece(f"d{n}", "gpu-0", "1Gi", f"kind-{n}") for n in range(33))), "PartitionSummaryOverCap: there are 33"),
        (cut(device("a", attributes={"profile": "x"})), "PartitionTypeMissing: a slice names an attribute, but no"),
    ],
    ids=["no type", "different costs", "too many", "no partitions"],
)  # fmt: skip
def test_kinds_that_cannot_be_told(slices: list[ResourceSlice], words: str) -> None:
    with pytest.raises(PartitionError) as raised:
        kinds(slices)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize("slices", [[slice_(device("a"))], cut(*HALVES)[1:]], ids=["whole", "incomplete"])
def test_pools_of_which_there_is_nothing_to_tell(slices: list[ResourceSlice]) -> None:
    assert kinds(slices) == []


@given(
    gpus=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    memory=st.integers(10, 80),
    held=st.sets(st.integers(0, 11), max_size=4),
)
def test_as_many_as_any_choice_leaves_room_for(gpus: list[int], memory: int, held: set[int]) -> None:
    pieces = [
        piece(f"{gpu}-{n}", f"gpu-{gpu}", f"{memory}Gi", "x") for gpu, count in enumerate(gpus) for n in range(count)
    ]  # fmt: skip
    taken = [each.name for number, each in enumerate(pieces) if number in held]
    slices = cut(*pieces, gpus=len(gpus))
    found = kinds(slices, *(holder(name, name) for name in taken)) if pieces else []
    free = [each.name for each in pieces if each.name not in taken]
    overdrawn = any(
        _used(taken, gpu, memory) > 80 for gpu in range(len(gpus))
    )  # then nothing more is given out
    most = max(
        size
        for size in range(len(free) + 1)
        for chosen in combinations(free, size)
        if not size
        or (not overdrawn and all(_used([*taken, *chosen], gpu, memory) <= 80 for gpu in range(len(gpus))))
    )
    assert found == ([("x", len(pieces), most)] if pieces else [])


def _used(names: list[str], gpu: int, memory: int) -> int:
    return sum(name.startswith(f"{gpu}-") for name in names) * memory


# --- shared devices ---

CARDS = slice_(
    device("a", capacity={"bandwidth": "10G", "queues": "4"}, shared=True),
    device("b", capacity={"bandwidth": "10G"}, shared=True),
    device("whole", capacity={"bandwidth": "100G"}),
)


@pytest.mark.parametrize(
    ("claims", "fully", "partially", "bandwidth"),
    [
        ([], 2, 0, ("20G", "0", "20G")),
        ([holder("c", part("a", share="1", consumes={"bandwidth": "4G"}))], 1, 1, ("20G", "4G", "16G")),
        ([holder("c", part("b", share="1", consumes={"bandwidth": "10G"}))], 1, 0, ("20G", "10G", "10G")),
        # more than there is
        ([holder("c", part("b", share="1", consumes={"bandwidth": "30G"}))], 1, 0, ("20G", "30G", "0")),
        ([holder("c", "whole")], 2, 0, ("20G", "0", "20G")),
    ],
    ids=["untouched", "a share", "used up", "overdrawn", "not shared"],
)
def test_shared_devices_together(
    claims: list[ResourceClaim], fully: int, partially: int, bandwidth: tuple[str, str, str]
) -> None:
    found = Usage([CARDS, *claims]).shareable(ID)
    assert found is not None
    assert (found.fully, found.partially) == (fully, partially)
    told = {
        each.name: tuple(map(str, (each.total, each.consumed, each.available))) for each in found.capacity
    }
    assert told["bandwidth"] == bandwidth
    assert told["queues"] == ("4", "0", "4")


def test_a_pool_without_shared_devices() -> None:
    assert Usage([slice_(device("a"))]).shareable(ID) is None
