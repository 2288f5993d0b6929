"""Pods with devices end to end: from their creation over TLS to their binding, by ``allot up`` in processes of its own.

Every measurement has a fresh server, with its fleet in place before the first pod. The clock runs from the first pod's
creation until this process, which makes the load with 32 requests in flight, sees the last pod bound on its watch. Then
all claims are read, and a device that is in two of them is an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.apiserver import ALLOT, Load

Json = dict[str, Any]

DRIVER = "gpu.example.com"
RESOURCES = "/apis/resource.k8s.io/v1"
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
HELD_BEFORE = 5  # devices of each pod that is there before
SETTLE_SECONDS = 1.0  # the server is left alone for so long before the clock starts
PATIENCE = 300.0
CLOCK_TICKS = 100  # a second, of /proc

_PROFILED = """
import atexit, cProfile, os, time
profile = cProfile.Profile(time.process_time)
atexit.register(lambda: profile.dump_stats(f"{profiles}/{{os.getpid()}}"))
profile.enable()
"""


@dataclass(frozen=True, slots=True)
class Burst:
    """What is created at once, and on what. ``held`` devices are in use before."""

    nodes: int = 500
    devices: int = 10
    pods: int = 2_500
    requests: int = 1
    selector: str = ""
    match: str = ""
    held: int = 0


PLAIN = Burst()
SELECTOR = (
    f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("1.0.0")) && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Gi"))'
)
BURSTS = {
    "plain": PLAIN,
    "a CEL selector": Burst(selector=SELECTOR),
    "five requests and matchAttribute (1,500 nodes)": Burst(nodes=1_500, requests=5, match=f"{DRIVER}/root"),
    "half full before": Burst(pods=2_000, held=2_500),
    "half full before, full after": Burst(held=2_500),
}


@dataclass(slots=True)
class Outcome:
    """How a burst went. Times in seconds, memory in megabytes."""

    seconds: float
    pods: int
    server_cpu: float
    load_cpu: float
    writes: float  # a pod
    resident: float
    peak: float

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    def note(self) -> str:
        return (
            f"{1000 * self.server_cpu / self.pods:.2f} ms of the server and {1000 * self.load_cpu / self.pods:.2f} ms "
            f"of the load a pod, {self.writes:.2f} writes a pod"
        )


# --- what is created ---


def node(name: str) -> Json:
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    status = {
        "capacity": offered,
        "allocatable": offered,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def slice_(name: str, devices: int) -> Json:
    def device(number: int) -> Json:
        attributes = {
            "model": {"string": "large"},
            "uuid": {"string": f"{name}-{number}"},
            "driverVersion": {"version": "1.8.2"},
            "root": {"string": f"{name}-{2 * number // devices}"},
        }
        capacity = {"memory": {"value": "80Gi"}}
        return {"name": f"gpu-{number}", "attributes": attributes, "capacity": capacity}

    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": pool,
        "devices": [device(number) for number in range(devices)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def template(name: str, burst: Burst, count: int) -> Json:
    exactly: Json = {"deviceClassName": "gpu", "count": count}
    if burst.selector:
        exactly["selectors"] = [{"cel": {"expression": burst.selector}}]
    devices: Json = {"requests": [{"name": f"r{n}", "exactly": exactly} for n in range(burst.requests)]}
    if burst.match:
        devices["constraints"] = [{"matchAttribute": burst.match}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": devices}},
    }


def pod(name: str, template: str) -> Json:
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": "100m"}}
    spec = {
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def prepare(load: Load, burst: Burst) -> None:
    """The fleet, the templates, and the pods that hold devices before."""
    chosen = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    class_ = {"metadata": {"name": "gpu"}, "spec": {"selectors": chosen}}
    await load.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await load.send("POST", f"{RESOURCES}/deviceclasses", class_)

    async def one(number: int) -> None:
        name = f"node-{number:05d}"
        await load.send("POST", "/api/v1/nodes", node(name))
        await load.send("POST", f"{RESOURCES}/resourceslices", slice_(name, burst.devices))

    await load.many(burst.nodes, one)
    templates = f"{RESOURCES}/namespaces/{NAMESPACE}/resourceclaimtemplates"
    await load.send("POST", templates, template("one", burst, 1))
    await load.send("POST", templates, template("before", Burst(), HELD_BEFORE))
    if burst.held:
        await create(load, "before", burst.held // HELD_BEFORE)


# --- the burst ---


class _Meta(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Seen(msgspec.Struct):
    object: _Pod


async def create(load: Load, template: str, pods: int) -> float:
    """Creates pods, and returns the seconds until the last is bound."""
    version = json.loads(await load.send("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
    decoder, bound, opened = msgspec.json.Decoder(_Seen), set[str](), asyncio.Event()

    async def watch() -> None:
        left = b""
        async with load.watch(f"{PODS}?watch=1&resourceVersion={version}") as reply:
            opened.set()
            async for chunk in reply.content.iter_any():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    seen = decoder.decode(line).object
                    if seen.spec.node_name:
                        bound.add(seen.metadata.name)
                if len(bound) >= pods:
                    return

    watching = asyncio.create_task(watch())
    await opened.wait()
    start = time.perf_counter()
    await load.many(pods, lambda n: load.send("POST", PODS, pod(f"{template}-{n:05d}", template)))
    try:
        await asyncio.wait_for(watching, PATIENCE)
    except TimeoutError:
        raise SystemExit(f"only {len(bound)} of {pods} pods were bound after {PATIENCE:.0f} s") from None
    return time.perf_counter() - start


async def check(load: Load, devices: int) -> int:
    """Raises SystemExit if a device is promised twice, or not so many are given; returns the server's revision."""
    found = json.loads(await load.send("GET", f"{RESOURCES}/resourceclaims"))
    given = [
        (result["driver"], result["pool"], result["device"])
        for claim in found["items"]
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    if len(given) != len(set(given)) or len(given) != devices:
        raise SystemExit(f"{len(given)} devices are given, {len(set(given))} different ones, not {devices}")
    return int(found["metadata"]["resourceVersion"])


async def _run(kubeconfig: Path, pid: int, burst: Burst) -> Outcome:
    async with Load(kubeconfig) as load:
        await prepare(load, burst)
        await asyncio.sleep(SETTLE_SECONDS)
        revision = await check(load, burst.held)
        server, own = cpu_seconds(pid), time.process_time()
        seconds = await create(load, "one", burst.pods)
        server, own = cpu_seconds(pid) - server, time.process_time() - own
        writes = (await check(load, burst.held + burst.pods * burst.requests) - revision) / burst.pods
        return Outcome(seconds, burst.pods, server, own, writes, memory(pid, "VmRSS"), memory(pid, "VmHWM"))


def measure(burst: Burst, profiles: Path | None = None) -> Outcome:
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder), profiles) as (kubeconfig, pid):
        return uvloop.run(_run(kubeconfig, pid, burst))


def measure_tool(tool: Path, *arguments: str) -> tuple[Json, float]:
    """What another load client says about the standard burst, and the server's peak memory in megabytes."""
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder)) as (kubeconfig, pid):
        size = ["--nodes", str(PLAIN.nodes), "--devices", str(PLAIN.devices), "--pods", str(PLAIN.pods)]
        command = [sys.executable, str(tool), "--kubeconfig", str(kubeconfig), *size, *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found: Json = json.loads(done.stdout.splitlines()[-1])
        return found, memory(pid, "VmHWM")


# --- the server ---


@contextlib.contextmanager
def control_plane(folder: Path, profiles: Path | None = None) -> Iterator[tuple[Path, int]]:
    """``allot up``: its kubeconfig and process id. With ``profiles`` each of its processes leaves a profile in that folder."""
    log, environment = folder / "log", dict(os.environ)
    if profiles is not None:
        (folder / "sitecustomize.py").write_text(_PROFILED.format(profiles=profiles))
        environment["PYTHONPATH"] = str(folder)
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(ALLOT), "up", "--data-dir", str(folder / "data"), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            env=environment,
        )
        try:
            assert process.stdout is not None
            if not any("Ctrl-C" in line for line in process.stdout):
                raise SystemExit(f"the control plane did not start:\n{log.read_text()}")
            yield folder / "data" / "kubeconfig", process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def memory(pid: int, field: str) -> float:
    """Of a process and those that it started, together."""
    found = [
        re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{each}/status").read_text()) for each in family(pid)
    ]
    return sum(int(each[1]) for each in found if each) / 1000


def cpu_seconds(pid: int) -> float:
    """What a process and those that it started have used so far, in user and system mode, all their threads together."""
    return sum(_own_seconds(each) for each in family(pid))


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _own_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
