"""Our examples, applied with kubectl on the demo's fleet, end as the table in ``features`` says; and so does the demo itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import features, manifests
from tests.e2e.features import Feature
from tests.e2e.outcome import reach
from tests.e2e.plane import Plane

EVERY = [pytest.param(feature, id=feature.file) for feature in features.FEATURES]


@pytest.fixture(scope="module")
def fleet(plane: Plane) -> Iterator[Plane]:
    """A plane with the demo's fleet, and Volcano's kinds, which come after the scheduler has begun."""
    nodes = manifests.demo_fleet(plane.real)
    plane.apply(nodes)
    plane.kubectl("apply", "-f", str(manifests.VOLCANO))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(manifests.VOLCANO))
    yield plane
    plane.remove(nodes)


def test_no_example_is_left_out() -> None:
    listed = [feature.file for feature in features.FEATURES]
    assert sorted(listed) == sorted(path.stem for path in manifests.FEATURES.glob("*.yaml"))


def test_the_demo_has_one_that_cannot_fit_and_says_why(fleet: Plane) -> None:
    plane = fleet
    plane.kubectl("apply", "-f", "-", stdin=manifests.demo_workloads(plane.real))
    try:
        wanted = {
            name: each for name, each in features.DEMO.pods.items() if name != "early" or not plane.real
        }
        reach(plane, "demo", wanted)
        told = plane.kubectl.within("demo")("describe", "pod", "too-large")
        assert "FailedScheduling" in told
        plane.validate()
    finally:
        plane.clear("demo")
        plane.delete_namespaces("demo")
    plane.gone("demo")
    plane.until(lambda: not plane.claims.all(), "no claim is left")


@pytest.mark.parametrize("feature", EVERY)
def test_an_example_does_what_its_head_promises(fleet: Plane, feature: Feature) -> None:
    plane = fleet
    file = manifests.FEATURES / f"{feature.file}.yaml"
    if plane.real and feature.refused:
        assert feature.refused in plane.kubectl("apply", "-f", str(file), code=1)
        plane.clear(feature.namespace)
        return
    plane.kubectl("apply", "-f", str(file))
    try:
        found = reach(plane, feature.namespace, feature.pods)
        plane.until(lambda: feature.also(plane, found), f"what else is promised of {found}")
        plane.validate()
    finally:
        plane.clear(feature.namespace)
        every = manifests.objects(file.read_text())
        plane.remove(
            [each for each in every if each["kind"] in ("ResourceClaim", "DeviceTaintRule", "Queue")]
        )
    plane.until(lambda: not plane.claims.all(), "no claim is left")
    plane.validate()
