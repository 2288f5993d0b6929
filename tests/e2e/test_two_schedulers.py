"""Two schedulers that know nothing of each other want the same devices, for pods of their own or for the same pods: no device is
bound twice, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from tests.e2e import burst
from tests.e2e.conftest import OURS, SERVERS
from tests.e2e.plane import Plane, embedded_plane, remote_plane

DEVICES = 30
PODS = 45


NAMES = {
    "the same pods": (DEFAULT_SCHEDULER, DEFAULT_SCHEDULER),
    "half of the pods each": (DEFAULT_SCHEDULER, "other"),
}


@pytest.fixture(params=NAMES)
def names(request: pytest.FixtureRequest) -> tuple[str, str]:
    return NAMES[request.param]


@pytest.fixture(params=SERVERS)
def plane(
    request: pytest.FixtureRequest, program: Path, tmp_path: Path, names: tuple[str, str]
) -> Iterator[Plane]:
    if request.param == "kubernetes":
        kubeconfig = request.getfixturevalue("real").kubeconfig
        with remote_plane(program, kubeconfig, tmp_path, OURS, schedulers=names) as plane:
            yield plane
    else:
        with embedded_plane(program, tmp_path, schedulers=names) as plane:
            yield plane


def test_no_device_is_bound_twice(plane: Plane, names: tuple[str, str]) -> None:
    fleet = burst.fleet(nodes=3, devices=DEVICES // 3)
    plane.gone(burst.NAMESPACE)
    plane.apply(fleet)
    try:
        plane.create(burst.pods(PODS, names))
        race(plane)
    finally:
        plane.clear(burst.NAMESPACE)
        plane.delete_namespaces(burst.NAMESPACE)
        plane.remove(fleet)
    plane.validate()


def race(plane: Plane) -> None:
    plane.until(
        lambda: len(burst.bound(plane)) == DEVICES,
        lambda: f"{DEVICES} pods have a node, but {len(burst.bound(plane))} have",
    )
    burst.settle(plane)
    first = burst.bound(plane)[: PODS - DEVICES]
    plane.remove([pod for pod in burst.pods(PODS) if pod["metadata"]["name"] in first])
    plane.until(
        lambda: len(plane.pods.all()) == len(burst.bound(plane)) == DEVICES,
        lambda: f"the others have their turn, but {len(burst.bound(plane))} of {len(plane.pods.all())} have",
    )
    burst.settle(plane)
