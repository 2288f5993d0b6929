"""kill -9 in the middle of a burst: after another start all pods have a node and a device of their own, and nothing is lost.

There are as many devices as pods: one that is promised twice, or to nobody, keeps the burst from ending.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.api.resource import ResourceClaim
from allotment.controllers import names
from tests.e2e import burst
from tests.e2e.conftest import OURS, SERVERS
from tests.e2e.manifests import Obj
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


def test_a_gang_that_no_longer_fits_when_its_scheduler_is_begun_again_gives_its_devices_back(
    program: Path, tmp_path: Path
) -> None:
    """Its scheduler was killed between the claims, which have all devices, and the bindings; then its node lost a label."""
    with embedded_plane(program, tmp_path, schedulers=()) as plane:
        plane.apply(burst.fleet(nodes=1, devices=4))
        meta = {"name": "gang", "namespace": burst.NAMESPACE}
        policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        plane.apply(
            [
                {
                    "apiVersion": "scheduling.k8s.io/v1beta1",
                    "kind": "PodGroup",
                    "metadata": meta,
                    "spec": policy,
                }
            ]
        )
        plane.create([in_gang(each) for each in burst.pods(4)])
        plane.until(lambda: len(burst.claims(plane)) == 4, "the claims of the gang are made")
        for number, claim in enumerate(burst.claims(plane)):
            plane.kubectl(
                "patch", "resourceclaim", claim.metadata.name, "-n", burst.NAMESPACE, "--subresource=status",
                "--type=merge", "-p", json.dumps({"status": promised(claim, number)}),
            )  # fmt: skip
        rivals = [
            {**each, "metadata": {**each["metadata"], "name": f"rival-{n}"}}
            for n, each in enumerate(burst.pods(4))
        ]
        plane.create(rivals)
        plane.until(lambda: len(burst.claims(plane)) == 8, "the claims of the others are made")
        arguments = ("scheduler", "--kubeconfig", plane.kubectl.kubeconfig, "--no-leader-elect")
        with Mortal(tmp_path / "log", *arguments):
            await_bound(plane, 4)
            assert sorted(burst.bound(plane)) == [f"rival-{number}" for number in range(4)]
            burst.settle(plane)


def in_gang(pod: Obj) -> Obj:
    """A pod of the gang, for which no node is left."""
    more = {"schedulingGroup": {"podGroupName": "gang"}, "nodeSelector": {"label": "lost"}}
    return {**pod, "spec": {**pod["spec"], **more}}


def promised(claim: ResourceClaim, number: int) -> Obj:
    """The status that the scheduler had written: a device, for the pod that the claim was made for."""
    (owner,) = claim.metadata.owner_references
    result = {"request": "gpu", "driver": burst.CLASS, "pool": "burst-0", "device": f"gpu-{number}"}
    here = {"key": "metadata.name", "operator": "In", "values": ["burst-0"]}
    return {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        },
        "reservedFor": [{"resource": "pods", "name": owner.name, "uid": owner.uid}],
    }


def test_a_control_plane_that_is_killed_goes_on(program: Path, tmp_path: Path) -> None:
    """Server, scheduler and controllers in one process; another process simulates the nodes and must survive the restart."""
    folder = tmp_path / "data"
    whole = Mortal(tmp_path / "log", "up", "--data-dir", folder, "--port", free_port(), greeting="Ctrl-C")
    with (
        whole,
        remote_plane(program, folder / "kubeconfig", tmp_path, [names.SIMULATION], schedulers=()) as plane,
    ):
        ride_out(plane, whole, 1)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
