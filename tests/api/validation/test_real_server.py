"""Thousands of slightly wrong objects, judged by us and by the real kube-apiserver: accepted or not, and with which causes.

Objects are sent as dry runs. What is compared is the outcome, the field and reason of every cause, and for accepted
objects the content with its defaults. The words of messages are ours.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import aiohttp
import pytest

from allotment.api import kinds as known_kinds
from allotment.api.codec import decode, to_builtins
from allotment.api.status import StatusError
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import ResourceCatalogue, found_in
from allotment.apiserver.registry.strategy import Operation, Write
from tests.api.validation.examples import (
    CLAIM,
    EXAMPLES,
    POOL_STATUS_ANSWER,
    POOL_STATUS_REQUEST,
    STATUS,
)
from tests.api.validation.mutations import mutations
from tests.kubernetes.control_plane import ControlPlane, client_context

pytestmark = pytest.mark.kubernetes

Json = dict[str, Any]
Answer = tuple[int, set[tuple[str, str]], Json]
"""The status code, the causes as (field, reason), and the object if it was accepted."""

RESOURCES = {each.kind: each for each in ResourceCatalogue(found_in(kinds)).resources}
NOW = "2026-01-02T00:00:00Z"
CREATE = Write(Operation.CREATE, ADMINISTRATOR, NOW)
UPDATE = Write(Operation.UPDATE, ADMINISTRATOR, NOW, "status")
IN_FLIGHT = 16
NODE = {"metadata": {"name": "node-1"}}
FEATURES = {"status": {"declaredFeatures": ["DRANodeAllocatableResources"]}}

MORE_NODE_RESOURCES = [
    {
        **EXAMPLES[4],
        "spec": {
            **EXAMPLES[4]["spec"],
            "devices": [
                {"name": "d", "nodeAllocatableResources": {name: {"mapping": {"deviceMultiplier": "1"}}}}
            ],
            "partitionTypeAttribute": None,
        },
    }
    for name in (
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-1Gi",
        "hugepages-",
        "pods",
        "storage",
        "a.b/c",
    )
]


class Real:
    """The real server, asked many things at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._context = client_context(plane.ca, plane.admin)

    async def ask(self, requests: list[tuple[str, str, Json]]) -> list[tuple[int, Json]]:
        """(method, path, body) each; the replies in the same order."""
        gate = asyncio.Semaphore(IN_FLIGHT)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._context)) as session:

            async def one(method: str, path: str, body: Json) -> tuple[int, Json]:
                kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
                async with (
                    gate,
                    session.request(
                        method, f"{self._plane.url}{path}", json=body, headers={"Content-Type": kind}
                    ) as reply,
                ):
                    return reply.status, await reply.json()

            return list(await asyncio.gather(*(one(*request) for request in requests)))


def path_of(obj: Json) -> str:
    resource = RESOURCES[obj["kind"]]
    namespace = "namespaces/default/" if resource.namespaced else ""
    return f"/apis/resource.k8s.io/v1/{namespace}{resource.plural}"


def theirs(code: int, reply: Json) -> Answer:
    if code < 400:
        return 200, set(), reply
    causes = (reply.get("details") or {}).get("causes") or []
    return code, {(cause.get("field", ""), cause["reason"]) for cause in causes}, reply


def ours(obj: Json, old: Json | None = None) -> Answer:
    obj, strategy = copy.deepcopy(obj), RESOURCES[obj["kind"]].strategy
    try:
        strategy.default(obj, CREATE)
        if old is None:
            strategy.prepare_create(obj, CREATE)
            errors = strategy.validate(obj)
        else:
            strategy.prepare_status(obj, old, UPDATE)
            errors = strategy.validate_status(obj, old)
    except StatusError as exc:
        return exc.code, set(), {}
    return (422, {(str(e.path), e.kind.value) for e in errors}, {}) if errors else (200, set(), obj)


def content(obj: Json) -> Any:
    """What the API knows of an object's content, without empty parts and without times set just now."""
    known = known_kinds.find(obj["apiVersion"], obj["kind"])
    assert known is not None
    return _filled({**to_builtins(decode(known.type, obj)), "metadata": None})


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {name: _filled(inner) for name, inner in value.items() if name != "timeAdded"}
        return {name: inner for name, inner in parts.items() if inner not in (None, "", {}, [], False)}
    return [_filled(inner) for inner in value] if isinstance(value, list) else value


def differences(cases: list[Json], replies: list[tuple[int, Json]], old: Json | None = None) -> list[Any]:
    found = []
    for case, reply in zip(cases, replies, strict=True):
        real, own = theirs(*reply), ours(case, old)
        if _excused(real):
            continue
        if real[:2] != own[:2] or (real[0] == 200 and content(real[2]) != content(own[2])):
            found.append((case, real, own))
    return found


def _excused(real: Answer) -> bool:
    """What we do not judge here, each for a reason."""
    code, causes, reply = real
    message = str(reply.get("message"))
    return (
        "parsing time" in message  # the body's business, whatever the kind
        or (code == 403 and "node " in message)  # an admission check on nodes' declared features
        or any(reason == "FieldValueTooMany" and "derivedAttributes" in field for field, reason in causes)
        # of too many derived attributes we name the first 33, upstream all
        or any("1e30" in str(cause) for cause in (reply.get("details") or {}).get("causes") or ())
        # amounts beyond 64 bits: refused by both, for not quite the same list of reasons
    )


def test_new_objects_are_judged_alike(kubernetes: ControlPlane) -> None:
    cases = [case for example in (*EXAMPLES, *MORE_NODE_RESOURCES) for case in (example, *mutations(example))]
    dry = "?dryRun=All&fieldValidation=Ignore"

    async def scenario() -> list[tuple[int, Json]]:
        real = Real(kubernetes)
        await real.ask([("POST", "/api/v1/nodes", NODE)])
        await real.ask([("PATCH", "/api/v1/nodes/node-1/status", FEATURES)])
        return await real.ask([("POST", path_of(case) + dry, case) for case in cases])

    replies = asyncio.run(scenario())
    assert sum(code == 201 for code, _ in replies) > 1000
    assert differences(cases, replies) == []


def test_statuses_of_claims_are_judged_alike(kubernetes: ControlPlane) -> None:
    claim = {**CLAIM, "metadata": {"name": "judged", "namespace": "default"}}
    statuses = [each.get("status") for each in ({"status": STATUS}, *mutations({"status": STATUS}))]
    cases = [{**claim, "status": status} for status in statuses if isinstance(status, dict)]

    async def scenario() -> list[tuple[int, Json]]:
        real = Real(kubernetes)
        await real.ask([("POST", path_of(claim), claim)])
        path = f"{path_of(claim)}/judged/status?dryRun=All&fieldValidation=Ignore"
        return await real.ask([("PUT", path, case) for case in cases])

    stored: Json = {**copy.deepcopy(claim), "status": {}}
    RESOURCES["ResourceClaim"].strategy.default(stored, CREATE)
    replies = asyncio.run(scenario())
    assert sum(code == 200 for code, _ in replies) > 500
    assert differences(cases, replies, stored) == []


def test_questions_about_pools_and_their_answers_are_judged_alike(kubernetes: ControlPlane) -> None:
    path = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
    dry = "?dryRun=All&fieldValidation=Ignore"
    asked = [POOL_STATUS_REQUEST, *mutations(POOL_STATUS_REQUEST)]
    changed = [{"status": POOL_STATUS_ANSWER}, *mutations({"status": POOL_STATUS_ANSWER})]
    statuses = [each["status"] for each in changed if isinstance(each.get("status"), dict)]
    question = {**POOL_STATUS_REQUEST, "metadata": {"name": "judged"}}

    async def scenario() -> tuple[Json, list[Json], list[tuple[int, Json]], list[tuple[int, Json]]]:
        real = Real(kubernetes)
        new = await real.ask([("POST", path + dry, each) for each in asked])
        ((_, stored),) = await real.ask([("POST", path, question)])
        answers = [{**stored, "status": status} for status in statuses]
        judged = await real.ask([("PUT", f"{path}/judged/status{dry}", each) for each in answers])
        return stored, answers, new, judged

    stored, answers, new, judged = asyncio.run(scenario())
    assert sum(code == 201 for code, _ in new) > 40
    assert sum(code == 200 for code, _ in judged) > 300
    found = differences(asked, new) + differences(answers, judged, stored)
    # numbers beyond 32 bits are the body's business; a pool of generation 0 can be told of here
    assert [each for each in found if each[1][0] != 400 and "generation" not in str(each[1][1])] == []
