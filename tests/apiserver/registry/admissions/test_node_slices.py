"""NodeResourceSlices belong to their Node."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allotment.api.status import Invalid
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.admission import Admissions
from allotment.apiserver.registry.admissions.node_slices import NodeSlices
from allotment.apiserver.registry.kinds import semantic_parameters
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key
from tests.apiserver.registry.admissions.shelf import Shelf

Json = dict[str, Any]

CREATE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-01T00:00:00Z")
UPDATE = Write(Operation.UPDATE, ADMINISTRATOR, "2026-01-01T00:00:00Z")
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}
(SLICES,) = [each for each in semantic_parameters.RESOURCES if each.kind == "NodeResourceSlice"]


@pytest.fixture
def admission() -> NodeSlices:
    shelf = Shelf()
    shelf.put(Key("nodes", "", "node-1"), {"metadata": {"name": "node-1", "uid": "u1"}})
    return NodeSlices(shelf.as_store())


def slice_of(node: str, *owners: Json) -> Json:
    metadata = {"name": "s", "ownerReferences": list(owners)} if owners else {"name": "s"}
    return {"metadata": metadata, "spec": {"nodeName": node, "driverName": "gpu.example.com"}}


def passed(admission: NodeSlices, obj: Json, old: Json | None = None) -> Json:
    obj, write = copy.deepcopy(obj), UPDATE if old is not None else CREATE
    admission.mutate(SLICES, obj, old, write)
    admission.admit(SLICES, obj, old, write)
    return obj


def test_a_slice_is_given_its_node_as_owner(admission: NodeSlices) -> None:
    assert passed(admission, slice_of("node-1"))["metadata"]["ownerReferences"] == [OWNER]


def test_an_owner_that_is_named_already_is_enough(admission: NodeSlices) -> None:
    named = slice_of("node-1", {**OWNER, "controller": True})
    assert passed(admission, named) == named


def test_an_update_cannot_set_a_slice_free(admission: NodeSlices) -> None:
    old = passed(admission, slice_of("node-1"))
    assert passed(admission, slice_of("node-1"), old)["metadata"]["ownerReferences"] == [OWNER]


def test_a_slice_of_no_node_is_refused(admission: NodeSlices) -> None:
    with pytest.raises(Invalid, match="must be a node of the cluster"):
        passed(admission, slice_of("node-2"))


def test_a_slice_belongs_to_no_other_node(admission: NodeSlices) -> None:
    with pytest.raises(Invalid, match="must be the node of the slice"):
        passed(admission, slice_of("node-1", {**OWNER, "name": "node-2", "uid": "u2"}))


def test_a_slice_whose_node_has_gone_may_still_be_finished_with(admission: NodeSlices) -> None:
    orphan = slice_of("node-2")
    assert passed(admission, orphan, orphan) == orphan


def test_other_kinds_are_none_of_its_business(admission: NodeSlices) -> None:
    other = semantic_parameters.RESOURCES[1]
    obj = slice_of("node-2")
    asked = Admissions([admission])
    asked.mutate(other, obj, None, CREATE)
    asked.admit(other, obj, None, CREATE)
    assert obj == slice_of("node-2")
