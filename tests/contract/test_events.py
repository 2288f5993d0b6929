"""Events of core/v1 and of events.k8s.io/v1 are the same objects in two forms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api

OLD: dict[str, Any] = {
    "metadata": {"name": "old"},
    "involvedObject": {"kind": "Pod", "namespace": "NS", "name": "p", "uid": "u1", "apiVersion": "v1"},
    "reason": "Tested",
    "message": "a test",
    "type": "Warning",
    "count": 3,
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-02T00:00:00Z",
    "source": {"component": "tester", "host": "n1"},
}
NEW: dict[str, Any] = {
    "metadata": {"name": "new"},
    "regarding": {"kind": "Pod", "namespace": "NS", "name": "p", "uid": "u1", "apiVersion": "v1"},
    "reason": "Tested",
    "note": "a test",
    "type": "Normal",
    "action": "Testing",
    "eventTime": "2026-01-01T00:00:00.123456Z",
    "reportingController": "example.com/tester",
    "reportingInstance": "tester-1",
}


@pytest.fixture
def core(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/events"


@pytest.fixture
def group(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def inside(event: dict[str, Any], namespace: str) -> dict[str, Any]:
    key = "regarding" if "regarding" in event else "involvedObject"
    return {**event, key: {**event[key], "namespace": namespace}}


def test_an_old_event_reads_as_a_new_one(api: Api, namespace: str, core: str, group: str) -> None:
    api.post(core, inside(OLD, namespace)).must(201)
    new = api.get(f"{group}/old").must()
    assert (new["kind"], new["apiVersion"]) == ("Event", "events.k8s.io/v1")
    assert new["regarding"]["name"] == "p"
    assert (new["note"], new["reason"], new["type"]) == ("a test", "Tested", "Warning")
    assert new["deprecatedSource"] == {"component": "tester", "host": "n1"}
    assert new["deprecatedCount"] == 3
    assert new["deprecatedFirstTimestamp"] == "2026-01-01T00:00:00Z"
    assert new["deprecatedLastTimestamp"] == "2026-01-02T00:00:00Z"


def test_a_new_event_reads_as_an_old_one(api: Api, namespace: str, core: str, group: str) -> None:
    api.post(group, inside(NEW, namespace)).must(201)
    old = api.get(f"{core}/new").must()
    assert (old["kind"], old["apiVersion"]) == ("Event", "v1")
    assert old["involvedObject"]["uid"] == "u1"
    assert (old["message"], old["action"]) == ("a test", "Testing")
    assert (old["reportingComponent"], old["reportingInstance"]) == ("example.com/tester", "tester-1")
    assert old["eventTime"] == "2026-01-01T00:00:00.123456Z"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("involvedObject.name=p", True),
        ("involvedObject.name=q", False),
        ("involvedObject.kind=Pod,involvedObject.uid=u1", True),
        ("reason=Tested", True),
        ("type=Warning", True),
        ("type!=Warning", False),
        ("source=tester", True),
        ("reportingComponent=tester", False),  # that is another field, though source means nearly the same,
    ],
)
def test_old_ones_are_selected_by_what_they_are_about(
    api: Api, namespace: str, core: str, selector: str, found: bool
) -> None:
    api.post(core, inside(OLD, namespace)).must(201)
    assert bool(api.get(f"{core}?fieldSelector={selector}").must()["items"]) is found


@pytest.mark.parametrize(
    ("selector", "found"),
    [("regarding.name=p", True), ("regarding.kind=Node", False), ("reason=Tested", True)],
)
def test_so_are_new_ones(api: Api, namespace: str, group: str, selector: str, found: bool) -> None:
    api.post(group, inside(NEW, namespace)).must(201)
    assert bool(api.get(f"{group}?fieldSelector={selector}").must()["items"]) is found


def test_an_event_is_about_something_in_its_namespace(api: Api, core: str) -> None:
    reply = api.post(core, OLD)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert [cause["field"] for cause in reply.causes] == ["involvedObject.namespace"]
    assert reply.causes[0]["message"] == 'Invalid value: "NS": does not match event.namespace'


def test_a_new_event_says_who_reports_what(api: Api, namespace: str, group: str) -> None:
    bare = {
        key: value
        for key, value in inside(NEW, namespace).items()
        if key in ("metadata", "regarding", "eventTime")
    }
    reply = api.post(group, bare)
    assert (reply.status, reply.reason) == (422, "Invalid")
    fields = {cause["field"] for cause in reply.causes}
    assert fields == api.unlike(
        kubernetes={"reportingController", "reportingInstance", "action", "reason", "type"},
        ours={"reportingComponent", "reportingInstance", "action", "reason"},
    )


def test_a_series_grows_by_patches(api: Api, namespace: str, group: str) -> None:
    api.post(group, inside(NEW, namespace)).must(201)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    assert api.patch(f"{group}/new", series).must(200)["series"]["count"] == 2


def test_watchers_of_each_form_see_both(api: Api, namespace: str, core: str, group: str) -> None:
    api.post(core, inside(OLD, namespace)).must(201)
    api.post(group, inside(NEW, namespace)).must(201)
    for path, version in ((core, "v1"), (group, "events.k8s.io/v1")):
        with api.watch(path) as events:
            seen = events.take(2)
        assert {event["object"]["apiVersion"] for event in seen} == {version}
        assert sorted(event["object"]["metadata"]["name"] for event in seen) == ["new", "old"]
