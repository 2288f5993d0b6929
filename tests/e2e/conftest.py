"""One kubectl for all of these tests: which versions of it get on with the server is the matter of ``tests/kubectl``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.controllers import names
from tests.corpus import unavailable
from tests.e2e.plane import Plane, embedded_plane, remote_plane
from tests.kubectl.command import installed
from tests.kubernetes.control_plane import Absent, ControlPlane, control_plane

SERVERS = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "ours"]
LEFT_TO_KUBERNETES = ("*", "-resourceclaim-controller", "-device-taint-eviction-controller")
OURS = (names.CLAIMS, names.DEVICE_TAINTS, names.SIMULATION)
"""What we run on the real control plane, beside the scheduler; nothing there plays kubelets."""


@pytest.fixture(scope="session")
def program() -> Path:
    found = installed()
    if not found:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    return next(iter(found.values()))


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real control plane without its scheduler, and without the controllers that ours stand in for."""
    try:
        with control_plane(tmp_path_factory.mktemp("real"), LEFT_TO_KUBERNETES) as plane:
            yield plane
    except Absent as absent:
        unavailable(str(absent))


@pytest.fixture(scope="module", params=SERVERS)
def plane(
    request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """Our components on our server, with all of our controllers, or on the real one."""
    folder = tmp_path_factory.mktemp("plane")
    if request.param == "kubernetes":
        server: ControlPlane = request.getfixturevalue("real")
        with remote_plane(program, server.kubeconfig, folder, OURS) as plane:
            yield plane
    else:
        with embedded_plane(program, folder) as plane:
            yield plane
