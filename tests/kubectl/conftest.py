"""kubectl against our server over TLS and, in ``make test-kubernetes``, against the real one: each kubectl at hand.

What a test only needs to begin, its namespace, is made without kubectl, whose every start is dear.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.api import Api, Https
from tests.contract.conftest import fresh as fresh
from tests.contract.conftest import namespace as namespace
from tests.corpus import unavailable
from tests.kubectl.command import Kubectl, installed
from tests.kubernetes.control_plane import ControlPlane, client_context

if TYPE_CHECKING:
    from tests.contract.embedded import Embedded

SERVERS = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "ours"]


PROGRAMS = installed()


@pytest.fixture(scope="session", params=list(PROGRAMS) or ["none"])
def program(request: pytest.FixtureRequest) -> Path:
    if not PROGRAMS:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    return PROGRAMS[request.param]


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> ControlPlane | Embedded:
    found: ControlPlane | Embedded = request.getfixturevalue(
        "kubernetes" if request.param == "kubernetes" else "embedded"
    )
    return found


@pytest.fixture(scope="session")
def api(server: ControlPlane | Embedded) -> Iterator[Api]:
    """The same server without a kubectl."""
    url, forget = (
        (server.url, server.compact)
        if isinstance(server, ControlPlane)
        else (server.server.url, server.forget)
    )
    transport = Https(url, client_context(server.ca, server.admin), client_context(server.ca))
    yield Api("tls", transport, forget)
    transport.close()


@pytest.fixture(scope="session")
def cluster(
    server: ControlPlane | Embedded, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """A kubectl and a server, without a namespace."""
    return Kubectl(program, server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def kubectl(cluster: Kubectl, namespace: str) -> Kubectl:
    """In a namespace of the test's own."""
    return cluster.within(namespace)
