"""Whatever the server let in, everything that reads it later copes with: all controllers, the scheduler, the server's own upkeep.

Conditions without a type, owners that never were, annotations that are no numbers: each was written by somebody who may.
None of it may stop a controller, a deletion, or the end of a namespace or of a definition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from allotment.api.status import NotFound, StatusError
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import found_in
from allotment.client.form import Obj
from allotment.controllers import names, suite
from allotment.controllers.controller import Controller
from allotment.scheduler.cluster import Cluster as Knowledge
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from tests.apiserver.odd_objects import Odd, odd_objects
from tests.apiserver.registry.custom.schemas import definition
from tests.controllers.cluster import Cluster, in_cluster

HERE = "odd"
SCHEDULER = Identity("allotment:scheduler", ("system:authenticated",))
RESOURCES = {resource.id: resource for resource in found_in(kinds) if resource.plural != "resourcequotas"}
"""All but quotas, which would rightly refuse most of what controllers make."""
CRDS = Path(__file__).parents[2] / "src/allotment/scheduler/volcano_crds.yaml"
AMOUNTS = (0, -1, "1", "1e400", "x", "", "-5", "10Ei", "5%", "\u0665")
CUSTOM = "widgets.example.com"


@pytest.mark.parametrize(
    "throw", [1, pytest.param(range(2, 42), marks=pytest.mark.soak)], ids=["once", "often"]
)
def test_odd_objects_stop_nobody(
    throw: int | range, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in [throw] if isinstance(throw, int) else throw:
        caplog.clear()
        in_cluster(tmp_path / str(number), partial(_live_through, Random(number)))
        told = [record.getMessage() + str(record.exc_info) for record in caplog.records if record.exc_info]
        assert not told, f"throw {number}: {told}"


async def _live_through(dice: Random, cluster: Cluster) -> None:
    await cluster.admin.plain("v1", "namespaces").create({"metadata": {"name": HERE}})
    await cluster.admin.plain("v1", "nodes").create({"metadata": {"name": "n"}})
    await _define_groups_and_queues(cluster, dice)
    stored = [odd for odd in odd_objects(RESOURCES, dice, HERE) if await _stored(cluster, odd)]
    assert len(stored) > 20, "most are refused"
    await _start_all(cluster)
    await cluster.quiet()
    await _define_and_empty(cluster, dice)
    await cluster.admin.plain("v1", "namespaces").delete(HERE)
    for odd in stored:
        await _let_go(cluster, odd)
    await cluster.quiet()
    await _gone(cluster, "v1", "namespaces", HERE)


async def _stored(cluster: Cluster, odd: Odd) -> bool:
    """Whether the server took it, with the first of its statuses that it took."""
    kind, name = _kind(cluster, odd), odd.obj["metadata"]["name"]
    if not await _taken(kind.create(odd.obj, _namespace(odd)), odd):
        return False
    for status in odd.statuses:
        if await _taken(kind.patch(name, {"status": status}, _namespace(odd), subresource="status"), odd):
            break
    return True


async def _taken(asked: Awaitable[Any], odd: Odd) -> bool:
    try:
        await asked
    except StatusError as refusal:
        if refusal.code >= 500:
            raise AssertionError(f"{odd.resource.id}: {refusal} for {odd}") from refusal
        return False
    return True


async def _start_all(cluster: Cluster) -> None:
    part = cluster.component()
    made = await suite.controllers(names.ALL, part.client, part.informers, part.recorder, CollectorRegistry())
    await part.start(*(each.reconciler for each in made if isinstance(each, Controller)))
    scheduling = cluster.component(SCHEDULER)
    await scheduling.start()
    core = Scheduler(Knowledge(), DEFAULT.rosters())
    scheduling._spawn(Driver(core, scheduling.client, scheduling.informers, scheduling.recorder).run())


async def _define_and_empty(cluster: Cluster, dice: Random) -> None:
    """A definition whose status is odd as well, with an object that is held: it goes when that does."""
    definitions = cluster.admin.plain("apiextensions.k8s.io/v1", "customresourcedefinitions")
    await definitions.create(definition())
    widgets = cluster.admin.plain("example.com/v1", "widgets")
    held = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "finalizers": ["a.io/x"]},
    }
    await _accepted(widgets.create, held, HERE)
    odd: list[Obj] = [
        {"status": "True"},
        {},
        {"type": "Terminating"},
        *([{"type": "Established"}] * dice.randrange(2)),
    ]
    await definitions.patch(CUSTOM, {"status": {"conditions": odd}}, subresource="status")
    await _accepted(definitions.delete, CUSTOM)
    await _accepted(widgets.patch, "w", {"metadata": {"finalizers": None}}, HERE)
    await _gone(cluster, "apiextensions.k8s.io/v1", "customresourcedefinitions", CUSTOM)


async def _define_groups_and_queues(cluster: Cluster, dice: Random) -> None:
    """Volcano's groups and queues, by definitions of somebody else's, which let amounts and unknown fields be anything."""
    definitions = cluster.admin.plain("apiextensions.k8s.io/v1", "customresourcedefinitions")
    for each in yaml.safe_load_all(CRDS.read_text()):
        await definitions.create(without_patterns(each))
    amounts: Obj = {
        "cpu": dice.choice(AMOUNTS),
        "deviceclass/gpu": dice.choice(AMOUNTS),
        "": dice.choice(AMOUNTS),
    }
    spec: Obj = {
        "minMember": dice.choice((0, 1, 2**31 - 1)),
        "minResources": amounts,
        "queue": dice.choice(("", "q", "r", "nobody's")),
        "capability": amounts,
        "deserved": amounts,
        "guarantee": {"resource": amounts},
        "parent": dice.choice(("", "q", "r", "root")),
        "dra": {"capability": {"gpu": {"count": 2**63 - 1}, "other": {"count": 0, "cores": "x"}}},
        "networkTopology": dice.choice(([], {"mode": 7}, {"highestTierAllowed": "x"})),
    }
    status: Obj = {
        "phase": dice.choice(("", "Inqueue", "odd")),
        "state": dice.choice(("", "Closed", "odd")),
        "conditions": [{}, {"type": "Scheduled"}],
        "allocated": amounts,
    }
    for kind, throws, namespace in (("podgroups", "xp", HERE), ("queues", "qr", "")):
        collection = cluster.admin.plain("scheduling.volcano.sh/v1beta1", kind)
        for name in throws:
            await _accepted(collection.create, {"metadata": {"name": name}, "spec": spec}, namespace)
            await collection.patch(name, {"status": status}, namespace, subresource="status")


def without_patterns(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without_patterns(inner) for name, inner in schema.items() if name != "pattern"}


async def _accepted(ask: Any, *what: Any) -> None:
    """Asks until the server has served the kind, which takes a turn of its upkeep."""
    async with asyncio.timeout(60):
        while True:
            try:
                await ask(*what)
            except NotFound:
                await asyncio.sleep(0)
            else:
                return


async def _let_go(cluster: Cluster, odd: Odd) -> None:
    """Deletes an object, and takes away what holds it."""
    kind, name, namespace = _kind(cluster, odd), odd.obj["metadata"]["name"], _namespace(odd)
    with suppress(NotFound):
        await kind.delete(name, namespace, grace_seconds=0)
        await kind.patch(name, {"metadata": {"finalizers": None}}, namespace)
    await _gone(cluster, odd.resource.api_version, odd.resource.plural, name, namespace)


async def _gone(cluster: Cluster, api_version: str, plural: str, name: str, namespace: str = "") -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.admin.plain(api_version, plural).get(name, namespace)
            except NotFound:
                return
            await asyncio.sleep(0.01)


def _kind(cluster: Cluster, odd: Odd) -> Any:
    return cluster.admin.plain(odd.resource.api_version, odd.resource.plural)


def _namespace(odd: Odd) -> str:
    return HERE if odd.resource.namespaced else ""
