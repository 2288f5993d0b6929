"""Every manifest of the public example driver's demos, applied with kubectl, ends as the table in ``demos`` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.corpus import unavailable
from tests.e2e import demos, manifests
from tests.e2e.demos import Demo, Step
from tests.e2e.outcome import Outcomes, Wanted, reach
from tests.e2e.plane import Plane

EVERY = [pytest.param(demo, id=demo.name) for demo in demos.DEMOS]


def test_no_manifest_is_left_out() -> None:
    if not manifests.DEMOS.exists():
        unavailable("../shared/manifests")
    listed = [step.file for demo in demos.DEMOS for step in demo.steps]
    assert sorted(listed) == sorted(path.stem for path in manifests.DEMOS.glob("*.yaml"))


@contextmanager
def furnished(plane: Plane, fleet: list[manifests.Obj], shown: Sequence[Demo]) -> Iterator[None]:
    """A fleet for some demos. Afterwards they are gone, and nothing is left of what they held."""
    namespaces = [demo.namespace for demo in shown]
    plane.gone(*namespaces)  # those of the test before
    plane.apply(fleet)
    try:
        yield
        plane.validate()
    finally:
        for namespace in namespaces:
            plane.clear(namespace)
        plane.delete_namespaces(*namespaces)
        plane.remove([each for demo in shown for step in demo.steps for each in of_the_cluster(step)])
        plane.remove(fleet)
    plane.validate()


@pytest.mark.parametrize("demo", EVERY)
def test_a_demo_ends_as_the_table_says(plane: Plane, demo: Demo) -> None:
    with furnished(plane, manifests.fleet(demo.profile), [demo]):
        for step in demo.steps:
            found = take(plane, demo, step)
        plane.until(lambda: demo.also(plane, found), f"what else is promised of {found}")


def test_all_demos_at_once(plane: Plane) -> None:
    """Those without taints, which would be for all, on the whole fleet: whose GPU it is does not matter, each pod has its own."""
    every = [demo for demo in demos.DEMOS if len(demo.steps) == 1]
    with furnished(plane, manifests.fleet(), every):
        texts = [manifests.demo(demo.steps[0].file) for demo in every]
        plane.kubectl("apply", "-f", "-", stdin="\n---\n".join(texts))
        for demo in every:
            reach(plane, demo.namespace, {name: anywhere(each) for name, each in demo.steps[0].pods.items()})


def anywhere(wanted: Wanted) -> Wanted:
    """The same on any node: GPUs that are shared or cut serve a demo that does not say which it wants."""
    devices = {request: ["*"] * len(patterns) for request, patterns in wanted.devices.items()}
    return replace(wanted, node="*", devices=devices)


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
