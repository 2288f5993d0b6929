"""Writes a claim's status: the conditions that differ, in one patch; ``Ready`` is derived from the others."""

from __future__ import annotations

from typing import Any

from allotment.api.autoscaling import READY, NodeClaim
from allotment.api.codec import to_builtins
from allotment.api.timestamps import timestamp
from allotment.autoscaler.catalogue.node_claims import INITIALIZED, LAUNCHED, REGISTERED
from allotment.client.client import Client, Collection
from allotment.client.form import Obj, ResourcePath, Typed
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.controllers.clock import Now
from allotment.controllers.conditions import holds, put

_STAGES = (LAUNCHED, REGISTERED, INITIALIZED)
_LONGEST_MESSAGE = 1024
"""The maximal length of a message; providers' messages may be long."""


class ClaimStatus:
    """Writes the status of claims, and the events about them."""

    def __init__(self, client: Client, place: ResourcePath, recorder: Recorder, now: Now) -> None:
        self.claims = Collection(client, place, Typed(NodeClaim))
        self._recorder, self._now = recorder, now

    async def write(self, claim: NodeClaim, *conditions: Obj, **fields: Any) -> NodeClaim:
        """The claim with these conditions and other status fields; the same object if it already has them."""
        present = [_plain(each) for each in claim.status.conditions]
        wanted, now = present, timestamp(self._now())
        for each in conditions:
            wanted = put(wanted, {**each, "message": each["message"][:_LONGEST_MESSAGE]}, now)
        wanted = put(wanted, _ready(wanted), now)
        if wanted == present and not fields:
            return claim
        patch = {"status": {**fields, "conditions": wanted}}
        return await self.claims.change(claim, patch, subresource="status")

    def tell(self, claim: NodeClaim, type_: EventType, reason: str, message: str) -> None:
        meta = claim.metadata
        subject = Subject(claim.api_version, claim.kind, meta.name, uid=meta.uid)
        self._recorder.tell(subject, type_, reason, message[:_LONGEST_MESSAGE])
        if claim.status.node_name:
            # the uid in kubelets' form: events about nodes are looked up by name
            node = Subject("v1", "Node", claim.status.node_name, uid=claim.status.node_name)
            self._recorder.tell(node, type_, reason, message[:_LONGEST_MESSAGE])


def _ready(conditions: list[Obj]) -> Obj:
    missing = [each for each in _STAGES if not holds(conditions, each)]
    if not missing:
        return {"type": READY, "status": "True", "reason": "Ready", "message": ""}
    message = f"not yet true: {', '.join(missing)}"
    return {"type": READY, "status": "False", "reason": "NotReady", "message": message}


def _plain(condition: Any) -> Obj:
    """Without a time that is not set yet."""
    return {name: value for name, value in to_builtins(condition).items() if value is not None}
