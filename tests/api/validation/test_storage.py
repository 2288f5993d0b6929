"""What Kubernetes refuses of volumes, claims and what provides them: the fields at fault, by a table."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from allotment.api.fields import FieldError
from allotment.api.validation import storage

Obj = dict[str, Any]
Check = Callable[[Mapping[str, Any]], Iterable[FieldError]]

VOLUME: Obj = {
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/mnt"},
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
        },
    }
}
CLAIM: Obj = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
CLASS: Obj = {"provisioner": "disk.example.com", "volumeBindingMode": "Immediate"}
NODE: Obj = {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 1}}]}}
CAPACITY: Obj = {"storageClassName": "c", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"a": "b"}}}
ATTACHMENT: Obj = {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
GONE: Any = object()


def changed(obj: Obj, path: str, value: Any) -> Obj:
    """A copy with another value at a path; ``GONE`` takes it away."""
    new = copy.deepcopy(obj)
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    inner: Any = new
    for step in way:
        inner = inner[step]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return new


@pytest.mark.parametrize(
    ("check", "good"),
    [
        pytest.param(storage.validate_volume, VOLUME, id="volume"),
        pytest.param(storage.validate_claim, CLAIM, id="claim"),
        pytest.param(storage.validate_class, CLASS, id="class"),
        pytest.param(storage.validate_csi_node, NODE, id="node"),
        pytest.param(storage.validate_capacity, CAPACITY, id="capacity"),
        pytest.param(storage.validate_attachment, ATTACHMENT, id="attachment"),
    ],
)
def test_what_is_right_is_accepted(check: Check, good: Obj) -> None:
    assert list(check(good)) == []


@pytest.mark.parametrize(
    ("check", "good", "path", "value", "field"),
    [
        (storage.validate_volume, VOLUME, "spec.accessModes", [], "spec.accessModes"),
        (storage.validate_volume, VOLUME, "spec.accessModes", ["Often"], "spec.accessModes"),
        (storage.validate_volume, VOLUME, "spec.capacity", GONE, "spec.capacity"),
        (storage.validate_volume, VOLUME, "spec.capacity", {"cpu": "1"}, "spec.capacity"),
        (storage.validate_volume, VOLUME, "spec.capacity.storage", "0", "spec.capacity[storage]"),
        (storage.validate_volume, VOLUME, "spec.local", GONE, "spec"),
        (storage.validate_volume, VOLUME, "spec.hostPath", {"path": "/"}, "spec.local"),
        (storage.validate_volume, VOLUME, "spec.nodeAffinity", GONE, "spec.nodeAffinity"),
        (
            storage.validate_volume,
            VOLUME,
            "spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.operator",
            "In",
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values",
        ),
        (
            storage.validate_volume,
            VOLUME,
            "spec.persistentVolumeReclaimPolicy",
            "Burn",
            "spec.persistentVolumeReclaimPolicy",
        ),
        (storage.validate_volume, VOLUME, "spec.volumeMode", "Tape", "spec.volumeMode"),
        (
            storage.validate_claim,
            CLAIM,
            "spec.accessModes",
            ["ReadWriteOncePod", "ReadWriteOnce"],
            "spec.accessModes",
        ),
        (storage.validate_claim, CLAIM, "spec.resources.requests", {}, "spec.resources[storage]"),
        (storage.validate_claim, CLAIM, "spec.resources.requests.storage", "-1", "spec.resources[storage]"),
        (storage.validate_claim, CLAIM, "spec.storageClassName", "No Name", "spec.storageClassName"),
        (storage.validate_class, CLASS, "provisioner", "", "provisioner"),
        (storage.validate_class, CLASS, "volumeBindingMode", "Later", "volumeBindingMode"),
        (storage.validate_class, CLASS, "reclaimPolicy", "Recycle", "reclaimPolicy"),
        (
            storage.validate_class,
            CLASS,
            "allowedTopologies",
            [{"matchLabelExpressions": [{"key": "a", "values": []}]}],
            "allowedTopologies[0].matchLabelExpressions[0].values",
        ),
        (storage.validate_csi_node, NODE, "spec.drivers.0.nodeID", "", "spec.drivers[0].nodeID"),
        (
            storage.validate_csi_node,
            NODE,
            "spec.drivers.0.allocatable.count",
            -1,
            "spec.drivers[0].allocatable.count",
        ),
        (
            storage.validate_csi_node,
            NODE,
            "spec.drivers",
            [NODE["spec"]["drivers"][0]] * 2,
            "spec.drivers[1].name",
        ),
        (storage.validate_capacity, CAPACITY, "storageClassName", "", "storageClassName"),
        (storage.validate_capacity, CAPACITY, "capacity", "-1", "capacity"),
        (storage.validate_attachment, ATTACHMENT, "spec.nodeName", "", "spec.nodeName"),
        (storage.validate_attachment, ATTACHMENT, "spec.source", {}, "spec.source"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(
    check: Check, good: Obj, path: str, value: Any, field: str
) -> None:
    assert [str(error.path) for error in check(changed(good, path, value))] == [field]


@pytest.mark.parametrize(
    ("path", "value", "accepted"),
    [
        pytest.param("spec.volumeName", "v", True, id="it gets its volume"),
        pytest.param("spec.storageClassName", "c", True, id="it gets a class"),
        pytest.param("spec.resources.requests.storage", "2Gi", True, id="it grows"),
        pytest.param("spec.resources.requests.storage", "1Mi", False, id="it shrinks"),
        pytest.param("spec.accessModes", ["ReadOnlyMany"], False, id="it asks for another access"),
    ],
)
def test_what_may_change_of_a_claim(path: str, value: Any, accepted: bool) -> None:
    assert (not list(storage.validate_claim_update(changed(CLAIM, path, value), CLAIM))) is accepted


def test_a_claim_keeps_the_volume_that_it_has() -> None:
    bound = changed(CLAIM, "spec.volumeName", "v")
    assert list(storage.validate_claim_update(changed(bound, "spec.volumeName", "w"), bound))


def test_a_volume_stays_what_it_is() -> None:
    assert list(storage.validate_volume_update(changed(VOLUME, "spec.local", {"path": "/other"}), VOLUME))
    claimed = changed(VOLUME, "spec.claimRef", {"name": "c"})
    assert not list(storage.validate_volume_update(claimed, VOLUME))
