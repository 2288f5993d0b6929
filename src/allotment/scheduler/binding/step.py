"""What must happen before a pod is bound, as data: PreBind plugins list the steps, and ``binding_stage`` carries them out.

Steps run in order, each after the one before. Steps that write claims and volumes come first (``in_order``), and run in parallel.
If one fails for good, every step is undone in reverse order, including the failing one: an undo is safe even if its step never
ran.
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
    joins: bool = False  # another pod brings the allocation; the last of the users releases it
    # instead of ``allocation`` in the patch: the carried form of a semantic claim
    document: dict[str, Any] | None = None


class MakeClaim(msgspec.Struct, frozen=True, gc=False):
    """Create the claim that serves a pod's extended resources, then continue like ``WriteClaim``. Undone by deleting the
    claim."""

    claim: str  # namespace/name
    manifest: dict[str, Any]
    write: WriteClaim


class PatchStatus(msgspec.Struct, frozen=True, gc=False):
    """Write into the pod's status what it got. Needs no undo: the next attempt overwrites it."""

    patch: dict[str, Any]


class AwaitConditions(msgspec.Struct, frozen=True, gc=False):
    """Wait until the binding conditions of all devices of these claims are true, one fails, or the deadline passes."""

    claims: tuple[str, ...]
    seconds: float


class BindVolume(msgspec.Struct, frozen=True, gc=False):
    """Write into a volume which claim it belongs to. Undone by removing that, unless the volume controller has bound the two
    already."""

    volume: str
    claim: str  # namespace/name
    uid: str  # of the claim


class SelectNode(msgspec.Struct, frozen=True, gc=False):
    """Write into a claim for which node to provision its volume. Undone by removing that, unless the claim is bound already."""

    claim: str  # namespace/name
    uid: str
    node: str


class AwaitVolumes(msgspec.Struct, frozen=True, gc=False):
    """Wait until the volume controller and provisioners have bound the claims, that becomes impossible, or the deadline
    passes."""

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
    """Steps of several plugins in the order in which they run: writes of claims and volumes, then of the pod, then waiting."""
    return sorted(steps, key=lambda step: max(_ORDER.index(type(step)), _LAST_WRITE))


_LAST_WRITE = _ORDER.index(SelectNode)
