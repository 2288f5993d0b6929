"""Pools and questions about them on the server: who writes them, what stays, what `kubectl get` shows."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.auth.users import CONTROLLERS
from tests.apiserver.http.serving import Reply, Serving, serving

Json = dict[str, Any]
POOLS = "/apis/resource.k8s.io/v1beta2/resourcepools"
REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
MERGE = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
TIME = "2026-01-02T03:04:05Z"


def condition(type_: str, status: str = "True", reason: str = "ItIs") -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": TIME}


STATUS: Json = {
    "summary": {
        "totalDevices": 8,
        "allocatedDevices": 3,
        "availableDevices": 4,
        "unavailableDevices": 1,
        "partiallyAllocatedDevices": 2,
    },
    "conditions": [condition("Complete"), condition("Valid", "False", "DuplicateDevices")],
    "validationErrors": ["device gpu-0 is in two slices"],
    "observedSliceCount": 1,
    "expectedSliceCount": 1,
    "observedGeneration": 5,
    "lastUpdateTime": TIME,
}


def pool(name: str = "gpu.example.com.node-1", node: str | None = "node-1") -> Json:
    spec = {"driver": "gpu.example.com", "poolName": "node-1", **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "ResourcePool",
        "metadata": {"name": name},
        "spec": spec,
        "status": copy.deepcopy(STATUS),
    }


def question(name: str = "q", **spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", **spec},
    }


Story = Callable[[Serving, Serving], Awaitable[None]]


@pytest.fixture
def told(tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story with a server as an administrator and as the controller see it."""

    def tell(story: Story) -> None:
        async def main() -> None:
            async with serving(tmp_path) as admin:
                controller = Serving(admin.server, Identity(CONTROLLERS, ("system:authenticated",)))
                await story(admin, controller)

        asyncio.run(main())

    return tell


def cells(reply: Reply) -> list[list[Any]]:
    return [row["cells"] for row in reply.json["rows"]]


def test_a_pool_is_the_controllers(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        refused = await admin.call("POST", POOLS, pool())
        assert refused.status == 403
        assert f'only the controller, user "{CONTROLLERS}", makes pools' in refused.json["message"]
        made = await controller.call("POST", POOLS, pool())
        assert (made.status, made.json["status"]) == (201, STATUS)  # with its counts, in one write
        path = f"{POOLS}/{pool()['metadata']['name']}"
        forged = {**STATUS, "summary": {**STATUS["summary"], "availableDevices": 5, "unavailableDevices": 0}}
        for who in (ADMINISTRATOR, Identity("eve", ("system:masters", "system:authenticated"))):
            as_them = Serving(admin.server, who)
            for reply in (
                await as_them.call("PUT", f"{path}/status", {**made.json, "status": forged}),
                await as_them.call("PATCH", f"{path}/status", {"status": forged}, MERGE),
                await as_them.call("PATCH", f"{path}/status", {"status": None}, MERGE),
                await as_them.call("PATCH", f"{path}/status", {"status": forged}, MERGE, dryRun="All"),
            ):
                assert reply.status == 403
                assert "writes their status" in reply.json["message"]
        changed = await controller.call("PATCH", f"{path}/status", {"status": forged}, MERGE)
        assert (changed.status, changed.json["status"]) == (200, forged)
        labelled = await admin.call(
            "PATCH", path, {"metadata": {"labels": {"a": "b"}}, "status": STATUS}, MERGE
        )
        assert (labelled.status, labelled.json["status"]) == (200, forged)
        assert (await admin.call("DELETE", path)).status == 200

    told(story)


def test_everybody_reads_pools_and_nobody_else_writes_them(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        await controller.call("POST", POOLS, pool())
        someone = Serving(admin.server, Identity("someone", ("system:authenticated",)))
        read = await someone.call("GET", f"{POOLS}/{pool()['metadata']['name']}")
        assert (read.status, read.json["status"]) == (200, STATUS)
        assert (await someone.call("DELETE", f"{POOLS}/{pool()['metadata']['name']}")).status == 403
        stranger = Serving(admin.server, Identity("system:anonymous", ("system:unauthenticated",)))
        assert (await stranger.call("GET", POOLS)).status == 403

    told(story)


def test_what_a_pool_is_about_stays_and_its_counts_add_up(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        await controller.call("POST", POOLS, pool())
        path = f"{POOLS}/{pool()['metadata']['name']}"
        moved = await admin.call("PATCH", path, {"spec": {"nodeName": "node-2"}}, MERGE)
        assert (moved.status, moved.json["details"]["causes"][0]["field"]) == (422, "spec")
        wrong = {"status": {"summary": {"totalDevices": 9}}}
        refused = await controller.call("PATCH", f"{path}/status", wrong, MERGE)
        assert refused.status == 422
        assert "status.summary.totalDevices" in refused.json["message"]
        new = pool("other")
        new["status"]["summary"]["totalDevices"] = 9
        assert (await controller.call("POST", POOLS, new)).status == 422
        much = {"status": {"summary": {"totalDevices": 2**31}}}
        assert (await controller.call("PATCH", f"{path}/status", much, MERGE)).status in (400, 422)

    told(story)


def test_pools_are_shown_and_selected(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        await controller.call("POST", POOLS, pool())
        await controller.call("POST", POOLS, {**pool("fabric", None), "status": {}})
        shown = await admin.call("GET", POOLS, headers=TABLE)
        columns = shown.json["columnDefinitions"]
        assert [each["name"] for each in columns if not each["priority"]] == [
            *("Name", "Driver", "Total", "Allocated", "Available")
        ]
        assert [each["name"] for each in columns if each["priority"]] == [
            *("Pool", "Node", "Unavailable", "Partial", "Complete", "Valid", "Age")
        ]
        fabric, node = cells(shown)
        assert fabric[:-1] == [
            *("fabric", "gpu.example.com", None, None, None),
            *("node-1", "", None, None, "Unknown", "Unknown"),
        ]
        assert node[:-1] == [
            *("gpu.example.com.node-1", "gpu.example.com", 8, 3, 4),
            *("node-1", "node-1", 1, 2, "True", "False (DuplicateDevices)"),
        ]
        for selector, names in (
            ("spec.nodeName=node-1", ["gpu.example.com.node-1"]),
            ("spec.nodeName=", ["fabric"]),
            ("spec.driver=gpu.example.com,spec.poolName=node-1", ["fabric", "gpu.example.com.node-1"]),
            ("spec.driver=nic.example.com", []),
        ):
            found = await admin.call("GET", POOLS, fieldSelector=selector)
            assert [each["metadata"]["name"] for each in found.json["items"]] == names

    told(story)


ANSWER: Json = {
    "poolCount": 3,
    "pools": [
        {
            "driver": "gpu.example.com",
            "poolName": "a",
            "generation": 1,
            "resourceSliceCount": 1,
            "totalDevices": 4,
            "allocatedDevices": 1,
            "availableDevices": 2,
            "unavailableDevices": 1,
        },
        {"driver": "gpu.example.com", "poolName": "b", "generation": 1, "validationError": "PoolIncomplete"},
    ],
    "conditions": [condition("Complete")],
}


def test_a_question_is_answered_once_and_by_the_controller(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        asked = await admin.call("POST", REQUESTS, {**question(), "status": ANSWER})
        assert asked.status == 201
        assert asked.json["spec"]["limit"] == 100
        assert "status" not in asked.json
        path = f"{REQUESTS}/q"
        assert (await admin.call("PATCH", path, {"spec": {"limit": 5}}, MERGE)).status == 422
        forged = await admin.call("PATCH", f"{path}/status", {"status": ANSWER}, MERGE)
        assert forged.status == 403
        shown = await admin.call("GET", REQUESTS, headers=TABLE)
        pending = ["q", "gpu.example.com", "-", "-", "-", "-", "-", 0, "Pending", "<none>"]
        assert cells(shown) == [pending]
        answered = await controller.call("PATCH", f"{path}/status", {"status": ANSWER}, MERGE)
        assert (answered.status, answered.json["status"]) == (200, ANSWER)
        other = await controller.call("PATCH", f"{path}/status", {"status": {"poolCount": 4}}, MERGE)
        assert (other.status, other.json["details"]["causes"][0]["field"]) == (422, "status")
        shown = await admin.call("GET", REQUESTS, headers=TABLE)
        assert [each["name"] for each in shown.json["columnDefinitions"]] == [
            *("Name", "Driver", "Total", "Available", "Allocated", "Unavailable"),
            *("Errors", "Pools", "Status", "Completed"),
        ]
        assert cells(shown)[0][:-1] == [
            *("q", "gpu.example.com", "4", "2", "1", "1", "1", 3, "Complete (2/3 pools)")
        ]

    told(story)


def test_a_question_that_failed_tells_no_counts(told: Callable[[Story], None]) -> None:
    async def story(admin: Serving, controller: Serving) -> None:
        await admin.call("POST", REQUESTS, question())
        failed = {"poolCount": 0, "conditions": [condition("Failed")]}
        answered = await controller.call("PATCH", f"{REQUESTS}/q/status", {"status": failed}, MERGE)
        assert answered.status == 200
        shown = await admin.call("GET", REQUESTS, headers=TABLE)
        assert cells(shown)[0][2:] == ["-", "-", "-", "-", "-", 0, "Failed", "<none>"]

    told(story)
