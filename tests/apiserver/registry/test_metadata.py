"""The rules of metadata, alike for all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.names import dns_label_problem
from allotment.api.status import told_as_cause
from allotment.apiserver.registry.metadata import metadata_change_errors, metadata_errors
from allotment.apiserver.registry.resource import Resource

THINGS = Resource("", "v1", "Thing", "things", True)
LABELLED = Resource("", "v1", "Label", "labels", False, name_problem=dns_label_problem)
FINE: dict[str, Any] = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "t"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}


def told(errors: list[Any]) -> list[str]:
    return [f"{error.path}: {told_as_cause(error)}" for error in errors]


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        ({}, []),
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "A"}, ['metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of']),
        ({"name": "a/b"}, ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"name": ".."}, ["metadata.name: Invalid value: \"..\": may not be '..'"]),
        ({"name": "a" * 254}, ["metadata.name: Invalid value"]),
        ({"generateName": "a-"}, []),
        ({"generateName": "A-"}, ["metadata.generateName: Invalid value"]),
        ({"labels": {"a": "b", "example.com/a": ""}}, []),
        ({"labels": {"-": "b"}}, ['metadata.labels: Invalid value: "-": name part must consist of']),
        ({"labels": {"a": "b c"}}, ['metadata.labels: Invalid value: "b c": a valid label must be']),
        ({"annotations": {"Example.COM/A": "any text"}}, []),  # the case of keys does not matter
        ({"annotations": {"a": "x" * 262_144}}, ["metadata.annotations: Too long: may not be more than 262144"]),
        ({"ownerReferences": [OWNER]}, []),
        ({"ownerReferences": [{}]}, [f"metadata.ownerReferences[0].{field}: Required value" for field in ("apiVersion", "kind", "name", "uid")]),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "2", "controller": True}]},
            ["metadata.ownerReferences: Invalid value"],
        ),
        ({"finalizers": ["example.com/x", "orphan"]}, []),
        ({"finalizers": ["loose"]}, ['metadata.finalizers[0]: Invalid value: "loose": name is neither']),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ["metadata.finalizers: Invalid value"]),
    ],
)  # fmt: skip
def test_a_new_object(change: dict[str, Any], begins: list[str]) -> None:
    found = told(metadata_errors(THINGS, {**FINE, **change}))
    assert len(found) == len(begins)
    for error, begin in zip(found, begins, strict=True):
        assert error.startswith(begin)


def test_kinds_have_names_of_their_own_sort() -> None:
    assert told(metadata_errors(THINGS, {**FINE, "name": "a.b"})) == []
    (error,) = told(metadata_errors(LABELLED, {"name": "a.b"}))
    assert error.startswith('metadata.name: Invalid value: "a.b": a lowercase RFC 1123 label must consist of')


@pytest.mark.parametrize(
    ("old", "new", "begins"),
    [
        ({}, {"labels": {"a": "b"}}, ""),
        ({}, {"uid": "other"}, 'metadata.uid: Invalid value: "other": field is immutable'),
        ({}, {"deletionTimestamp": "t"}, "metadata.deletionTimestamp: Invalid value"),
        ({"deletionTimestamp": "t", "finalizers": ["x.io/y"]}, {"deletionTimestamp": "t"}, ""),
        (
            {"deletionTimestamp": "t"},
            {"deletionTimestamp": "t", "finalizers": ["x.io/y"]},
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
            'finalizers []string{"x.io/y"}',
        ),
    ],
)
def test_a_changed_object(old: dict[str, Any], new: dict[str, Any], begins: str) -> None:
    found = told(metadata_change_errors(THINGS, {**FINE, **new}, {**FINE, **old}))
    assert "".join(found).startswith(begins)
    assert bool(found) is bool(begins)
