"""What the core asks the driver to do. Each write has an id; its outcome comes back as ``Done`` or ``Failed`` with it.

Writes are independent of each other: where one must wait for another, the core issues it when the other is done. All but
``Bind`` name the object state that they expect (uid, and version where it matters), so that each can be repeated safely.
"""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]


class CreateClaim(msgspec.Struct, frozen=True, gc=False):
    """Make a claim for a pod's extended resources."""

    id: int
    claim: Json


class PatchClaim(msgspec.Struct, frozen=True, gc=False):
    """Change a claim, or its status, if it is still at ``version``."""

    id: int
    namespace: str
    name: str
    uid: str
    version: str
    patch: Json
    status: bool


class DeleteClaim(msgspec.Struct, frozen=True, gc=False):
    """Delete a claim that was made for a pod's extended resources."""

    id: int
    namespace: str
    name: str
    uid: str


class PatchVolume(msgspec.Struct, frozen=True, gc=False):
    """Change a persistent volume, if it is still at ``version``."""

    id: int
    name: str
    uid: str
    version: str
    patch: Json


class PatchVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """Change a persistent volume claim, if it is still at ``version``."""

    id: int
    namespace: str
    name: str
    uid: str
    version: str
    patch: Json


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Bind a pod to a node. Cannot be undone."""

    id: int
    namespace: str
    name: str
    uid: str
    node: str


class PatchPod(msgspec.Struct, frozen=True, gc=False):
    """Change a pod's status: its PodScheduled condition, the nominated node, or the claims that it got."""

    id: int
    namespace: str
    name: str
    uid: str
    patch: Json


class DeletePod(msgspec.Struct, frozen=True, gc=False):
    """Delete a pod to make room for another, once its condition says so."""

    id: int
    namespace: str
    name: str
    uid: str
    why: str


class PatchGroup(msgspec.Struct, frozen=True, gc=False):
    """Change the status of a pod group, if it is still at ``version``."""

    id: int
    api_version: str
    namespace: str
    name: str
    uid: str
    version: str
    patch: Json


class PatchQueue(msgspec.Struct, frozen=True, gc=False):
    """Change the status of one of Volcano's queues, if it is still at ``version``."""

    id: int
    name: str
    uid: str
    version: str
    patch: Json


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Report something about an object to users, as an Event. No outcome comes back."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    warning: bool
    reason: str
    message: str


Write = (
    CreateClaim
    | PatchClaim
    | DeleteClaim
    | PatchVolume
    | PatchVolumeClaim
    | Bind
    | PatchPod
    | DeletePod
    | PatchGroup
    | PatchQueue
)
Instruction = Write | Tell
