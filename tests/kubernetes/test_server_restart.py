"""The real kube-scheduler and kube-controller-manager survive kill -9 of our server: they resume their watches where they were
and go on with their work, on a server that has everything it acknowledged."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from allotment.client.client import Client, Happening
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from tests.apiserver.killing import ALLOT
from tests.builders.plain import deployment, node
from tests.corpus import unavailable
from tests.kubernetes.components import components
from tests.kubernetes.control_plane import Absent

pytestmark = pytest.mark.kubernetes

Obj = dict[str, Any]
PATIENCE = 90.0
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


@contextmanager
def up(folder: Path, port: int = 0) -> Iterator[None]:
    """Our server until the end of the block, then kill -9."""
    command = [str(ALLOT), "up", "--data-dir", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert any("Ctrl-C" in line for line in process.stdout)
        yield
    finally:
        process.kill()
        process.communicate()


def issued(folder: Path, user: str) -> str:
    command = [str(ALLOT), "kubeconfig", "--user", user, "--data-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_they_go_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    try:
        with up(data):
            port = urlsplit(load(data / "kubeconfig").server).port
        assert port is not None
        with components(lambda user: issued(data, user), tmp_path):
            for life in range(3):
                with up(data, port):
                    asyncio.run(_work(data, life))
    except Absent as absent:
        unavailable(str(absent))


async def _work(data: Path, life: int) -> None:
    """What the last life left undone gets done, and so does something new; then some is left undone for the next life."""
    async with Client(HttpTransport(load(data / "kubeconfig"))) as client:
        if not life:
            ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
            machine = node("n", capacity=ROOM, allocatable=ROOM, conditions=[ready])
            await client.plain("v1", "nodes", namespaced=False).create(machine)
        deployments = client.plain("apps/v1", "deployments")
        await deployments.create(deployment(f"d{life}", replicas=3), "default")
        async with asyncio.timeout(PATIENCE):
            await _until(client, lambda pods: _bound(pods, f"d{life}") == 3)
            if life:
                await _until(client, lambda pods: _bound(pods, f"left{life - 1}") == 3)
        await deployments.create(deployment(f"left{life}", replicas=3), "default")


def _bound(pods: dict[str, Obj], app: str) -> int:
    return sum(
        1
        for pod in pods.values()
        if pod["metadata"]["labels"].get("app") == app and pod["spec"].get("nodeName") == "n"
    )


async def _until(client: Client, wanted: Callable[[dict[str, Obj]], bool]) -> None:
    pods: dict[str, Obj] = {}
    async with client.plain("v1", "pods").watch("default", initial_events=True) as events:
        async for event in events:
            if event.object is not None:
                name = event.object["metadata"]["name"]
                pods.pop(name, None) if event.type is Happening.DELETED else pods.update({name: event.object})
            if wanted(pods):
                return
