"""The real Kubernetes control plane for one test session: etcd, kube-apiserver and a few controllers, on loopback.

The programs come from the folder that ``make -s kubernetes-path`` prints (``make kubernetes`` fills it; KUBEBUILDER_ASSETS
overrides it). All state lives in a temporary folder; etcd does not fsync, since nothing here outlives the session.
All API versions and everything that resource.k8s.io and scheduling.k8s.io offer are switched on, so the contract covers all of it.
Lists of the past come from etcd and not from the server's cache of them, so that a test can make them expire.

The processes are ended in reverse order on the way out, whatever happened; a program that does not come up raises with
the tail of its log.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.checkout import CHECKOUT
from tests.kubernetes.certificates import Authority, Pair

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
PATIENCE = 120.0  # seconds for a program to be ready: the machine may be busy with other tests

FEATURES = (
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPartitionableDevicesType",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
)
APIS = (
    "api/all",
    *("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
    "scheduling.k8s.io/v1beta1",
)
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
)


class Absent(Exception):
    """The programs are not there; the message says what to do."""


def programs() -> Path:
    """The folder with the built programs. Make knows: its name depends on the version."""
    made = subprocess.run(
        ["make", "-s", "kubernetes-path"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise Absent(f"make kubernetes-path failed: {made.stderr.strip()}")
    folder = Path(made.stdout.strip())
    missing = [name for name in PROGRAMS if not (folder / name).exists()]
    if missing:
        raise Absent(
            f"the real Kubernetes ({', '.join(missing)} in {folder}): run `make kubernetes`, which needs Go"
        )
    return folder


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane. ``authority`` signs further client certificates."""

    url: str
    etcd: str
    authority: Authority
    admin: Pair
    kubeconfig: Path

    @property
    def ca(self) -> Path:
        return self.authority.pair.certificate

    def compact(self, revision: int) -> None:
        """Makes etcd forget everything before a revision, so that lists pinned before it expire."""
        body = json.dumps({"revision": str(revision), "physical": True}).encode()
        request = urllib.request.Request(f"{self.etcd}/v3/kv/compaction", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            reply.read()


@contextlib.contextmanager
def control_plane(folder: Path, controllers: Sequence[str] = CONTROLLERS) -> Iterator[ControlPlane]:
    """Starts everything, waits until it is ready, and ends everything. Raises Absent where the programs are not.

    ``controllers`` are as kube-controller-manager takes them: ``*`` are those that run by default, ``-name`` is without one."""
    where = programs()
    authority = Authority(folder, datetime.datetime.now(datetime.UTC))
    admin = authority.client("admin", ["system:masters"])
    etcd_port, peer_port, api_port = _free_ports(3)
    plane = ControlPlane(
        f"https://127.0.0.1:{api_port}",
        f"http://127.0.0.1:{etcd_port}",
        authority,
        admin,
        folder / "kubeconfig",
    )
    write_kubeconfig(plane.kubeconfig, plane.url, plane.ca, admin)
    with contextlib.ExitStack() as stack:
        start = _Starter(where, folder, stack)
        process = start("etcd", _etcd_flags(folder, plane.etcd, peer_port))
        start.wait(process, "etcd", lambda: _answers(f"{plane.etcd}/readyz", None))
        trust = client_context(plane.ca, admin)
        process = start("kube-apiserver", _apiserver_flags(folder, plane, api_port))
        start.wait(process, "kube-apiserver", lambda: _answers(f"{plane.url}/readyz", trust))
        process = start("kube-controller-manager", _controller_flags(folder, plane, controllers))
        start.wait(process, "kube-controller-manager", lambda: _has_default_account(plane.url, trust))
        yield plane


def client_context(ca: Path, pair: Pair | None = None) -> ssl.SSLContext:
    """Trust in the authority, and the client's own certificate if it has one."""
    context = ssl.create_default_context(cafile=str(ca))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def write_kubeconfig(path: Path, url: str, ca: Path, pair: Pair) -> None:
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(config))


def _etcd_flags(folder: Path, url: str, peer_port: int) -> list[str]:
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _apiserver_flags(folder: Path, plane: ControlPlane, port: int) -> list[str]:
    serving = plane.authority.server("kube-apiserver")
    accounts = plane.authority.client("service-accounts")
    return [
        f"--etcd-servers={plane.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={plane.ca}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        f"--feature-gates={','.join(f'{feature}=true' for feature in FEATURES)},ListFromCacheSnapshot=false",
        f"--runtime-config={','.join(f'{api}=true' for api in APIS)}",
    ]


def _controller_flags(folder: Path, plane: ControlPlane, controllers: Sequence[str]) -> list[str]:
    return [
        f"--kubeconfig={plane.kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--feature-gates={','.join(f'{feature}=true' for feature in FEATURES)}",
    ]


class _Starter:
    """Starts programs whose end is on the stack, with their output in a log each."""

    def __init__(self, programs: Path, folder: Path, stack: contextlib.ExitStack) -> None:
        self._programs, self._folder, self._stack = programs, folder, stack

    def __call__(self, name: str, flags: Sequence[str]) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [self._programs / name, *flags], stdout=log, stderr=subprocess.STDOUT, cwd=self._folder
        )
        self._stack.callback(_end, process)
        return process

    def wait(self, process: subprocess.Popen[bytes], name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                log = (self._folder / f"{name}.log").read_text(errors="replace")
                raise RuntimeError(f"{name} did not come up; the end of its log:\n{log[-4000:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _has_default_account(url: str, context: ssl.SSLContext) -> bool:
    return _answers(f"{url}/api/v1/namespaces/default/serviceaccounts/default", context)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
