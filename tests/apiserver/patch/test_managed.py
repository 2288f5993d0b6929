"""What managedFields become when somebody writes an object."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.schema.schema import Schema, schema_of
from allotment.apiserver.patch.comparison import compare
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet, told
from allotment.apiserver.patch.managed import (
    MAX_UPDATERS,
    NEVER_OWNED,
    BadManagedFields,
    parsed,
    track,
)
from tests.apiserver.patch.pods import pods
from tests.apiserver.patch.schemas import POD, atomic_struct, struct
from tests.apiserver.patch.values import nested

CONFIG_MAP = schema_of("v1", "ConfigMap")
STATUS = FieldSet.of_names("status")


def at(minute: int) -> str:
    return f"2026-01-02T03:{minute:02}:00Z"


def config_map(data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "uid": "u", **metadata},
        "data": data,
    }


def write(
    new: dict[str, Any],
    old: dict[str, Any] | None,
    manager: str,
    minute: int = 0,
    schema: Schema = CONFIG_MAP,
    **more: Any,
) -> dict[str, Any]:
    """``new`` as ``manager`` writes it over ``old``."""
    new = deepcopy(new)
    track(
        new, deepcopy(old), schema, manager, api_version=more.pop("api_version", "v1"), now=at(minute), **more
    )
    return new


def owners(obj: dict[str, Any]) -> dict[str, list[str]]:
    """Who owns what: by manager and operation, with the subresource if there is one."""
    return {
        "/".join(part for part in (entry.manager, entry.operation, entry.subresource) if part): [
            told(path) for path in entry.fields
        ]
        for entry in parsed(obj["metadata"].get("managedFields") or []).values()
    }


def times(obj: dict[str, Any]) -> list[str]:
    return [entry.get("time") for entry in obj["metadata"]["managedFields"]]


def test_who_creates_owns_what_the_object_has() -> None:
    created = write(config_map({"a": "1"}, labels={"l": "1"}), None, "kubectl")
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": at(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}},
        }
    ]


def test_creating_a_pod_gives_what_kubernetes_gives() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}}
            ]
        },
        "status": {"phase": "Pending"},
    }
    created = write(pod, None, "m", schema=schema_of("v1", "Pod"), reset=STATUS)
    assert created["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {},
                        },
                    },
                    "f:resources": {},
                }
            }
        },
    }


def test_who_changes_a_field_owns_it_and_the_former_owner_does_not() -> None:
    created = write(config_map({"a": "1", "b": "1"}), None, "one")
    changed = write(config_map({"a": "2", "b": "1"}), created, "two", 1)
    assert owners(changed) == {"one/Update": [".data", ".data.b"], "two/Update": [".data.a"]}
    assert times(changed) == [at(0), at(1)]


def test_what_is_removed_nobody_owns_and_who_is_left_with_nothing_is_gone() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    added = write(config_map({"a": "1", "b": "1"}), created, "two", 1)
    removed = write(config_map({"a": "1"}), added, "three", 2)
    assert owners(removed) == {"one/Update": [".data", ".data.a"]}
    assert times(removed) == [at(0)]


def test_a_manager_keeps_what_it_owned_and_the_time_is_that_of_the_last_gain() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    changed = write(config_map({"a": "1", "b": "1"}), created, "one", 1)
    assert owners(changed) == {"one/Update": [".data", ".data.a", ".data.b"]}
    assert times(changed) == [at(1)]


def test_a_write_of_nothing_changes_nothing() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    assert write(config_map({"a": "1"}), created, "two", 1) == created


def test_managers_are_told_apart_by_version_and_subresource() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    changed = write(config_map({"a": "2"}), created, "one", 1, subresource="status")
    again = write(config_map({"a": "2", "b": "2"}), changed, "one", 2, api_version="v2")
    entries = again["metadata"]["managedFields"]
    assert [(e["apiVersion"], e.get("subresource")) for e in entries] == [
        ("v1", None),
        ("v1", "status"),
        ("v2", None),
    ]


def test_a_writer_without_a_name_is_unknown() -> None:
    assert list(owners(write(config_map({"a": "1"}), None, ""))) == ["unknown/Update"]


def test_nobody_owns_what_identifies_an_object_or_what_the_server_sets() -> None:
    filled = {
        "name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2, "selfLink": "/",
        "creationTimestamp": at(0),
    }  # fmt: skip
    created = write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": filled}, None, "one")
    assert "managedFields" not in created["metadata"]


def test_what_the_strategy_puts_back_changes_no_owner() -> None:
    created = write(
        {"metadata": {"uid": "u"}, "spec": {"nodeName": "x"}, "status": {"phase": "a"}},
        None,
        "one",
        schema=POD,
    )
    changed = {"metadata": {"uid": "u"}, "spec": {"nodeName": "y"}, "status": {"phase": "b"}}
    by_main = write(changed, created, "two", 1, schema=POD, reset=STATUS)
    assert ".status.phase" in owners(by_main)["one/Update"]
    assert owners(by_main)["two/Update"] == [".spec.nodeName"]
    by_status = write(
        changed, created, "two", 1, schema=POD, subresource="status", reset=FieldSet.of_names("spec")
    )
    assert owners(by_status)["two/Update/status"] == [".status.phase"]
    assert ".spec.nodeName" in owners(by_status)["one/Update"]


@pytest.mark.parametrize("reset", [[], [{}]])
def test_a_client_can_have_the_owners_forgotten(reset: Any) -> None:
    created = write(config_map({"a": "1"}), None, "one")
    forgotten = write(config_map({"a": "2"}, managedFields=reset), created, "two", 1)
    assert "managedFields" not in forgotten["metadata"]
    assert "managedFields" not in write(config_map({"a": "3"}), forgotten, "two", 2)["metadata"]


def test_a_client_that_knows_no_managed_fields_does_no_harm() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    for absent in ({}, {"managedFields": None}):
        assert owners(write(config_map({"a": "1", "b": "2"}, **absent), created, "two", 1)) == {
            "one/Update": [".data", ".data.a"],
            "two/Update": [".data.b"],
        }


def test_a_client_can_set_the_owners_but_not_by_a_subresource() -> None:
    created = write(config_map({"a": "1"}), None, "one")
    entry = {**created["metadata"]["managedFields"][0], "manager": "other"}
    sent = config_map({"a": "1"}, managedFields=[entry])
    assert list(owners(write(sent, created, "two", 1))) == ["other/Update"]
    assert list(owners(write(sent, created, "two", 1, subresource="status"))) == ["one/Update"]


ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {}},
}

BAD: dict[str, tuple[Any, str]] = {
    "no list": ({}, "must be a list"),
    "an entry that is no object": (["x"], "must be an object"),
    "another operation": ([{**ENTRY, "operation": "Foo"}], "operation must be `Apply` or `Update`"),
    "no apiVersion": ([{**ENTRY, "apiVersion": ""}], "apiVersion must not be empty"),
    "no fieldsType": ([{**ENTRY, "fieldsType": None}], "missing fieldsType in managed fields entry 0"),
    "another fieldsType": (
        [{**ENTRY, "fieldsType": "V2"}],
        'invalid fieldsType "V2" in managed fields entry 0',
    ),
    "a manager that is no text": ([{**ENTRY, "manager": 1}], "expected texts"),
    "fields that are none": ([{**ENTRY, "fieldsV1": {"x": {}}}], "error decoding set"),
    "fields too deep": ([{**ENTRY, "fieldsV1": nested(250)}], "error decoding set"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_managed_fields_are_told_and_the_live_ones_kept(case: str) -> None:
    sent, complaint = BAD[case]
    with pytest.raises(BadManagedFields) as caught:
        parsed(sent)
    assert complaint in str(caught.value)
    created = write(config_map({"a": "1"}), None, "one")
    assert list(
        owners(write({**config_map({"a": "1"}), "metadata": {"managedFields": sent}}, created, "two"))
    ) == ["one/Update"]


def test_an_object_that_cannot_be_told_apart_keeps_the_old_account() -> None:
    created = write({"metadata": {"uid": "u"}, "spec": {"nodeName": "x"}}, None, "one", schema=POD)
    broken = write(
        {"metadata": {"uid": "u"}, "spec": {"containers": [{"image": "no name"}]}},
        created,
        "two",
        1,
        schema=POD,
    )
    assert broken["metadata"]["managedFields"] == created["metadata"]["managedFields"]


def test_only_so_many_updaters_are_kept_and_the_oldest_are_merged() -> None:
    live = write(config_map({"0": "x"}), None, "m00")
    for number in range(1, MAX_UPDATERS + 4):
        data = {str(key): "x" for key in range(number + 1)}
        live = write(config_map(data), live, f"m{number:02}", number)
        assert len(live["metadata"]["managedFields"]) <= MAX_UPDATERS
    entries = live["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["ancient-changes", *(f"m{n:02}" for n in range(5, 14))]
    assert entries[0]["time"] == at(4)
    assert owners(live)["ancient-changes/Update"] == [".data", *(f".data.{n}" for n in range(5))]


def test_who_applies_is_not_merged_with_the_old() -> None:
    live = write(config_map({"0": "x"}), None, "m00")
    live["metadata"]["managedFields"].append({**ENTRY, "manager": "a", "operation": "Apply", "time": at(0)})
    for number in range(1, MAX_UPDATERS + 2):
        live = write(config_map({str(key): "x" for key in range(number + 1)}), live, f"m{number:02}", number)
    assert live["metadata"]["managedFields"][0]["manager"] == "a"
    assert len(live["metadata"]["managedFields"]) == MAX_UPDATERS + 1


def test_entries_of_other_versions_are_compared_in_their_version() -> None:
    """v2 calls ``data`` ``values``: who owns it there loses it when somebody changes it here."""

    def convert(obj: dict[str, Any], version: str) -> tuple[dict[str, Any], Schema] | None:
        if version == "v0":
            return None
        return {("values" if key == "data" else key): value for key, value in obj.items()}, Schema()

    live = config_map({"a": "1", "b": "1"})
    fields: Any = {"f:values": {"f:a": {}, "f:b": {}}}
    live["metadata"]["managedFields"] = [
        {**ENTRY, "manager": "gone", "apiVersion": "v0"},
        {**ENTRY, "manager": "other", "apiVersion": "v2", "fieldsV1": fields},
    ]
    changed = write(config_map({"a": "2", "b": "1"}), live, "me", 1, convert=convert)
    assert owners(changed) == {"other/Update": [".values.b"], "me/Update": [".data.a"]}


def test_entries_become_as_the_schema_has_them_unless_they_were_last_kept_by_it() -> None:
    closed = struct(data=atomic_struct())
    parts = {**ENTRY, "manager": "other", "fieldsV1": {"f:data": {"f:a": {}}}}
    live = config_map({"a": "1"}, managedFields=[parts])
    changed = config_map({"a": "1"}, labels={"x": "y"})

    def others(new: dict[str, Any], reconciled: bool) -> list[str]:
        return owners(write(new, live, "me", 1, schema=closed, reconciled=reconciled))["other/Update"]

    assert others(changed, reconciled=False) == [".data"]
    assert others(changed, reconciled=True) == [".data.a"]  # as it is: nobody looks
    sent = {**parts, "time": at(5)}
    changed["metadata"]["managedFields"] = [sent]
    assert others(changed, reconciled=True) == [".data"]  # what clients send has never been looked at


def test_it_is_told_whether_all_entries_are_as_the_schema_has_them() -> None:
    parts = {**ENTRY, "manager": "other", "fieldsV1": {"f:data": {"f:a": {}}}}
    live = config_map({"a": "1"}, managedFields=[parts])

    def told(new: dict[str, Any], old: dict[str, Any] | None, reconciled: bool = False) -> bool:
        new = deepcopy(new)
        return track(new, old, CONFIG_MAP, "me", api_version="v1", now=at(1), reconciled=reconciled)

    assert told(config_map({"a": "1"}), None)
    assert told(config_map({"a": "2"}), live)
    assert told(config_map({"a": "1"}), live, reconciled=True)
    assert not told(config_map({"a": "1"}), live)  # nothing changed, so nobody looked
    assert not told(config_map({"a": "1"}, managedFields=[{**parts, "time": at(5)}]), live, reconciled=True)
    assert not told(config_map({"a": "2"}), config_map({"a": "1"}))  # nobody keeps track


WRITES = st.lists(st.tuples(pods(), st.sampled_from(["one", "two", "three"])), min_size=1, max_size=5)


@given(WRITES)
def test_every_field_that_was_ever_written_has_one_owner_at_most_and_exists(
    writes: list[tuple[Any, str]],
) -> None:
    live: dict[str, Any] | None = None
    for minute, (pod, manager) in enumerate(writes):
        pod["metadata"]["uid"] = "u"
        before = live
        live = write(pod, live, manager, minute, schema=POD)
        entries = parsed(live["metadata"].get("managedFields") or [])
        bare = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        present = compare({}, bare, POD).gained
        seen = EMPTY
        for entry in entries.values():
            assert entry.fields
            assert not entry.fields & seen
            assert not entry.fields - present
            assert not entry.fields & NEVER_OWNED
            seen = seen | entry.fields
        if before is None or before["metadata"].get("managedFields"):
            gained = compare(before or {}, bare, POD)
            mine = entries.get((manager, "Update", "v1", ""))
            gains = (gained.gained - NEVER_OWNED).without(FieldSet.of_names("metadata.managedFields"))
            assert not gains - (mine.fields if mine is not None else EMPTY)
