"""Versions: recorded answers of the library that Kubernetes uses, what each reader forgives, and the order."""

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.semver import Version, VersionError
from tests.corpus import corpus

READERS: dict[str, Callable[[str], Version]] = {
    "semver": Version.parse,
    "semver-tolerant": Version.parse_tolerant,
}


@pytest.mark.parametrize("kind", READERS)
def test_the_recorded_answers(kind: str) -> None:
    read = READERS[kind]

    def answers(case: dict[str, Any]) -> dict[str, Any]:
        try:
            a = read(case["a"])
        except VersionError:
            return {"error": True}
        got: dict[str, Any] = {"canonical": str(a)}
        if "b" in case:
            b = read(case["b"])
            got["cmp"] = (a > b) - (a < b)
        return got

    cases = [case for case in corpus("values.json") if case["kind"] == kind]
    wrong = {
        str(case): got
        for case in cases
        if (got := answers(case)) != {k: v for k, v in case.items() if k not in ("kind", "a", "b")}
    }
    assert len(cases) > 250
    assert not wrong


# text: strict, normalized, tolerant; None where the reader refuses
READINGS: dict[str, tuple[str | None, str | None, str | None]] = {
    "1.2.3": ("1.2.3", "1.2.3", "1.2.3"),
    "1.2.3-rc.1+build.5": ("1.2.3-rc.1+build.5",) * 3,
    "v1.2.3": (None, "1.2.3", "1.2.3"),
    "vv1.2.3": (None, None, None),
    " 1.2.3": (None, None, "1.2.3"),
    " v1.2 ": (None, None, "1.2.0"),
    "1.2": (None, "1.2.0", "1.2.0"),
    "12": (None, "12.0.0", "12.0.0"),
    "01.002.000": (None, "1.2.0", "1.2.0"),
    "1.2-rc": (None, None, None),  # a short version may have no pre-release
    "1.2.3.4": (None, None, None),
    "1.2.3-01": (None, None, None),
    "1.2.3-": (None, None, None),
    "1.2.3+": (None, None, None),
    "1.2.3-é": (None, None, None),
    "1.2.18446744073709551615": ("1.2.18446744073709551615",) * 3,
    "1.2.18446744073709551616": (None, None, None),
    "": (None, None, None),
    "1.2.3\n": (None, None, "1.2.3"),
}


@pytest.mark.parametrize(("text", "expected"), READINGS.items(), ids=map(repr, READINGS))
def test_what_each_reader_makes_of_it(text: str, expected: tuple[str | None, str | None, str | None]) -> None:
    def read(reader: Callable[[str], Version]) -> str | None:
        try:
            return str(reader(text))
        except VersionError:
            return None

    assert (read(Version.parse), read(Version.parse_normalized), read(Version.parse_tolerant)) == expected


def test_order() -> None:
    texts = (
        "0.9.0", "1.0.0-1", "1.0.0-2", "1.0.0-11", "1.0.0--", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
        "1.0.0-beta", "1.0.0", "1.0.1", "1.10.0", "2.0.0",
    )  # fmt: skip
    for smaller, larger in pairwise(map(Version.parse, texts)):
        assert smaller < larger
        assert smaller <= larger
        assert larger > smaller
        assert larger >= smaller
        assert smaller != larger


def test_build_metadata_does_not_count() -> None:
    a, b = Version.parse("1.0.0+a"), Version.parse("1.0.0+b")
    assert a == b
    assert hash(a) == hash(b)
    assert str(a) != str(b)


def test_copies_and_pickles() -> None:
    version = Version.parse("1.2.3-rc.1+x")
    for twin in (copy.copy(version), copy.deepcopy(version), pickle.loads(pickle.dumps(version))):
        assert (twin, str(twin)) == (version, "1.2.3-rc.1+x")
    assert repr(version) == "Version('1.2.3-rc.1+x')"


@given(st.text(max_size=30) | st.text("0123456789.-+avx ", max_size=40))
def test_what_a_stricter_reader_reads_a_milder_one_reads_alike(text: str) -> None:
    for strict, mild in (
        (Version.parse, Version.parse_normalized),
        (Version.parse_normalized, Version.parse_tolerant),
    ):
        try:
            version = strict(text)
        except VersionError:
            continue
        assert str(mild(text)) == str(version)


def test_a_huge_text_is_refused_with_a_short_message() -> None:
    with pytest.raises(VersionError) as caught:
        Version.parse("1.2.3-" + "a." * 100_000)
    assert len(str(caught.value)) < 250
