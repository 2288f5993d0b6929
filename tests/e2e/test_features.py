"""Our examples, applied with kubectl on the demo's fleet, end as the table in ``features`` says; and so does the demo itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import features, manifests
from tests.e2e.features import Feature
from tests.e2e.outcome import reach
from tests.e2e.plane import Plane, embedded_plane

EVERY = [pytest.param(feature, id=feature.file) for feature in features.FEATURES]


@pytest.fixture(scope="module")
def plane(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with embedded_plane(program, tmp_path_factory.mktemp("plane")) as plane:
        plane.apply(manifests.demo_fleet())
        plane.kubectl("apply", "-f", str(manifests.VOLCANO))
        yield plane


def test_no_example_is_left_out() -> None:
    listed = [feature.file for feature in features.FEATURES]
    assert sorted(listed) == sorted(path.stem for path in manifests.FEATURES.glob("*.yaml"))


def test_the_demo_has_one_that_cannot_fit_and_says_why(plane: Plane) -> None:
    plane.kubectl("apply", "-f", str(manifests.DEMO / "demo_workloads.yaml"))
    try:
        reach(plane, "demo", features.DEMO.pods)
        told = plane.kubectl.within("demo")("describe", "pod", "too-large")
        assert "FailedScheduling" in told
        plane.validate()
    finally:
        plane.clear("demo")
        plane.delete_namespace("demo")
    assert plane.claims.all() == []


@pytest.mark.parametrize("feature", EVERY)
def test_an_example_does_what_its_head_promises(plane: Plane, feature: Feature) -> None:
    file = manifests.FEATURES / f"{feature.file}.yaml"
    plane.kubectl("apply", "-f", str(file))
    try:
        found = reach(plane, feature.namespace, feature.pods)
        assert feature.also(plane, found)
        plane.validate()
    finally:
        plane.clear(feature.namespace)
        every = manifests.objects(file.read_text())
        plane.remove(
            [each for each in every if each["kind"] in ("ResourceClaim", "DeviceTaintRule", "Queue")]
        )
    plane.until(lambda: not plane.claims.all(), "no claim is left")
    plane.validate()
