"""The client and the embedded server together, in process and over TLS: the same steps give the same results."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from allotment.api.conversion import v1alpha2
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from allotment.api.status import AlreadyExists, Conflict, NotFound
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import ApiServer, Options
from allotment.client.backoff import Backoff
from allotment.client.client import Client, Happening
from allotment.client.connection import load
from allotment.client.discovery import discover
from allotment.client.in_process import InProcessTransport
from allotment.client.informer import Informer
from allotment.client.leader import LeaderElection
from allotment.client.over_http import HttpTransport
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.transport import Call, Disconnected
from tests.apiserver.beginning import begin

Obj = dict[str, Any]
Scenario = Callable[[Client], Awaitable[None]]
Way = Callable[[Path, Scenario], None]
PATIENCE = 60


@asynccontextmanager
async def serving(folder: Path, port: int | None = None) -> AsyncIterator[ApiServer]:
    await begin(folder)
    server = ApiServer(Options(folder, port=port))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def in_process(folder: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with serving(folder) as server:
            transport = InProcessTransport(server.app, {"identity": ADMINISTRATOR})
            async with Client(transport, manager="test") as client:
                await scenario(client)

    asyncio.run(run())


def over_tls(folder: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with serving(folder, port=0) as server:
            server.write_kubeconfig()
            transport = HttpTransport(load(server.folder.kubeconfig))
            async with Client(transport, manager="test") as client:
                await scenario(client)

    asyncio.run(run())


@pytest.fixture(params=[in_process, over_tls], ids=["in process", "over TLS"])
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def config_map(name: str, **data: str) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_typed_objects_go_in_and_come_out(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        exactly = ExactDeviceRequest(device_class_name="gpu")
        devices = DeviceClaim(requests=(DeviceRequest(name="one", exactly=exactly),))
        meta = ObjectMeta(name="c", namespace="default")
        claims = client.of(ResourceClaim)
        wanted = ResourceClaim(metadata=meta, spec=ResourceClaimSpec(devices=devices))
        made = await claims.create(wanted)
        assert made.metadata.uid
        found = await claims.get("c", "default")
        assert found.spec.devices.requests[0].exactly is not None
        assert found.spec.devices.requests[0].exactly.count == 1  # defaulted by the server
        with pytest.raises(AlreadyExists):
            await claims.create(wanted)
        await claims.delete("c", "default", uid=made.metadata.uid)
        with pytest.raises(NotFound, match='"c" not found'):
            await claims.get("c", "default")

    way(tmp_path, scenario)


def test_patches_keep_to_their_preconditions(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        maps = client.plain("v1", "configmaps")
        made = await maps.create(config_map("m", a="1"))
        version, uid = made["metadata"]["resourceVersion"], made["metadata"]["uid"]
        changed = await maps.patch("m", {"data": {"a": "2"}}, "default", uid=uid, version=version)
        assert changed["data"] == {"a": "2"}
        with pytest.raises(Conflict):
            await maps.patch("m", {"data": {"a": "3"}}, "default", version=version)
        with pytest.raises(Conflict):
            await maps.patch("m", {"data": {"a": "3"}}, "default", uid="another")
        applied = await maps.apply(config_map("m", b="1"), manager="other")
        assert applied["data"] == {"a": "2", "b": "1"}
        with pytest.raises(Conflict, match="conflict with"):
            await maps.apply(config_map("m", a="9"), manager="other")

    way(tmp_path, scenario)


def test_a_list_in_pages_and_a_watch_from_it_tell_one_story(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        maps = client.plain("v1", "configmaps")
        for number in range(7):
            await maps.create(config_map(f"m{number}"))
        listing = await maps.list("default", limit=3)
        assert [obj["metadata"]["name"] for obj in listing.items] == [f"m{number}" for number in range(7)]
        async with maps.watch("default", since=listing.version) as events:
            await maps.delete("m3", "default")
            event = await asyncio.wait_for(anext(events), PATIENCE)
            assert event.object is not None
            assert (event.type, event.object["metadata"]["name"]) == (Happening.DELETED, "m3")

    way(tmp_path, scenario)


def test_an_informer_follows(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        nodes = client.of(Node)
        await nodes.create(Node(metadata=ObjectMeta(name="first", labels={"zone": "a"})))
        informer = Informer(nodes, indexes={"zone": lambda node: [node.metadata.labels.get("zone")]})
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(informer.synced(), PATIENCE)
        made = await nodes.create(Node(metadata=ObjectMeta(name="second", labels={"zone": "a"})))
        await asyncio.wait_for(informer.reached(int(made.metadata.resource_version)), PATIENCE)
        assert {node.metadata.name for node in informer.by("zone", "a")} == {"first", "second"}
        informer.validate()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    way(tmp_path, scenario)


def test_discovery_finds_kinds_of_any_group(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        served = await discover(client)
        claims = served.find("resourceclaims", "allotment.dev", "resource.k8s.io")
        assert claims is not None
        assert claims.resource.api_version == "resource.k8s.io/v1"  # the preferred version
        assert "status" in claims.subresources
        assert served.has("resource.k8s.io/v1alpha2", "resourceclaims")
        found = served.named("po")
        assert found is not None
        assert (found.resource.plural, found.resource.namespaced) == ("pods", True)
        assert served.find("nothing", "resource.k8s.io") is None

    way(tmp_path, scenario)


def test_one_leads_and_events_are_told(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        teller = Recorder(client, "tester")

        async def lead() -> None:
            teller.tell(Subject("v1", "ConfigMap", "m", "default"), EventType.NORMAL, "Led", "it leads")
            await teller.flush()

        await LeaderElection(client, "lock", "default", "me").run(lead)
        events = await client.plain("v1", "events").list("default")
        assert [(event["reason"], event["message"]) for event in events.items] == [("Led", "it leads")]
        lease = await client.plain("coordination.k8s.io/v1", "leases").get("lock", "default")
        assert not lease["spec"].get("holderIdentity")  # given up

    way(tmp_path, scenario)


def test_an_informer_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, port=0) as server:
            server.write_kubeconfig()
            port = server.port
            client = Client(HttpTransport(load(server.folder.kubeconfig)), manager="test")
            maps = client.plain("v1", "configmaps")
            await maps.create(config_map("before"))
            informer = Informer(maps, "default", backoff=Backoff(0.01, 0.1))
            told: list[tuple[str | None, str | None]] = []
            informer.on_change(lambda old, new: told.append((name(old), name(new))))
            running = asyncio.ensure_future(informer.run())
            await asyncio.wait_for(informer.synced(), PATIENCE)
        async with serving(tmp_path, port=port):
            made = await maps.create(config_map("after"))
            await asyncio.wait_for(informer.reached(int(made["metadata"]["resourceVersion"])), PATIENCE)
            assert told == [(None, "before"), (None, "after")]  # nothing twice, nothing missed
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await client.close()

    asyncio.run(run())


def name(obj: Obj | None) -> str | None:
    return None if obj is None else obj["metadata"]["name"]


def test_leaving_a_watch_ends_it_on_the_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as server:
            client = Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}))
            before = server.store.stats.watches
            async with client.plain("v1", "configmaps").watch("default") as events:
                waiting = asyncio.ensure_future(anext(events))
                while server.store.stats.watches == before:
                    await asyncio.sleep(0)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting
            assert server.store.stats.watches == before

    asyncio.run(run())


def test_what_goes_wrong_while_a_watch_is_read_is_not_taken_for_its_end(way: Way, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(TimeoutError, match="of our own"):
            async with client.plain("v1", "configmaps").watch("default"):
                raise TimeoutError("of our own")

    way(tmp_path, scenario)


def test_a_call_that_takes_too_long_gave_no_answer() -> None:
    async def application(*_: object) -> Any:
        await asyncio.Event().wait()

    async def run() -> None:
        transport = InProcessTransport(application)
        calls = [transport.call(Call("GET", "/slow", timeout=seconds)) for seconds in (60, 0.01, 0.02)]
        waiting = [asyncio.ensure_future(call) for call in calls]
        for late in waiting[1:]:
            with pytest.raises(Disconnected, match=r"GET /slow: no answer within 0\.0[12] s"):
                await late
        assert not waiting[0].done()  # its own time is not up
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):  # by us, which is not the same
            await waiting[0]

    asyncio.run(run())


def test_a_claim_in_the_semantic_is_applied_again_after_its_allocation(tmp_path: Path) -> None:
    early, hub = "resource.k8s.io/v1alpha2", "resource.k8s.io/v1"
    claim: Obj = {
        "apiVersion": early,
        "kind": "ResourceClaim",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"resourceClassName": "cards"},
    }
    instances = {"nodeName": "node-1", "partitionable": {"instances": [{"id": "card/halves/half-0"}]}}
    handle = {"driverName": "cards.example.com", "semanticData": instances}
    allocated = v1alpha2.to_v1({**claim, "status": {"allocation": {"resourceHandles": [handle]}}})

    async def scenario(client: Client) -> None:
        claims = client.plain(early, "resourceclaims")
        made = await claims.apply(claim)
        patch = {"status": allocated["status"]}
        await client.plain(hub, "resourceclaims").patch("two", patch, "default", subresource="status")
        again = await claims.apply(claim)
        assert again["spec"] == made["spec"]
        assert again["status"]["allocation"]["resourceHandles"] == [handle]

    in_process(tmp_path, scenario)
