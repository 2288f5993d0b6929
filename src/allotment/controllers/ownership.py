"""Who controls an object: the one owner that created it or adopted it, and manages it."""

from __future__ import annotations

from typing import Any

from allotment.api.core import Pod
from allotment.api.meta import OwnerReference
from allotment.api.resource import ResourceClaim
from allotment.client.form import Obj

CONTROLLED = "controller"
"""Index of pods and of claims: uid of the controller."""


def controller_of(obj: Pod | ResourceClaim) -> OwnerReference | None:
    for owner in obj.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def controller_uid(obj: Pod | ResourceClaim) -> list[str]:
    owner = controller_of(obj)
    return [] if owner is None else [owner.uid]


def plain_controller_of(obj: Obj) -> dict[str, Any] | None:
    """The same for an object as JSON values."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_reference(api_version: str, kind: str, name: str, uid: str) -> Obj:
    """The owner reference that marks an object as created or adopted by its owner."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
