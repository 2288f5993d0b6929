"""kubectl against our server over TLS and, in ``make test-kubernetes``, against the real one: each kubectl at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.conftest import fresh as fresh
from tests.corpus import unavailable
from tests.kubectl.command import Kubectl, installed

SERVERS = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "ours"]


PROGRAMS = installed()


@pytest.fixture(scope="session", params=list(PROGRAMS) or ["none"])
def program(request: pytest.FixtureRequest) -> Path:
    if not PROGRAMS:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    return PROGRAMS[request.param]


@pytest.fixture(scope="session", params=SERVERS)
def cluster(
    request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """A kubectl and a server, without a namespace."""
    server = request.getfixturevalue("kubernetes" if request.param == "kubernetes" else "embedded")
    return Kubectl(program, server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def kubectl(cluster: Kubectl, fresh: str) -> Kubectl:
    """In a namespace of the test's own, made by kubectl itself."""
    assert cluster("create", "namespace", fresh) == f"namespace/{fresh} created\n"
    cluster.within(fresh)("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    return cluster.within(fresh)
