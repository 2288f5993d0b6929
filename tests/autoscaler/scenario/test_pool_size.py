"""Pools with more and with fewer devices, as their drivers would publish them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.resource import ResourceSlice
from allotment.api.validation import validate_slice
from allotment.autoscaler.scenario.pool_size import MOST_IN_A_SLICE, current, grown, shrunk
from tests.allocator import build
from tests.builders.typed import slice_


def published(*names: Sequence[str]) -> list[ResourceSlice]:
    """A pool of slices with these devices each."""
    return [
        slice_("n", *devices, name=f"slice-{number}", of=len(names)) for number, devices in enumerate(names)
    ]


def names(slices: Sequence[ResourceSlice]) -> list[str]:
    return [device.name for each in slices for device in each.spec.devices]


NAMED = {
    "counted on": (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]),
    "beyond nine": (["gpu9"], ["gpu10", "gpu11"]),
    "without a number": (["fpga"], ["fpga-1", "fpga-2"]),
    "past one that is there": (["gpu-1", "gpu-0"], ["gpu-2", "gpu-3"]),
}


@pytest.mark.parametrize(("there", "new"), NAMED.values(), ids=NAMED)
def test_how_new_devices_are_called(there: list[str], new: list[str]) -> None:
    slices = published(there)
    assert names(grown(slices, slices[0].spec.devices[0], 2)) == [*there, *new]


@given(st.integers(1, 200), st.integers(0, 400))
def test_a_pool_that_grows_is_complete_and_valid(there: int, more: int) -> None:
    split = [f"d{number}" for number in range(there)]
    slices = published(
        *(split[start : start + MOST_IN_A_SLICE] for start in range(0, there, MOST_IN_A_SLICE))
    )
    found = grown(slices, slices[0].spec.devices[0], more)
    assert len(set(names(found))) == there + more
    assert {each.spec.pool.resource_slice_count for each in found} == {len(found)}
    assert len({each.metadata.name for each in found}) == len(found)
    assert not [error for each in found for error in validate_slice(each)]


def test_only_slices_that_lose_devices_are_published_anew() -> None:
    slices = published(["a", "b"], ["c"])
    assert [(each.metadata.name, names([each])) for each in shrunk(slices, {"b"})] == [("slice-0", ["a"])]
    assert shrunk(slices, set()) == []


def test_only_the_newest_generation_counts() -> None:
    old = slice_("n", "a", name="old", generation=1)
    new = [slice_("n", "b", name=name, generation=2) for name in ("z", "y")]
    assert [each.metadata.name for each in current([old, *new])] == ["y", "z"]
    assert current([]) == []


def test_new_devices_are_like_the_one_that_is_named() -> None:
    slices = [slice_("n", build.device("a", model="x"), build.device("b", model="y"))]
    [found] = grown(slices, slices[0].spec.devices[0], 1)
    assert found.spec.devices[-1].attributes == slices[0].spec.devices[0].attributes
