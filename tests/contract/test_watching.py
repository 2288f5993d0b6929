"""A watch has no gap and no duplicate from the revision it starts at, and says when it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import configmap, pod
from tests.contract.api import Api

Event = dict[str, Any]
END = "k8s.io/initial-events-end"


def told(event: Event) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def latest(api: Api, path: str) -> str:
    revision: str = api.get(path).must()["metadata"]["resourceVersion"]
    return revision


def test_what_happened_since_a_list_comes_in_order(api: Api, configmaps: str) -> None:
    since = latest(api, configmaps)
    api.post(configmaps, configmap("a")).must(201)
    api.post(configmaps, configmap("b")).must(201)
    api.patch(f"{configmaps}/a", {"data": {"k": "v"}}).must()
    api.delete(f"{configmaps}/a").must()
    with api.watch(f"{configmaps}?resourceVersion={since}") as events:
        seen = events.take(4)
    assert [told(event) for event in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert all(event["object"]["kind"] == "ConfigMap" for event in seen)


def test_what_happens_while_it_is_open(api: Api, configmaps: str) -> None:
    with api.watch(f"{configmaps}?resourceVersion={latest(api, configmaps)}") as events:
        for number in range(3):
            api.post(configmaps, configmap(f"c{number}")).must(201)
            assert told(next(events)) == ("ADDED", f"c{number}")


@pytest.mark.parametrize("query", ["", "?resourceVersion=0", "?resourceVersion="])
def test_without_a_revision_what_exists_comes_first(api: Api, configmaps: str, query: str) -> None:
    for name in ("b", "a"):
        api.post(configmaps, configmap(name)).must(201)
    if query == "?resourceVersion=0":
        latest(
            api, configmaps
        )  # "any revision" may be an old one; a list makes sure the server has seen ours
    with api.watch(configmaps + query) as events:
        assert sorted(told(event) for event in events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        api.post(configmaps, configmap("c")).must(201)
        assert told(next(events)) == ("ADDED", "c")


def test_initial_events_end_with_a_bookmark(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with api.watch(f"{configmaps}?{query}") as events:
        assert told(next(events)) == ("ADDED", "a")
        end = next(events)
        api.post(configmaps, configmap("b")).must(201)
        after = next(events)
    assert end["type"] == "BOOKMARK"
    assert end["object"]["kind"] == "ConfigMap"
    assert end["object"]["metadata"]["annotations"] == {END: "true"}
    assert int(end["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert told(after) == ("ADDED", "b")


def test_no_initial_events_when_they_are_declined(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with api.watch(f"{configmaps}?{query}") as events:
        api.post(configmaps, configmap("b")).must(201)
        assert told(events.until(lambda event: event["type"] != "BOOKMARK")) == ("ADDED", "b")


def test_entering_a_selector_is_added_and_leaving_it_deleted(api: Api, configmaps: str) -> None:
    since = latest(api, configmaps)
    api.post(configmaps, configmap("a", {"in": "no"})).must(201)
    entered = api.patch(f"{configmaps}/a", {"metadata": {"labels": {"in": "yes"}}}).must()
    api.patch(f"{configmaps}/a", {"data": {"k": "1"}}).must()
    left = api.patch(f"{configmaps}/a", {"metadata": {"labels": {"in": "no"}}, "data": {"k": "2"}}).must()
    api.patch(f"{configmaps}/a", {"data": {"k": "3"}}).must()
    api.post(configmaps, configmap("b", {"in": "yes"})).must(201)
    with api.watch(f"{configmaps}?labelSelector=in=yes&resourceVersion={since}") as events:
        seen = events.take(4)
    assert [told(event) for event in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]
    assert seen[0]["object"] == entered
    gone = seen[2]["object"]
    assert gone["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert (gone["metadata"]["labels"], gone["data"]) == ({"in": "yes"}, {"k": "1"})  # as it last matched


def test_one_object_by_its_name(api: Api, configmaps: str) -> None:
    since = latest(api, configmaps)
    for name in ("a", "b", "c"):
        api.post(configmaps, configmap(name)).must(201)
    api.delete(f"{configmaps}/b").must()
    with api.watch(f"{configmaps}?fieldSelector=metadata.name=b&resourceVersion={since}") as events:
        assert [told(event) for event in events.take(2)] == [("ADDED", "b"), ("DELETED", "b")]


def test_pods_by_their_node(api: Api, pods: str) -> None:
    since = latest(api, pods)
    api.post(pods, pod("free")).must(201)
    target = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "free"},
        "target": {"kind": "Node", "name": "n9"},
    }
    api.post(f"{pods}/free/binding", target).must(201)
    with api.watch(f"{pods}?fieldSelector=spec.nodeName=n9&resourceVersion={since}") as events:
        assert told(next(events)) == ("ADDED", "free")
    with api.watch(f"{pods}?fieldSelector=spec.nodeName=&resourceVersion={since}") as events:
        assert [told(event) for event in events.take(2)] == [("ADDED", "free"), ("DELETED", "free")]


def test_all_namespaces_at_once(api: Api, configmaps: str, fresh: str) -> None:
    since = latest(api, "/api/v1/configmaps")
    api.post(configmaps, configmap("a", {"mark": fresh})).must(201)
    with api.watch(f"/api/v1/configmaps?labelSelector=mark={fresh}&resourceVersion={since}") as events:
        assert told(next(events)) == ("ADDED", "a")


def test_timeout_seconds_end_it(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    with api.watch(f"{configmaps}?timeoutSeconds=1") as events:
        assert [told(event) for event in events] == [("ADDED", "a")]


def test_a_bookmark_before_the_time_is_up_tells_how_far_it_has_come(
    api: Api, configmaps: str, fresh: str
) -> None:
    seconds = 8 if api.real else 2  # Kubernetes sends the bookmark some two seconds before the end
    query = f"allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={latest(api, configmaps)}"
    with api.watch(f"{configmaps}?{query}") as events:
        api.post(configmaps, configmap("a")).must(201)
        assert told(next(events)) == ("ADDED", "a")
        elsewhere = api.post("/api/v1/namespaces/default/configmaps", configmap(fresh)).must(201)
        bookmark = list(events)[-1]
    assert bookmark["type"] == "BOOKMARK"
    assert set(bookmark["object"]) >= {"kind", "apiVersion", "metadata"}
    assert set(bookmark["object"]["metadata"]) == {"resourceVersion"}
    revision = int(bookmark["object"]["metadata"]["resourceVersion"])
    assert revision >= int(elsewhere["metadata"]["resourceVersion"])


def test_rows_of_a_table(api: Api, configmaps: str) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    api.post(configmaps, configmap("a", k="v")).must(201)
    with api.watch(configmaps, headers={"Accept": table}) as events:
        first = next(events)
        api.post(configmaps, configmap("b")).must(201)
        second = next(events)
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 1]
    assert second["object"]["columnDefinitions"] is None  # only the first event describes the columns
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


def test_only_metadata(api: Api, configmaps: str) -> None:
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    api.post(configmaps, configmap("a", k="v")).must(201)
    with api.watch(configmaps, headers={"Accept": partial}) as events:
        event = next(events)
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )
    assert "data" not in event["object"]


REFUSED = {
    "initial events without a match": (
        "sendInitialEvents=true",
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    ),
    "a match without initial events": (
        "resourceVersion=5&resourceVersionMatch=NotOlderThan",
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    ),
    "an exact match": (
        "sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true",
        422,
        'ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
    ),
    "a selector that does not parse": (
        "labelSelector=a%20in",
        400,
        "unable to parse requirement: found '' expected: '('",
    ),
    "a field that cannot be selected": (
        "fieldSelector=data.k=v",
        400,
        '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(api: Api, configmaps: str, case: str) -> None:
    query, status, message = REFUSED[case]
    reply = api.get(f"{configmaps}?watch=true&timeoutSeconds=1&{query}")
    assert (reply.status, reply.message) == (status, message)
