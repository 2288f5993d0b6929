"""The demo's fleet and workloads, the manifests of features, the fleet for the public manifests: a server accepts them all, and
they fit together. What a scheduler makes of them is tested with the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from allotment.allocator.features import Features
from allotment.allocator.pool import by_pool, gather_pools
from allotment.allocator.semantic_pools import partition_pools
from allotment.api import codec
from allotment.api.core import Node
from allotment.api.resource import ResourceSlice
from allotment.api.semantic import NodeResourceSlice
from allotment.api.status import StatusError
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import ApiServer, Options
from allotment.client.client import Client
from allotment.client.discovery import discover
from allotment.client.in_process import InProcessTransport
from allotment.controllers.simulation.marks import is_simulated
from tests.checkout import CHECKOUT

Obj = dict[str, Any]
FLEET = str(files("allotment.daemons") / "demo_fleet.yaml")
WORKLOADS = str(files("allotment.daemons") / "demo_workloads.yaml")
VOLCANO = str(files("allotment.scheduler") / "volcano_crds.yaml")
FEATURES = sorted((CHECKOUT / "examples" / "features").glob("*.yaml"))
FOR_MANIFESTS = str(CHECKOUT / "tests" / "manifests_fleet.yaml")
ALL_FEATURES = Features()


def read(path: str | Path) -> list[Obj]:
    return list(yaml.load_all(Path(path).read_text(), Loader=yaml.CSafeLoader))


async def apply(client: Client, objects: Iterable[Obj]) -> None:
    """As ``allot up --demo`` and ``kubectl apply --server-side`` do."""
    served = await discover(client)
    for obj in objects:
        kind = served.of_kind(obj["apiVersion"], obj["kind"])
        if kind.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        collection = client.plain(kind.api_version, kind.plural, namespaced=kind.namespaced)
        try:
            await collection.apply(obj)
            if "status" in obj:
                await collection.apply(obj, subresource="status")
        except StatusError as exc:
            raise AssertionError(f"{obj['kind']} {obj['metadata']['name']}: {exc}") from exc


def on_a_server(folder: Path, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Options(folder / "data"))
        await server.start()
        try:
            await scenario(Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR})))
        finally:
            await server.stop()

    asyncio.run(run())


def test_everything_for_the_demo_is_accepted_and_may_be_applied_again(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await apply(client, read(VOLCANO))
        definitions = client.plain("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
        async with asyncio.timeout(60), definitions.watch(initial_events=True) as changes:
            established: set[str] = set()
            async for change in changes:
                conditions = ((change.object or {}).get("status") or {}).get("conditions") or ()
                if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                    established.add((change.object or {})["metadata"]["name"])
                if len(established) == 2:
                    break
        for path in (FLEET, FLEET, WORKLOADS, *map(str, FEATURES)):
            await apply(client, read(path))

    on_a_server(tmp_path, scenario)


@pytest.mark.parametrize("path", FEATURES, ids=lambda path: str(path.stem))
def test_examples_leave_the_namespace_to_whoever_applies_them(path: Path) -> None:
    named = {obj["metadata"].get("namespace", "") for obj in read(path)}
    own = {obj["metadata"]["name"] for obj in read(path) if obj["kind"] == "Namespace"}
    assert named <= own | {""}


def test_the_fleet_for_the_public_manifests_is_accepted(tmp_path: Path) -> None:
    on_a_server(tmp_path, lambda client: apply(client, read(FOR_MANIFESTS)))


def test_a_misspelt_field_would_be_noticed(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        broken = read(FLEET)[0]
        broken["metadata"]["lables"] = {}
        with pytest.raises(AssertionError, match="lables"):
            await apply(client, [broken])

    on_a_server(tmp_path, scenario)


@pytest.mark.parametrize("path", [FLEET, FOR_MANIFESTS], ids=["demo", "public manifests"])
def test_every_pool_of_a_fleet_is_whole_and_within_reach(path: str) -> None:
    objects = read(path)
    nodes = [_typed(Node, obj) for obj in objects if obj["kind"] == "Node"]
    slices = [_typed(ResourceSlice, obj) for obj in objects if obj["kind"] == "ResourceSlice"]
    trees = [_typed(NodeResourceSlice, obj) for obj in objects if obj["kind"] == "NodeResourceSlice"]
    everywhere = by_pool(slices)
    reached = set()
    for node in nodes:
        assert is_simulated(node)
        pools = gather_pools(node, slices, ALL_FEATURES, everywhere=everywhere)
        pools += partition_pools(node.metadata.name, trees)
        for pool in pools:
            assert pool.usable, f"{pool.id}: {pool.invalid or 'incomplete'}"
            assert pool.devices
        reached |= {pool.id for pool in pools}
    assert reached == everywhere.keys() | {(tree.spec.driver_name, tree.spec.node_name) for tree in trees}


def test_the_demo_has_twelve_nodes_of_many_shapes() -> None:
    objects = read(FLEET)
    assert sum(obj["kind"] == "Node" for obj in objects) == 12
    slices = [obj["spec"] for obj in objects if obj["kind"] == "ResourceSlice"]
    devices = [device for spec in slices for device in spec.get("devices", ())]
    for shape in ("consumesCounters", "allowMultipleAllocations", "taints", "bindingConditions"):
        assert any(shape in device for device in devices), shape
    assert any("nodeSelector" in spec for spec in slices)
    named = ["extendedResourceName" in obj["spec"] for obj in objects if obj["kind"] == "DeviceClass"]
    assert set(named) == {True, False}


@pytest.mark.parametrize("path", [WORKLOADS, *FEATURES], ids=lambda path: Path(path).stem)
def test_what_workloads_name_is_there(path: str | Path) -> None:
    """Classes, templates, claims, groups and parameters: a name that nothing has would wait for ever."""
    objects = read(path)
    have = {(obj["kind"], obj["metadata"]["name"]) for obj in objects + read(FLEET)}
    for obj in objects:
        for kind, name in _references(obj):
            assert (kind, name) in have, f"{obj['kind']} {obj['metadata']['name']} names {kind} {name}"


@pytest.mark.parametrize("path", FEATURES, ids=lambda path: path.stem)
def test_every_feature_says_what_to_expect(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert "\n# Expect: " in text
    assert any(obj["kind"] == "Pod" for obj in read(path))


_NAMES = {
    "deviceClassName": "DeviceClass",
    "resourceClassName": "ResourceClass",
    "resourceClaimName": "ResourceClaim",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
    "podGroupName": "PodGroup",
    "scheduling.k8s.io/group-name": "PodGroup",
    "queue": "Queue",
}


def _references(value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in _NAMES:
                yield _NAMES[name], each
            elif name == "parametersRef":
                yield each["kind"], each["name"]
            else:
                yield from _references(each)


def _typed(type_: type[Any], obj: Obj) -> Any:
    return codec.decode(type_, msgspec.json.encode(obj))
