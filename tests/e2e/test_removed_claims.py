"""A claim is removed, finalizer and all, while its pod runs: a stand-in has the device, which every other answer counts as in use, and
which the server promises to nobody else until the pod ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.api.claim_marks import STANDS_IN_FOR
from allotment.api.pools import API_VERSION
from allotment.api.resource import ResourceClaim
from tests.e2e import burst
from tests.e2e.plane import Plane, embedded_plane
from tests.e2e.test_restart import promised


@pytest.fixture
def plane(program: Path, tmp_path: Path) -> Iterator[Plane]:
    """Two schedulers for the same pods: both notice, and make one stand-in."""
    with embedded_plane(program, tmp_path, schedulers=("default-scheduler", "default-scheduler")) as plane:
        plane.apply(burst.fleet(nodes=1, devices=1))
        yield plane


def test_the_device_of_a_claim_that_was_removed_is_in_use_until_its_pod_ends(plane: Plane) -> None:
    first, second = burst.pods(2)
    plane.create([first])
    plane.until(lambda: running(plane, "pod-0"), "the pod runs")
    (claim,) = burst.claims(plane)
    strip(plane, claim)
    found = plane.until(lambda: stand_in(plane), "there is a stand-in with the device")
    assert [user.name for user in found.status.reserved_for] == ["pod-0"]

    plane.until(lambda: free(plane) == [0], lambda: f"no device is free, but {free(plane)} is")

    plane.create([second])
    theirs = plane.until(lambda: claim_of(plane, "pod-1"), "the other pod has a claim")
    status = json.dumps({"status": promised(theirs, 0)})
    refused = plane.kubectl(
        "patch", "resourceclaim", theirs.metadata.name, "-n", burst.NAMESPACE, "--subresource=status",
        "--type=merge", "-p", status, code=1,
    )  # fmt: skip
    assert found.metadata.name in refused

    plane.remove([first])
    plane.until(lambda: burst.bound(plane) == ["pod-1"], "the other pod has the device")
    plane.until(lambda: not stand_ins(plane), "the stand-in is gone")
    burst.settle(plane)
    plane.validate()


def strip(plane: Plane, claim: ResourceClaim) -> None:
    name = ("resourceclaim", claim.metadata.name, "-n", burst.NAMESPACE)
    plane.kubectl("delete", *name, "--wait=false")
    plane.kubectl("patch", *name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def running(plane: Plane, name: str) -> bool:
    return any(pod.metadata.name == name and pod.status.phase == "Running" for pod in plane.pods.all())


def free(plane: Plane) -> list[int]:
    """How many devices each pool has left, as the controller counts them."""
    pools = plane.seen.plain(API_VERSION, "resourcepools").all()
    return [pool["status"]["summary"]["availableDevices"] for pool in pools if pool.get("status")]


def stand_ins(plane: Plane) -> list[ResourceClaim]:
    return [claim for claim in burst.claims(plane) if STANDS_IN_FOR in claim.metadata.annotations]


def stand_in(plane: Plane) -> ResourceClaim | None:
    return next((claim for claim in stand_ins(plane) if claim.status.allocation is not None), None)


def claim_of(plane: Plane, pod: str) -> ResourceClaim | None:
    """The claim that was made for a pod from its template."""
    return next((each for each in burst.claims(plane) if each.metadata.name.startswith(f"{pod}-")), None)
