"""One pod's way out: what is written, once, and only to the pod that was meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from allotment.api.core import Pod
from allotment.api.status import Conflict
from allotment.client.client import Client
from allotment.client.transport import Call, Reply
from allotment.controllers.controller import Again
from allotment.controllers.taints.eviction import FAR, LONGEST_TIMER, Evictions, EvictionWords, later
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.failing import Failing
from tests.controllers.taints.evictions import START, Clock
from tests.controllers.taints.test_node_taint_eviction import bearing_pod

Scenario = Callable[[Cluster, Evictions, Client, list[str]], Awaitable[None]]


def with_evictions(folder: Path, scenario: Scenario) -> None:
    async def run(cluster: Cluster) -> None:
        connection = Failing()  # never: only to see the writes
        part = cluster.component(through=connection.through)
        evictions = Evictions(part.client, part.recorder, EvictionWords("Event", "Reason", "why"), Clock())
        await cluster.create(bearing_pod("p", "n"))
        await scenario(cluster, evictions, part.client, connection.writes)

    in_cluster(folder, run)


def test_a_pod_is_evicted_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        copy = await client.of(Pod).get("p", "default")
        assert await evictions.evict(copy)
        assert not await evictions.evict(copy)  # the copy does not show it yet
        path = "/api/v1/namespaces/default/pods/p"
        assert writes == [f"PATCH {path}/status", f"DELETE {path}"]

    with_evictions(tmp_path, scenario)


def test_a_pod_whose_end_is_seen_before_the_reply_is_forgotten(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        copy = await client.of(Pod).get("p", "default")
        calls = client.transport.call

        async def faster(call: Call) -> Reply:
            reply = await calls(call)
            if call.method == "DELETE":
                evictions.forget(copy.metadata.uid)
            return reply

        client.transport.call = faster  # type: ignore[method-assign]  # the watch is faster than the reply
        assert await evictions.evict(copy)
        assert not evictions._evicted

    with_evictions(tmp_path, scenario)


def test_a_condition_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        ours = {"type": "DisruptionTarget", "status": "True", "reason": "Reason"}
        pods = cluster.admin.plain("v1", "pods")
        await pods.patch("p", {"status": {"conditions": [ours]}}, "default", subresource="status")
        assert await evictions.evict(await client.of(Pod).get("p", "default"))
        assert [write.split()[0] for write in writes] == ["DELETE"]

    with_evictions(tmp_path, scenario)


def test_a_condition_for_another_reason_keeps_its_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        since = "2029-01-01T00:00:00Z"
        theirs = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "Other",
            "lastTransitionTime": since,
        }
        pods = cluster.admin.plain("v1", "pods")
        await pods.patch("p", {"status": {"conditions": [theirs]}}, "default", subresource="status")
        assert await evictions.evict(await client.of(Pod).get("p", "default"))
        (found,) = (await client.of(Pod).get("p", "default")).status.conditions
        assert (found.reason, found.last_transition_time) == ("Reason", since)

    with_evictions(tmp_path, scenario)


def test_neither_a_changed_pod_nor_another_of_its_name_is_touched(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        copy = await client.of(Pod).get("p", "default")
        pods = cluster.admin.plain("v1", "pods")
        await pods.patch("p", {"metadata": {"labels": {"a": "b"}}}, "default")
        with pytest.raises(Conflict):
            await evictions.evict(copy)
        await pods.delete("p", "default", grace_seconds=0)
        await cluster.create(bearing_pod("p", "n"))
        with pytest.raises(Conflict):
            await evictions.evict(copy)
        after = await client.of(Pod).get("p", "default")
        assert after.metadata.deletion_timestamp is None
        assert after.status.conditions == ()

    with_evictions(tmp_path, scenario)


def test_waits_are_bounded(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, evictions: Evictions, client: Client, writes: list[str]) -> None:
        copy = await client.of(Pod).get("p", "default")
        assert evictions.wait(copy, START) is None
        soon = evictions.wait(copy, START + timedelta(seconds=5))
        assert isinstance(soon, Again)
        assert soon.after == 5
        for deadline in (FAR, later(START, 2**62)):
            far = evictions.wait(copy, deadline)
            assert isinstance(far, Again)
            assert far.after == LONGEST_TIMER

    with_evictions(tmp_path, scenario)
