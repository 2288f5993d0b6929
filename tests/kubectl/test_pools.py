"""What people see of pools with kubectl alone, and that they cannot change it. Kubernetes has no such kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.apiserver.registry.kinds.test_pools import pool
from tests.kubectl.command import Kubectl

if TYPE_CHECKING:
    from tests.contract.embedded import Embedded

CONTROLLER = "--as=allotment:controllers"


@pytest.fixture(scope="session")
def server(embedded: Embedded) -> Embedded:
    """Ours alone."""
    return embedded


@pytest.fixture
def made(cluster: Kubectl, fresh: str) -> Iterator[str]:
    """The name of a pool on a node of the same name."""
    cluster("create", "-f", "-", CONTROLLER, stdin=pool(fresh, fresh))
    yield fresh
    cluster("delete", "resourcepool", fresh)  # that anybody with the right may


def test_pools_at_a_glance(cluster: Kubectl, made: str) -> None:
    selector = f"--field-selector=spec.nodeName={made}"
    assert [line.split() for line in cluster("get", "resourcepools", selector).splitlines()] == [
        ["NAME", "DRIVER", "TOTAL", "ALLOCATED", "AVAILABLE"],
        [made, "gpu.example.com", "8", "3", "4"],
    ]
    wide = cluster("get", "resourcepools", selector, "-o", "wide").splitlines()
    assert wide[0].split()[5:] == ["POOL", "NODE", "UNAVAILABLE", "PARTIAL", "COMPLETE", "VALID", "AGE"]
    assert re.split(r"\s{2,}", wide[1])[5:11] == [
        "node-1",
        made,
        "1",
        "2",
        "True",
        "False (DuplicateDevices)",
    ]


def test_a_pool_described(cluster: Kubectl, made: str) -> None:
    lines = [" ".join(line.split()) for line in cluster("describe", "resourcepool", made).splitlines()]
    told = lines[lines.index("Spec:") :]
    for line in (
        *("Driver: gpu.example.com", f"Node Name: {made}", "Pool Name: node-1"),
        *("Total Devices: 8", "Allocated Devices: 3", "Available Devices: 4", "Unavailable Devices: 1"),
        *("Reason: DuplicateDevices", "device gpu-0 is in two slices", "Events: <none>"),
    ):
        assert line in told


def test_an_administrator_is_told_why_not(cluster: Kubectl, made: str) -> None:
    forged = '{"status":{"summary":{"availableDevices":5,"unavailableDevices":0}}}'
    told = cluster(
        *("patch", "resourcepool", made, "--type=merge", "--subresource=status", "-p", forged), code=1
    )
    assert f'resourcepools.resource.k8s.io "{made}" is forbidden: only the controller' in told
    assert "makes pools" in cluster("create", "-f", "-", stdin=pool("mine"), code=1)
    cluster("label", "resourcepool", made, "team=a")  # a matter of rights
