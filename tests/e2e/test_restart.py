"""kill -9 in the middle of a burst: after another start all pods have a node and a device of their own, and nothing is lost.

There are as many devices as pods: one that is promised twice, or to nobody, keeps the burst from ending.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.controllers import suite
from tests.e2e import burst
from tests.e2e.conftest import OURS, SERVERS
from tests.e2e.plane import PATIENCE, Plane, embedded_plane, remote_plane

PODS = 100
ALLOT = Path(sys.executable).with_name("allot")


class Mortal:
    """``allot`` with some arguments, which can be killed and begun again. It is ready when it has said ``greeting``, if there
    is that."""

    def __init__(self, log: Path, *arguments: object, greeting: str = "") -> None:
        self._log, self._command = log, [str(ALLOT), *map(str, arguments)]
        self._greeting = greeting

    def __enter__(self) -> Mortal:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        said = ""
        while self._greeting not in said:
            line = self._process.stdout.readline()
            assert line, f"{self._command} did not start: {self._log.read_text()}"
            said += line
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.poll() is None, f"{self._command} ended: {self._log.read_text()}"
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def again(self) -> None:
        self.__exit__()
        self.__enter__()


def ride_out(plane: Plane, mortal: Mortal, *when: int) -> None:
    """A burst during which ``mortal``, which runs, is killed each time that so many pods have a node."""
    fleet = burst.fleet(nodes=10, devices=PODS // 10)
    plane.apply(fleet)
    plane.create(burst.pods(PODS))
    for number in when:
        await_bound(plane, number)
        mortal.again()
    await_bound(plane, PODS)
    plane.until(lambda: running(plane) == PODS, lambda: f"all run, but {running(plane)} do")
    burst.settle(plane)
    assert len(burst.claims(plane)) == PODS
    plane.clear(burst.NAMESPACE)
    plane.delete_namespaces(burst.NAMESPACE)
    plane.gone(burst.NAMESPACE)
    plane.until(lambda: not burst.claims(plane), "no claim is left")
    plane.remove(fleet)


def await_bound(plane: Plane, number: int) -> None:
    plane.until(
        lambda: len(burst.bound(plane)) >= number,
        lambda: f"{number} pods have a node, but {len(burst.bound(plane))} have",
    )


def running(plane: Plane) -> int:
    return sum(pod.status.phase == "Running" for pod in plane.pods.all())


@pytest.mark.parametrize("server", SERVERS)
def test_a_scheduler_that_is_killed_leaves_nothing_behind(
    request: pytest.FixtureRequest, server: str, program: Path, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        if server == "kubernetes":
            kubeconfig = request.getfixturevalue("real").kubeconfig
            plane = stack.enter_context(remote_plane(program, kubeconfig, tmp_path, OURS, schedulers=()))
        else:
            plane = stack.enter_context(embedded_plane(program, tmp_path, schedulers=()))
        alone = Mortal(
            tmp_path / "log", "scheduler", "--kubeconfig", plane.kubectl.kubeconfig, "--no-leader-elect"
        )
        ride_out(plane, stack.enter_context(alone), 1, 50)


def test_a_control_plane_that_is_killed_goes_on(program: Path, tmp_path: Path) -> None:
    """Server, scheduler and controllers in one process; the nodes are played by another, which has to bear with it."""
    folder = tmp_path / "data"
    whole = Mortal(tmp_path / "log", "up", "--data-dir", folder, "--port", free_port(), greeting="Ctrl-C")
    with (
        whole,
        remote_plane(program, folder / "kubeconfig", tmp_path, [suite.SIMULATION], schedulers=()) as plane,
    ):
        ride_out(plane, whole, 1)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
