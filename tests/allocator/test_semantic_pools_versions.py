"""Versions of instances are compared by what they stand for and quoted as they were written."""

from __future__ import annotations

import pytest

from allotment.allocator.outcome import Unsatisfiable
from allotment.allocator.pool import DeviceID
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.allocator.semantic_pools import WrittenVersion
from allotment.api.semver import Version, VersionError
from tests.allocator.trees import attribute, claim, leaf, node, parameters, request, resource_class, slice_of


@pytest.mark.parametrize(
    ("text", "same"),
    [("v12.1", "12.1.0"), (" 12.01.0", "12.1.0"), ("12.1.0+b", "12.1.0"), ("1.0.0-rc.1", "1.0.0-rc.1")],
)
def test_it_is_what_it_stands_for_and_looks_as_written(text: str, same: str) -> None:
    version = WrittenVersion(text)
    assert version == Version.parse(same)
    assert hash(version) == hash(Version.parse(same))
    assert str(version) == text


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(VersionError):
        WrittenVersion("twelve")


def test_a_reason_quotes_the_version_as_the_driver_wrote_it() -> None:
    book = SemanticBook([resource_class()], [], [parameters("p", request('versions["rt"] >= "13"'))])
    slices = [slice_of(leaf("a", None, attribute("rt", version="v12.1")))]
    held: list[DeviceID] = []
    outcome = allocate_semantic(node(), slices, book, [claim("c", "p")], held)
    assert isinstance(outcome, Unsatisfiable)
    assert "rt=v12.1" in str(outcome.reasons())
