"""Every manifest of the public example driver's demos, applied with kubectl, ends as the table in ``demos`` says."""

from __future__ import annotations

import pytest

from tests.corpus import unavailable
from tests.e2e import demos, manifests
from tests.e2e.demos import Demo, Step
from tests.e2e.outcome import Outcomes, reach
from tests.e2e.plane import Plane

EVERY = [pytest.param(demo, id=demo.name) for demo in demos.DEMOS]


def test_no_manifest_is_left_out() -> None:
    if not manifests.DEMOS.exists():
        unavailable("../shared/manifests")
    listed = [step.file for demo in demos.DEMOS for step in demo.steps]
    assert sorted(listed) == sorted(path.stem for path in manifests.DEMOS.glob("*.yaml"))


@pytest.mark.parametrize("demo", EVERY)
def test_a_demo_ends_as_the_table_says(plane: Plane, demo: Demo) -> None:
    fleet = manifests.fleet(demo.profile)
    plane.apply(fleet)
    try:
        for step in demo.steps:
            found = take(plane, demo, step)
        assert demo.also(plane, found)
        plane.validate()
        plane.clear(demo.namespace)
        plane.delete_namespace(demo.namespace)
        assert plane.claims.all() == []
        plane.validate()
    finally:
        plane.remove([each for step in demo.steps for each in of_the_cluster(step)])
        plane.remove(fleet)


def take(plane: Plane, demo: Demo, step: Step) -> Outcomes:
    text = manifests.demo(step.file)
    if step.refused:
        assert step.refused in plane.kubectl("apply", "-f", "-", stdin=text, code=1)
        text = f"apiVersion: v1\n{text}"
    plane.kubectl("apply", "-f", "-", stdin=text)
    return reach(plane, demo.namespace, step.pods)


def of_the_cluster(step: Step) -> list[manifests.Obj]:
    every = manifests.objects(manifests.demo(step.file))
    return [each for each in every if each["kind"] == "DeviceTaintRule"]
