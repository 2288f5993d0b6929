"""A history that is no longer there: 410, in the way that each kind of request tells it."""

from __future__ import annotations

from urllib.parse import quote

from tests.builders.plain import claim
from tests.contract.api import Api
from tests.contract.test_custom_resources import definition, install


def test_a_watch_from_too_long_ago_ends_with_an_error_event(api: Api, fresh: str) -> None:
    stem = f"e{fresh}"
    install(api, definition(stem))  # a new kind: Kubernetes' cache of it begins now
    path = f"/apis/{stem}.example.com/v1/{stem}s"
    api.forget(int(api.get(path).must()["metadata"]["resourceVersion"]))
    with api.watch(f"{path}?resourceVersion=1") as events:
        assert events.status == 200
        (event,) = list(events)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


def test_a_list_that_goes_on_too_late(api: Api, claims: str) -> None:
    for name in ("a", "b", "c"):
        api.post(claims, claim(name)).must(201)
    page = api.get(f"{claims}?limit=1").must()
    api.post(claims, claim("d")).must(201)
    last = api.post(claims, claim("e")).must(201)
    api.forget(int(last["metadata"]["resourceVersion"]))
    reply = api.get(f"{claims}?limit=1&continue={quote(page['metadata']['continue'])}")
    assert (reply.status, reply.reason) == (410, "Expired")
    assert reply.message.startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    token = reply.json["metadata"]["continue"]  # with which a client may go on, if it can live with a gap
    rest = api.get(f"{claims}?limit=10&continue={quote(token)}").must()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d", "e"]


def test_a_list_at_a_revision_of_too_long_ago(api: Api, claims: str) -> None:
    then = api.post(claims, claim("a")).must(201)["metadata"]["resourceVersion"]
    api.post(claims, claim("b")).must(201)
    last = api.post(claims, claim("c")).must(201)
    api.forget(int(last["metadata"]["resourceVersion"]))
    reply = api.get(f"{claims}?resourceVersion={then}&resourceVersionMatch=Exact")
    assert (reply.status, reply.reason) == (410, "Expired")
    assert reply.message.startswith("The resourceVersion for the provided list is too old.")
