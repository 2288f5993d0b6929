"""``allot scheduler`` and ``allot controllers`` on the real API server, as service accounts with the roles in examples/."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.api.status import StatusError
from allotment.client.client import Client
from allotment.client.discovery import discover
from tests.cli import served
from tests.cli.served import Served, component, interrupted, said
from tests.cli.test_up import PATIENCE, ask
from tests.daemons.test_rights import MANIFEST, POOLS
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes
NAMESPACE = "components-alone"
OWN = "allotment.dev/v1beta2"


class Real(Served):
    """The real server, with the accounts of the manifest."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        super().__init__(folder)
        self._plane = plane

    @property
    def admin(self) -> Path:
        return self._plane.kubeconfig

    def kubeconfig(self, user: str) -> str:
        async def token(client: Client) -> str:
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            accounts = client.plain("v1", "serviceaccounts")
            return str((await accounts.act(user, "token", request, "kube-system"))["status"]["token"])

        config = yaml.safe_load(self.admin.read_text())
        config["users"][0]["user"] = {"token": ask(self.admin, token)}
        (self.folder / user).write_text(yaml.safe_dump(config))
        return str(self.folder / user)

    def apply(self, objects: list[dict[str, Any]]) -> None:
        async def steps(client: Client) -> None:
            found = await discover(client)
            for obj in objects:
                kind = found.of_kind(obj["apiVersion"], obj["kind"])
                collection = client.plain(kind.api_version, kind.plural, namespaced=kind.namespaced)
                await collection.apply(obj, force=True)
                if obj["kind"] == "Node":  # no kubelet and no node controller say that it is there
                    await collection.apply(obj, force=True, subresource="status")
                    await collection.patch(obj["metadata"]["name"], {"spec": {"taints": None}})

        ask(self.admin, steps)

    def remove(self, objects: list[dict[str, Any]]) -> None:
        """Other tests use this server too."""

        async def steps(client: Client) -> None:
            found = await discover(client)
            for obj in reversed(objects):
                kind, meta = found.of_kind(obj["apiVersion"], obj["kind"]), obj["metadata"]
                collection = client.plain(kind.api_version, kind.plural, namespaced=kind.namespaced)
                await collection.delete(meta["name"], meta.get("namespace", ""))

        ask(self.admin, steps)


def test_together_they_give_a_pod_its_device(kubernetes: ControlPlane, tmp_path: Path) -> None:
    real = Real(kubernetes, tmp_path)
    meta = {"name": NAMESPACE}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    wanted = served.gpu_pod("p", "alone", namespace=NAMESPACE, resourceClaimTemplateName="one")
    brought = [*yaml.safe_load_all(MANIFEST.read_text()), namespace]
    brought += [served.gpu_class(), *served.gpus("ada", 1), served.gpu_template("one", NAMESPACE)]
    real.apply(brought)
    with (
        component("controllers", "--kubeconfig", real.kubeconfig("allotment-controllers")) as making,
        component(
            "scheduler", "--kubeconfig", real.kubeconfig("allotment-scheduler"), "--name", "alone"
        ) as placing,
    ):
        assert said(making, "controllers: ") == "controllers: claims, device-taints"
        real.apply([wanted])

        def bound(obj: dict[str, Any]) -> bool:
            return obj["metadata"]["namespace"] == NAMESPACE and bool(obj["spec"].get("nodeName"))

        assert real.until("pods", bound)["spec"]["nodeName"] == "ada"
        claim = real.until(
            "resourceclaims", lambda obj: obj["metadata"]["namespace"] == NAMESPACE, "resource.k8s.io/v1"
        )
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        assert [interrupted(each) for each in (placing, making)] == [0, 0]
    real.remove(brought)


def test_pools_are_counted_where_their_kind_is_defined(kubernetes: ControlPlane, tmp_path: Path) -> None:
    real = Real(kubernetes, tmp_path)
    brought = [obj for file in (MANIFEST, POOLS) for obj in yaml.safe_load_all(file.read_text())]
    brought += served.gpus("grace", 2)
    real.apply(brought)

    async def is_served(client: Client) -> None:
        """The server discovers its new kind late, and has to fill a cache before it can be watched."""
        kind, watched = client.plain(OWN, "resourcepools", namespaced=False), False
        async with asyncio.timeout(PATIENCE):
            while not (watched and (await discover(client)).has(OWN, "resourcepools")):
                with suppress(StatusError):
                    async with kind.watch(initial_events=True):
                        watched = True

    async def is_gone(client: Client) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await discover(client)).has(OWN, "resourcepools"):
                pass

    ask(real.admin, is_served)
    try:
        with component("controllers", "--kubeconfig", real.kubeconfig("allotment-controllers")) as counting:
            assert said(counting, "controllers: ") == "controllers: claims, device-taints, pools"

            def counted(obj: dict[str, Any]) -> bool:
                return obj["metadata"]["name"] == "gpu.example.com.grace" and "status" in obj

            pool = real.until("resourcepools", counted, OWN)
            assert pool["spec"] == {"driver": "gpu.example.com", "poolName": "grace", "nodeName": "grace"}
            assert pool["status"]["summary"]["availableDevices"] == 2
            assert interrupted(counting) == 0
    finally:
        real.remove(brought)
        ask(real.admin, is_gone)
