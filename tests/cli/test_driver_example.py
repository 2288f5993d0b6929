"""The driver in examples/, with a server and as a process: what its docstring promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allotment.client.client import Client
from tests.checkout import CHECKOUT
from tests.cli.test_up import PATIENCE, ask, ended, greeting, up

FPGA = "fpga.example.com"


@contextmanager
def driver(kubeconfig: Path, *devices: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(CHECKOUT / "examples" / "driver.py"), str(kubeconfig), "ada", *devices]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline().strip() or process.stderr.read()


async def place_a_pod(client: Client) -> None:
    """What a scheduler would do: give the claim a device, and put the pod on its node."""
    selector = {"cel": {"expression": f'device.driver == "{FPGA}"'}}
    classes = client.plain("resource.k8s.io/v1", "deviceclasses", namespaced=False)
    await classes.create({"metadata": {"name": "fpga"}, "spec": {"selectors": [selector]}})
    meta = {"name": "job", "namespace": "default"}
    request = {"name": "card", "exactly": {"deviceClassName": "fpga"}}
    claims = client.plain("resource.k8s.io/v1", "resourceclaims")
    await claims.create({"metadata": meta, "spec": {"devices": {"requests": [request]}}})
    result = {"request": "card", "driver": FPGA, "pool": "ada", "device": "fpga-1"}
    reserved: list[dict[str, Any]] = [{"resource": "pods", "name": "job", "uid": "u-1"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    await claims.patch("job", {"status": status}, "default", subresource="status")
    spec = {
        "nodeName": "ada",
        "containers": [{"name": "main", "image": "example"}],
        "resourceClaims": [{"name": "card", "resourceClaimName": "job"}],
    }
    await client.plain("v1", "pods").create({"metadata": meta, "spec": spec})


def test_it_publishes_its_devices_and_tells_which_pod_got_which(tmp_path: Path) -> None:
    folder, identity = tmp_path / "data", tmp_path / "ada.kubeconfig"
    with up(folder, "--demo") as process:
        greeting(process)
        issued = ended("kubeconfig", "--user", "system:node:ada", "--group", "system:nodes", "-o", identity,
                       "--data-dir", folder)  # fmt: skip
        assert issued.returncode == 0
        with driver(identity, "fpga-0") as running:
            assert line(running) == "1 devices of ada published, generation 1"
        with driver(identity, "fpga-0", "fpga-1") as running:
            assert line(running) == "2 devices of ada published, generation 2"
            ask(folder / "kubeconfig", place_a_pod)
            assert line(running) == "fpga-1: pod default/job, claim job"
        with driver(identity, "fpga-0", "fpga-1") as running:
            assert line(running) == "2 devices of ada published, generation 2"
