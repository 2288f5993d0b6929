"""kubectl against our server over TLS and, in ``make test-kubernetes``, against the real one: each kubectl at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.conftest import fresh as fresh
from tests.corpus import unavailable
from tests.kubectl.command import Kubectl, installed

SERVERS = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "ours"]


@pytest.fixture(scope="session", params=["built", "path"])
def program(request: pytest.FixtureRequest) -> Path:
    found = installed()
    if not found:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    if request.param not in found:
        pytest.skip(f"only one kubectl is here, {next(iter(found.values()))}: its tests run")
    return found[request.param]


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
