"""Binding a pod to a node."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.status import BadRequest, Conflict, Invalid, StatusError
from allotment.apiserver.registry.kinds.pod import RESOURCES
from allotment.apiserver.store.record import Obj
from tests.apiserver.registry.kinds.pods import NOW, call, running_pod

BIND = RESOURCES[0].actions["binding"].run


def binding(node: str = "node-1", **metadata: Any) -> Obj:
    return {"metadata": {"name": "p", **metadata}, "target": {"kind": "Node", "name": node}}


def test_a_bound_pod_has_its_node_and_says_that_it_is_scheduled() -> None:
    unbound = running_pod(phase="Pending", ready=False)
    unbound["status"]["nominatedNodeName"] = "node-0"
    result = BIND(unbound, binding(annotations={"a": "b"}, labels={"zone": "z"}), call())
    assert result.changed is not None
    assert result.changed["spec"]["nodeName"] == "node-1"
    assert result.changed["metadata"]["annotations"] == {"a": "b"}
    assert result.changed["metadata"]["labels"] == {"app": "x", "zone": "z"}
    assert "nominatedNodeName" not in result.changed["status"]
    assert result.changed["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW}
    ]


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        (
            running_pod(nodeName="node-2"),
            binding(),
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node-2"',
        ),
        (
            running_pod(schedulingGates=[{"name": "g"}]),
            binding(),
            'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates',
        ),
        (
            running_pod(),
            binding(uid="other"),
            'Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: other, '
            "UID in object meta: u",
        ),
        (
            running_pod(),
            binding(resourceVersion="6"),
            'Operation cannot be fulfilled on pods "p": Precondition failed: ResourceVersion in precondition: 6, '
            "ResourceVersion in object meta: 7",
        ),
    ],
)
def test_a_binding_that_comes_too_late_conflicts(target: Obj, body: Obj, message: str) -> None:
    with pytest.raises(Conflict) as refusal:
        BIND(target, body, call())
    assert refusal.value.message == message


def test_a_pod_that_is_going_away_is_not_bound() -> None:
    going = running_pod()
    going["metadata"]["deletionTimestamp"] = NOW
    with pytest.raises(Conflict, match="pod p is being deleted, cannot be assigned to a host"):
        BIND(going, binding(), call())


def test_a_binding_must_be_of_the_pod_and_to_a_node() -> None:
    with pytest.raises(BadRequest, match="name in URL does not match name in Binding object"):
        BIND(running_pod(), {"metadata": {"name": "q"}, "target": {"name": "n"}}, call())
    with pytest.raises(StatusError, match=r"target\.name: Required value"):
        BIND(running_pod(), {"metadata": {"name": "p"}}, call())
    with pytest.raises(StatusError, match=r'target\.kind: Unsupported value: "Shelf"'):
        BIND(running_pod(), {"metadata": {"name": "p"}, "target": {"kind": "Shelf", "name": "s"}}, call())


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"zone": "not a value"}}, "metadata.labels"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations"),
    ],
)
def test_what_a_binding_adds_to_a_pod_must_be_sound(metadata: Obj, field: str) -> None:
    """Later updates look only at metadata that they change, so nothing else must get in."""
    with pytest.raises(Invalid) as refusal:
        BIND(running_pod(), binding(**metadata), call())
    assert {cause["field"] for cause in refusal.value.details["causes"]} == {field}
