"""The verbs: which requests they become, and what replies become."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.resource import ResourceClaim
from allotment.api.status import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    StatusError,
    TooManyRequests,
)
from allotment.client.client import Client, Happening, PatchType
from allotment.client.form import ObjectIdentity
from allotment.client.transport import Call, Disconnected, Lines, Reply
from tests.client.script import Obj, Script, bookmark, config_map, event, listing, refusal, reply, status

R = TypeVar("R")


def run(steps: Coroutine[Any, Any, R]) -> R:
    return asyncio.run(steps)


def body(call: Call) -> Any:
    return json.loads(call.body or b"null")


def sent(script: Script) -> str:
    call = script.calls[-1]
    query = "&".join(f"{name}={value}" for name, value in call.query.items())
    return f"{call.method} {call.path}" + (f"?{query}" if query else "")


def test_typed_objects_go_to_where_their_kind_is_served() -> None:
    script = Script(reply(200, {"metadata": {"name": "n", "resourceVersion": "4"}}))
    node = run(Client(script).of(Node).get("n"))
    assert sent(script) == "GET /api/v1/nodes/n"
    assert isinstance(node, Node)
    assert node.metadata.resource_version == "4"


def test_a_namespaced_kind_of_a_group_has_the_long_path() -> None:
    script = Script(reply(201, {}))
    claim = ResourceClaim(metadata=ObjectMeta(name="c", namespace="ns"))
    run(Client(script, manager="me").of(ResourceClaim).create(claim))
    assert sent(script) == "POST /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims?fieldManager=me"
    assert body(script.calls[0])["metadata"] == {"name": "c", "namespace": "ns"}


def test_a_merge_patch_carries_its_preconditions() -> None:
    script = Script(reply(200, config_map("a", 9)))
    maps = Client(script).plain("v1", "configmaps")
    run(maps.patch("a", {"data": {"k": "v"}, "metadata": {"labels": {"x": "y"}}}, "ns", uid="u", version=8))
    assert script.calls[0].headers["Content-Type"] == "application/merge-patch+json"
    assert body(script.calls[0]) == {
        "data": {"k": "v"},
        "metadata": {"labels": {"x": "y"}, "uid": "u", "resourceVersion": "8"},
    }


def test_an_amendment_is_a_merge_patch_that_tells_which_version_came_of_it() -> None:
    script = Script(reply(200, config_map("a", 9, "u")), refusal(409, "Conflict"))
    maps = Client(script).plain("v1", "configmaps")
    made = run(maps.amend("a", {"data": {"k": "v"}}, "ns", subresource="status", uid="u", version=8))
    assert made == ObjectIdentity("ns", "a", "u", 9)
    assert sent(script) == "PATCH /api/v1/namespaces/ns/configmaps/a/status?fieldManager=allot"
    assert script.calls[0].headers["Content-Type"] == "application/merge-patch+json"
    assert body(script.calls[0]) == {"data": {"k": "v"}, "metadata": {"uid": "u", "resourceVersion": "8"}}
    with pytest.raises(Conflict):
        run(maps.amend("a", {"data": {}}, "ns", version=8))


def test_other_patches_name_their_type() -> None:
    script = Script(reply(200, config_map("a", 9)))
    operations = [{"op": "remove", "path": "/data"}]
    run(Client(script).plain("v1", "configmaps").patch("a", operations, "ns", type_=PatchType.JSON))
    assert script.calls[0].headers["Content-Type"] == "application/json-patch+json"


def test_apply_names_its_manager_and_may_force() -> None:
    script = Script(reply(200, config_map("a", 9)))
    run(Client(script).plain("v1", "configmaps").apply(config_map("a", 1), manager="m", force=True))
    assert sent(script) == "PATCH /api/v1/namespaces/ns/configmaps/a?fieldManager=m&force=true"


def test_delete_sends_its_preconditions() -> None:
    script = Script(reply(200, {"kind": "Status"}))
    run(Client(script).plain("v1", "pods").delete("p", "ns", uid="u", grace_seconds=0))
    assert body(script.calls[0]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
    }


def test_an_action_is_posted_to_its_subresource() -> None:
    script = Script(reply(201, {"kind": "Status", "status": "Success"}))
    run(Client(script).plain("v1", "pods").act("p", "binding", {"target": {"name": "n"}}, "ns"))
    assert sent(script) == "POST /api/v1/namespaces/ns/pods/p/binding?fieldManager=allot"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404, "NotFound"), NotFound),
        (refusal(409, "Conflict"), Conflict),
        (refusal(409, "AlreadyExists"), AlreadyExists),
        (refusal(410, "Expired"), Expired),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(422, "Invalid"), Invalid),
        (reply(409, {}), Conflict),  # no Status: the code decides
        (reply(418, {"kind": "Teapot"}), StatusError),
    ],
)
def test_refusals_are_raised_as_what_they_are(answer: Any, error: type[StatusError]) -> None:
    with pytest.raises(error) as raised:
        run(Client(Script(answer)).plain("v1", "configmaps").get("a", "ns"))
    assert type(raised.value) is error


def test_a_reply_that_is_no_json_is_shown() -> None:
    script = Script(Reply(502, {}, b"<html>bad gateway</html>"))
    with pytest.raises(StatusError, match="bad gateway"):
        run(Client(script).plain("v1", "configmaps").get("a", "ns"))


def test_a_busy_server_is_asked_again_when_it_says_so() -> None:
    busy = refusal(429, "TooManyRequests", retry_after="0")
    script = Script(busy, busy, reply(200, config_map("a", 1)))
    assert run(Client(script).plain("v1", "configmaps").get("a", "ns"))["metadata"]["name"] == "a"


def test_but_not_for_ever_and_not_without_being_told() -> None:
    busy = refusal(429, "TooManyRequests", retry_after="0")
    script = Script(*[busy] * 9)
    with pytest.raises(TooManyRequests):
        run(Client(script).plain("v1", "configmaps").get("a", "ns"))
    assert len(script.calls) == 5
    script = Script(refusal(429, "TooManyRequests"))
    with pytest.raises(TooManyRequests):
        run(Client(script).plain("v1", "configmaps").get("a", "ns"))


def test_lists_follow_their_pages() -> None:
    script = Script(listing(5, config_map("a", 3), token="t"), listing(5, config_map("b", 4)))
    found = run(Client(script).plain("v1", "configmaps").list("ns", labels="x=y", limit=1))
    assert [obj["metadata"]["name"] for obj in found.items] == ["a", "b"]
    assert found.version == "5"
    assert sent(script).endswith("?labelSelector=x=y&limit=1&continue=t")


def watched(script: Script, **options: Any) -> list[tuple[Happening, str]]:
    async def collect() -> list[tuple[Happening, str]]:
        async with Client(script).plain("v1", "configmaps").watch("ns", **options) as events:
            return [(event.type, event.version) async for event in events]

    return run(collect())


def test_watches_tell_changes_and_bookmarks() -> None:
    script = Script().then_watch(event("ADDED", config_map("a", 3)), bookmark(7))
    assert watched(script, since="2") == [(Happening.ADDED, "3"), (Happening.BOOKMARK, "7")]
    assert script.calls[0].query["resourceVersion"] == "2"


def test_the_end_of_initial_events_is_marked() -> None:
    end: Obj = {"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}
    script = Script().then_watch(event("BOOKMARK", end))

    async def collect() -> list[bool]:
        async with Client(script).plain("v1", "configmaps").watch(initial_events=True) as events:
            return [event.initial_end async for event in events]

    assert run(collect()) == [True]
    assert script.calls[0].query["sendInitialEvents"] == "true"


def test_an_expired_watch_raises() -> None:
    with pytest.raises(Expired, match="too old"):
        watched(Script().then_watch(event("ERROR", status(410, "Expired", "too old"))))


def test_chunks_become_lines_within_a_bound() -> None:
    lines = Lines(limit=10)
    assert lines.feed(b"a\nb") == [b"a"]
    assert lines.feed(b"c\n\nd\n") == [b"bc", b"d"]
    assert lines.feed(b"rest") == []
    assert lines.rest() == b"rest"
    with pytest.raises(Disconnected, match="more than 10 bytes"):
        lines.feed(b"x" * 10)
