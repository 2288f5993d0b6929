"""What components may do with the roles in examples/kubernetes: enough to start, and nothing that they do not need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import ApiServer, Options
from allotment.cli.commands import controllers, scheduler
from allotment.client.client import Client
from allotment.client.discovery import AnnouncedResource, Discovery, discover
from allotment.client.form import ResourcePath
from allotment.client.in_process import InProcessTransport
from allotment.client.rights import Right, missing, words, writing
from allotment.controllers import suite
from allotment.daemons.service import Service
from tests.checkout import CHECKOUT

MANIFEST = CHECKOUT / "examples" / "kubernetes" / "components.yaml"
FORBIDDEN = (
    "get,list: core: secrets",
    "create,patch: core: pods",
    "delete: core: nodes",
    "create: rbac.authorization.k8s.io: clusterrolebindings",
    "delete: coordination.k8s.io: leases",
)


POOLS = MANIFEST.with_name("resource_pools.yaml")
OVERLAYS = MANIFEST.with_name("node_overlays.yaml")
MACHINES = MANIFEST.with_name("machines.yaml")
AUTOSCALING = MANIFEST.with_name("autoscaling.yaml")


def as_account(
    name: str, folder: Path, ask: Callable[[Client], Awaitable[list[Right]]], *more: Path
) -> list[Right]:
    """Asks as a service account of the manifest, on a server where it has been applied."""

    async def run() -> list[Right]:
        server = ApiServer(Options(folder))
        await server.start()
        try:
            admin = Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}))
            served = await discover(admin)
            files = (MANIFEST, POOLS, OVERLAYS, *more)
            for obj in (obj for file in files for obj in yaml.safe_load_all(file.read_text())):
                kind = served.of_kind(obj["apiVersion"], obj["kind"])
                await admin.plain(kind.api_version, kind.plural, namespaced=kind.namespaced).create(obj)
            groups = ("system:serviceaccounts", "system:authenticated")
            identity = Identity(f"system:serviceaccount:kube-system:{name}", groups)
            return await ask(Client(InProcessTransport(server.app, {"identity": identity})))
        finally:
            await server.stop()

    return asyncio.run(run())


def service(name: str) -> Service:
    return Service(name, None, None, True, "127.0.0.1", None)


async def of_scheduler(client: Client) -> list[Right]:
    return await scheduler.rights_of(service("scheduler"), client)


async def of_controllers(client: Client) -> list[Right]:
    return await controllers.rights_of(service("controllers"), client, ("claims", "device-taints"))


@pytest.mark.parametrize(
    ("account", "needed"), [("allotment-scheduler", of_scheduler), ("allotment-controllers", of_controllers)]
)
def test_the_roles_for_a_real_cluster_suffice_and_no_more(
    tmp_path: Path, account: str, needed: Callable[[Client], Awaitable[list[Right]]]
) -> None:
    async def ask(client: Client) -> list[Right]:
        rights = await needed(client)
        assert len(rights) > 20
        assert await missing(client, rights) == []
        return await missing(client, writing(FORBIDDEN))

    assert as_account(account, tmp_path, ask) == writing(FORBIDDEN)


def test_pools_are_written_where_they_are_defined_and_the_role_for_that_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def defined(client: Client) -> Discovery:
        return Discovery([AnnouncedResource(ResourcePath("allotment.dev/v1beta2", "resourcepools", False))])

    async def ask(client: Client) -> list[Right]:
        rights = await controllers.rights_of(service("controllers"), client, ("pools",))
        assert Right("patch", "allotment.dev", "resourcepools/status") in rights
        assert not [
            right for right in rights if "request" in right.resource
        ]  # Kubernetes answers them itself
        return await missing(client, rights)

    monkeypatch.setattr(suite, "discover", defined)
    assert as_account("allotment-controllers", tmp_path, ask) == []


def test_the_role_for_overlays_suffices(tmp_path: Path) -> None:
    async def ask(client: Client) -> list[Right]:
        rights = await controllers.rights_of(service("controllers"), client, ("overlays",))
        assert Right("patch", "karpenter.sh", "nodeoverlays/status") in rights
        own = [right for right in rights if right.group in ("karpenter.sh", "allotment.dev")]
        return await missing(client, own)

    assert as_account("allotment-controllers", tmp_path, ask) == []


@pytest.mark.parametrize("provider", ["simulated", "groups"])
def test_the_role_for_machines_suffices(tmp_path: Path, provider: str) -> None:
    async def ask(client: Client) -> list[Right]:
        rights = await controllers.rights_of(service("controllers"), client, ("machines",), provider)
        assert Right("patch", "karpenter.sh", "nodeclaims/status") in rights
        played = writing(("create: core: nodes", "create: resource.k8s.io: resourceslices"))
        return await missing(client, rights + played)

    assert as_account("allotment-controllers", tmp_path, ask, MACHINES) == []


def test_the_roles_for_autoscaling_suffice_with_a_lease_of_its_own(tmp_path: Path) -> None:
    async def ask(client: Client) -> list[Right]:
        rights = await controllers.rights_of(service("autoscaler"), client, ("autoscaling", "machines"))
        assert Right("create", "karpenter.sh", "nodeclaims") in rights
        return await missing(client, rights)

    assert as_account("allotment-controllers", tmp_path, ask, MACHINES, AUTOSCALING) == []


def test_rights_on_one_thing_are_told_together() -> None:
    told = words([*writing(["list,watch: core: pods", "patch: resource.k8s.io: resourceclaims/status"])])
    assert told == ["list,watch pods", "patch resourceclaims/status.resource.k8s.io"]
