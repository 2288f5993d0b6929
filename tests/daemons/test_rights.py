"""What components may do with the roles in examples/kubernetes: enough to start, and nothing that they do not need."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from allotment.api.rights import READING, Grant, gathered, grant
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import ApiServer, Options
from allotment.client import leader
from allotment.client.client import Client
from allotment.client.discovery import AnnouncedResource, Discovery, discover
from allotment.client.form import ResourcePath
from allotment.client.in_process import InProcessTransport
from allotment.client.rights import Right, granted, missing, words
from allotment.controllers import names, suite
from allotment.daemons import rights
from allotment.daemons.service import Service
from allotment.scheduler import driver
from tests.checkout import CHECKOUT

MANIFEST = CHECKOUT / "examples" / "kubernetes" / "components.yaml"
FORBIDDEN = (
    "get,list: core: secrets",
    "create,patch: core: pods",
    "delete: core: nodes",
    "create: rbac.authorization.k8s.io: clusterrolebindings",
    "delete: coordination.k8s.io: leases",
)


CUSTOM = {
    "noderesourceslices",
    "resourceclaimparameters",
    "resourceclasses",
    "resourceclassparameters",
    "resourcepools",
}
LEADING = granted(leader.rights("allotment-controllers"), "kube-system")
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


def as_administrator(folder: Path, ask: Callable[[Client], Awaitable[set[Right]]]) -> set[Right]:
    async def run() -> set[Right]:
        server = ApiServer(Options(folder))
        await server.start()
        try:
            return await ask(Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR})))
        finally:
            await server.stop()

    return asyncio.run(run())


def elsewhere(found: Iterable[Right]) -> list[Right]:
    """The same rights on a cluster that has the kinds that Kubernetes lacks as custom resources."""
    return [
        replace(right, group="allotment.dev") if right.resource.partition("/")[0] in CUSTOM else right
        for right in found
    ]


def service(name: str) -> Service:
    return Service(name, None, None, True, "127.0.0.1", None)


async def of_scheduler(client: Client) -> list[Right]:
    return await rights.of_scheduler(service("scheduler"), client)


async def of_controllers(client: Client) -> list[Right]:
    return await rights.of_controllers(service("controllers"), client, ("claims", "device-taints"))


@pytest.mark.parametrize(
    ("account", "needed"), [("allotment-scheduler", of_scheduler), ("allotment-controllers", of_controllers)]
)
def test_the_roles_for_a_real_cluster_suffice_and_no_more(
    tmp_path: Path, account: str, needed: Callable[[Client], Awaitable[list[Right]]]
) -> None:
    async def ask(client: Client) -> list[Right]:
        found = await needed(client)
        assert len(found) > 20
        assert await missing(client, elsewhere(found)) == []
        return await missing(client, granted(FORBIDDEN))

    assert as_account(account, tmp_path, ask) == granted(FORBIDDEN)


def test_pools_are_written_where_they_are_defined_and_the_role_for_that_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def defined(client: Client) -> Discovery:
        return Discovery([AnnouncedResource(ResourcePath("allotment.dev/v1beta2", "resourcepools", False))])

    async def ask(client: Client) -> list[Right]:
        found = await rights.of_controllers(service("controllers"), client, ("pools",))
        assert Right("patch", "allotment.dev", "resourcepools/status") in found
        assert not [right for right in found if "request" in right.resource]  # Kubernetes answers them itself
        return await missing(client, found)

    monkeypatch.setattr(suite, "discover", defined)
    assert as_account("allotment-controllers", tmp_path, ask) == []


def test_the_role_for_overlays_suffices(tmp_path: Path) -> None:
    async def ask(client: Client) -> list[Right]:
        found = await rights.of_controllers(service("controllers"), client, ("overlays",))
        assert Right("patch", "karpenter.sh", "nodeoverlays/status") in found
        own = [right for right in found if right.group in ("karpenter.sh", "allotment.dev")]
        return await missing(client, own)

    assert as_account("allotment-controllers", tmp_path, ask) == []


@pytest.mark.parametrize("provider", ["simulated", "groups"])
def test_the_role_for_machines_suffices(tmp_path: Path, provider: str) -> None:
    async def ask(client: Client) -> list[Right]:
        found = await rights.of_controllers(service("controllers"), client, ("machines",), provider)
        assert Right("patch", "karpenter.sh", "nodeclaims/status") in found
        made = granted(("create: core: nodes", "create: resource.k8s.io: resourceslices"))
        assert set(made) <= set(found) if provider == "simulated" else set(made).isdisjoint(found)
        return await missing(client, elsewhere(found))

    assert as_account("allotment-controllers", tmp_path, ask, MACHINES) == []


def test_the_roles_for_autoscaling_suffice_with_a_lease_of_its_own(tmp_path: Path) -> None:
    async def ask(client: Client) -> list[Right]:
        found = await rights.of_controllers(service("autoscaler"), client, ("autoscaling", "machines"))
        assert Right("create", "karpenter.sh", "nodeclaims") in found
        return await missing(client, elsewhere(found))

    assert as_account("allotment-controllers", tmp_path, ask, MACHINES, AUTOSCALING) == []


@pytest.mark.parametrize("name", names.ALL)
def test_a_controller_states_that_it_reads_what_it_follows(tmp_path: Path, name: str) -> None:
    async def followed(client: Client) -> set[Right]:
        found = await rights.of_controllers(service("controllers"), client, (name,), "groups")
        return {right for right in found if right.verb in READING}

    asked = as_administrator(tmp_path, followed)
    stated = granted((*suite.RIGHTS[name], *suite.EMBEDDED_RIGHTS.get(name, ())))
    providers = granted(suite.PROVIDER_RIGHTS["groups"]) if name == names.MACHINES else []
    assert asked - {*LEADING, *stated, *providers} == set()


def test_the_scheduler_states_that_it_reads_what_it_follows(tmp_path: Path) -> None:
    async def followed(client: Client) -> set[Right]:
        found = await rights.of_scheduler(service("scheduler"), client)
        return {right for right in found if right.verb in READING}

    stated = {*granted(driver.RIGHTS), *granted(leader.rights("allotment-scheduler"), "kube-system")}
    assert as_administrator(tmp_path, followed) - stated == set()


def test_the_manifests_and_the_embedded_roles_are_what_the_statements_say() -> None:
    spec = importlib.util.spec_from_file_location("manifests", CHECKOUT / "tools" / "manifests.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    old = [path.name for path, text in tool.written().items() if path.read_text() != text]
    assert not old, f"`make manifests` writes {', '.join(old)} anew"


def test_every_role_of_the_manifests_is_written_by_the_tool() -> None:
    texts = (path.read_text() for path in MANIFEST.parent.glob("*.yaml"))
    found = {
        obj["metadata"]["name"]
        for text in texts
        for obj in yaml.safe_load_all(text)
        if obj["kind"] == "ClusterRole"
    }
    assert found - {"allotment-pool-reader"} == set(rights.manifest_roles())  # people have that one


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("get: core: pods", Grant(("get",), ("",), ("pods",))),
        ("get,list: apps,batch: a,b/status", Grant(("get", "list"), ("apps", "batch"), ("a", "b/status"))),
        ("get: core: pods: a,b", Grant(("get",), ("",), ("pods",), ("a", "b"))),
        ("get: core: pods: @ns", Grant(("get",), ("",), ("pods",), namespace="ns")),
        ("get: /livez,/x", Grant(("get",), paths=("/livez", "/x"))),
        ("get: ours: pools", Grant(("get",), ("resource.k8s.io", "allotment.dev"), ("pools",))),
    ],
)
def test_a_line_says_what_is_granted_and_where(line: str, expected: Grant) -> None:
    assert grant(line) == expected
    assert grant(expected.line) == expected


def test_gathering_keeps_every_right_once() -> None:
    lines = (
        "get: core: pods",
        "list,get: core: pods,nodes",
        "patch: core: pods: a",
        "patch: core: pods: @ns",
        "get,list: apps: pods,nodes",
    )
    found = gathered(map(grant, lines))
    assert [each.line for each in found] == [
        "get,list: core,apps: nodes,pods",
        "patch: core: pods: @ns",
        "patch: core: pods: a",
    ]
    assert set(granted(each.line for each in found)) == set(granted(lines))


def test_rights_on_one_thing_are_told_together() -> None:
    told = words([*granted(["list,watch: core: pods", "patch: resource.k8s.io: resourceclaims/status"])])
    assert told == ["list,watch pods", "patch resourceclaims/status.resource.k8s.io"]
