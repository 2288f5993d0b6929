"""A server without components, for tests of components that run alone against it."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from allotment.cli.main import main
from allotment.client.client import Client
from allotment.client.form import Obj
from tests.builders import plain
from tests.cli.test_up import ALLOT, PATIENCE, ask, greeting, up


@dataclass
class Served:
    """A server of ``allot up`` in a process of its own."""

    folder: Path

    @property
    def admin(self) -> Path:
        return self.folder / "kubeconfig"

    def kubeconfig(self, user: str) -> str:
        """The way in for a user, as a file."""
        file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not file.exists():
            said = io.StringIO()  # not for the test that asks
            with redirect_stderr(said):
                issued = main(["kubeconfig", "--user", user, "--data-dir", str(self.folder), "-o", str(file)])
            assert issued == 0, said.getvalue()
        return str(file)

    def create(self, *objects: Obj) -> None:
        async def steps(client: Client) -> None:
            for obj in objects:
                plural = f"{obj['kind'].lower()}{'es' if obj['kind'].endswith('s') else 's'}"
                namespaced = "namespace" in obj["metadata"]
                await client.plain(obj["apiVersion"], plural, namespaced=namespaced).create(obj)

        ask(self.admin, steps)

    def until(self, plural: str, happened: Callable[[Obj], Any], api_version: str = "v1") -> Obj:
        """The first object of a kind of which something holds."""

        async def steps(client: Client) -> Obj:
            async with asyncio.timeout(PATIENCE):
                collection = client.plain(api_version, plural)
                async with collection.watch(initial_events=True) as events:
                    async for event in events:
                        if event.object is not None and happened(event.object):
                            return event.object
            raise AssertionError("the watch ended")

        found: Obj = ask(self.admin, steps)
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "data"
    with up(folder, "--no-scheduler", "--no-controllers") as process:
        lines = greeting(process)
        assert "Without scheduler and controllers: run allot scheduler, allot controllers or others." in lines
        yield Served(folder)


@contextmanager
def component(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A component in a process, ended with the block if it has not been."""
    process = subprocess.Popen([str(ALLOT), *arguments], stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def said(process: subprocess.Popen[str], words: str) -> str:
    """The first line of a component that has these words. A component that does not say them for long is ended."""
    assert process.stderr is not None
    lines = []
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    try:
        for line in process.stderr:
            if words in line:
                return line.strip()
            lines.append(line)
    finally:
        late.cancel()
    raise AssertionError(f"it ended without {words!r}: {''.join(lines)}")


def interrupted(process: subprocess.Popen[str]) -> int:
    """Its exit code after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return process.wait(PATIENCE)


# --- objects ---


def gpus(name: str, count: int) -> list[Obj]:
    """A node with so many devices."""
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return [
        plain.node(name, allocatable=amounts, capacity=amounts),
        plain.resource_slice(f"{name}-gpu", node_name=name, devices=count, pool=pool),
    ]


def gpu_class() -> Obj:
    return plain.device_class("gpu")


def gpu_claim(name: str, namespace: str = "default") -> Obj:
    return plain.claim(name, "gpu", namespace=namespace)


def gpu_template(name: str, namespace: str = "default") -> Obj:
    return plain.claim_template(name, "gpu", namespace=namespace)


def gpu_pod(name: str, scheduler: str, *, namespace: str = "default", **entry: str) -> Obj:
    """A pod that wants what the entry names: ``resourceClaimName`` or ``resourceClaimTemplateName``."""
    container = {"name": "main", "image": "example.com/x", "resources": {"claims": [{"name": "gpu"}]}}
    entries = [{"name": "gpu", **entry}]
    return plain.pod(
        name, namespace=namespace, schedulerName=scheduler, containers=[container], resourceClaims=entries
    )
