"""What must happen before a pod is bound, as data: PreBind plugins list it, the binding stage (``binding_stage``) does it.

Steps run in their order, each when the one before is done; what writes claims and volumes comes first (``in_order``), and is
written side by side. When one fails for good, every step is undone in reverse order, the failing one too: an undo is safe where its step never ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from allotment.api.resource import AllocationResult, ResourceClaimConsumerReference


class WriteClaim(msgspec.Struct, frozen=True, gc=False):
    """Write a claim's finalizer (if it lacks it), then allocation (if it has none) and reservation.

    Undone by taking the reservation back and, if nobody else has one and ``keep`` is false, the allocation that this pod or
    another that used it brought.
    """

    claim: str  # namespace/name
    allocation: AllocationResult | None  # None: it is allocated already, and only the reservation is new
    consumer: ResourceClaimConsumerReference
    finalizer: str
    keep: bool = False  # stays allocated when unused: allocationMode Immediate
    joins: bool = False  # the allocation is another pod's, which has it or is about to write it: the last of them gives it back
    # instead of ``allocation`` in the patch: the carried form of a semantic claim
    document: dict[str, Any] | None = None


class MakeClaim(msgspec.Struct, frozen=True, gc=False):
    """Create the claim that serves a pod's extended resources, then as ``WriteClaim``. Undone by deleting it."""

    claim: str  # namespace/name
    manifest: dict[str, Any]
    write: WriteClaim


class PatchStatus(msgspec.Struct, frozen=True, gc=False):
    """Tell the pod in its status what it got. Needs no undo: the next attempt writes over it."""

    patch: dict[str, Any]


class AwaitConditions(msgspec.Struct, frozen=True, gc=False):
    """Wait until the binding conditions of all devices of these claims are true, or one failed, or time is up."""

    claims: tuple[str, ...]
    seconds: float


class BindVolume(msgspec.Struct, frozen=True, gc=False):
    """Write into a volume whose it is. Undone, as long as the volume controller has not bound the two, by taking that out again."""

    volume: str
    claim: str  # namespace/name
    uid: str  # of the claim


class SelectNode(msgspec.Struct, frozen=True, gc=False):
    """Write into a claim for which node its volume is to be made. Undone, as long as it is not bound, by taking that out again."""

    claim: str  # namespace/name
    uid: str
    node: str


class AwaitVolumes(msgspec.Struct, frozen=True, gc=False):
    """Wait until the volume controller and provisioners have bound the claims, or that cannot be any more, or time is up."""

    node: str
    given: tuple[BindVolume, ...]
    made: tuple[SelectNode, ...]
    seconds: float


Step = WriteClaim | MakeClaim | BindVolume | SelectNode | PatchStatus | AwaitConditions | AwaitVolumes

_ORDER: tuple[type[Any], ...] = (
    WriteClaim,
    MakeClaim,
    BindVolume,
    SelectNode,
    PatchStatus,
    AwaitConditions,
    AwaitVolumes,
)


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Steps of several plugins in the order in which they are to run: writes of claims and volumes, then of the pod, then waiting."""
    return sorted(steps, key=lambda step: max(_ORDER.index(type(step)), _LAST_WRITE))


_LAST_WRITE = _ORDER.index(SelectNode)
