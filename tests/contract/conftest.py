"""The servers that the contract runs on, one of each a session: Kubernetes' own (``make test-kubernetes``), and ours
over TLS and in process (``make test``). Tests keep out of each other's way by names and namespaces of their own."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.builders import plain
from tests.builders.plain import Obj
from tests.contract.api import Api, Https
from tests.kubernetes.control_plane import ControlPlane, client_context

if TYPE_CHECKING:
    from tests.contract.embedded import Embedded, InProcess

SERVERS = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "tls", "process"]
_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=SERVERS)
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """One server after the other."""
    name: str = request.param
    transport: Https | InProcess
    if name == "kubernetes":
        plane: ControlPlane = request.getfixturevalue("kubernetes")
        transport = Https(plane.url, client_context(plane.ca, plane.admin), client_context(plane.ca))
        forget = plane.compact
    else:
        ours: Embedded = request.getfixturevalue("embedded")
        transport = ours.over_tls() if name == "tls" else ours.in_process()
        forget = ours.forget
    yield Api(name, transport, forget)
    transport.close()


@pytest.fixture(autouse=True)
def leaves_no_fleet(request: pytest.FixtureRequest) -> Iterator[None]:
    """A slice that all nodes reach would serve the claims of other tests too."""
    yield
    if "api" in request.fixturenames:
        request.getfixturevalue("api").remove_fleet()


@pytest.fixture
def fresh() -> str:
    """A name that no other test has."""
    return f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def namespace(api: Api, fresh: str) -> str:
    """A namespace of the test's own, with the service account that pods need."""
    api.post("/api/v1/namespaces", {"metadata": {"name": fresh}}).must(201)
    path = f"/api/v1/namespaces/{fresh}/serviceaccounts/default"
    api.eventually(lambda: api.get(path).status == 200 or None, f"service account default of {fresh}")
    return fresh


class Allocated(Protocol):
    """Makes a status that holds one device of the test's own pool."""

    def __call__(self, device: str = "gpu-0") -> Obj: ...


@pytest.fixture
def allocated(namespace: str) -> Allocated:
    def status(device: str = "gpu-0") -> Obj:
        return plain.allocated(namespace, device)

    return status


@pytest.fixture
def configmaps(namespace: str) -> str:
    """The path of the test's own ConfigMaps, the plainest kind there is."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def claims(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
