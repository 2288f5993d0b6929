"""Writes one decision about a volume, or undoes it: which claim gets a volume (``BindVolume``), or for which node to provision a
claim's volume (``SelectNode``).

It is a state machine like ``ClaimWriter``, with the same methods. Every write names the version that it is based on, and counts
once the informer shows it. The writer does not undo what the volume controller has built upon: the claim is bound then, and stays
so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allotment.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    belongs_to,
)
from allotment.scheduler.binding.claim_writer import FIRST_REST, LONGEST_REST, MOST_CONFLICTS
from allotment.scheduler.binding.step import BindVolume, SelectNode
from allotment.scheduler.event import WriteFailure
from allotment.scheduler.instruction import PatchVolume, PatchVolumeClaim

if TYPE_CHECKING:
    from allotment.scheduler.binding.claim_writer import Draft
    from allotment.scheduler.volumes.storage import Storage

VOLUME, CLAIM = "persistentvolume ", "persistentvolumeclaim "
"""Prefixes that distinguish the followed objects of writers: volumes, their claims, and device claims."""


def followed(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The prefixed key under which a writer follows an object."""
    meta = obj.metadata
    if isinstance(obj, PersistentVolume):
        return VOLUME + meta.name
    return f"{CLAIM}{meta.namespace}/{meta.name}"


class VolumeWriter:
    """The state machine of one volume decision's writes. After each call of ``done``, ``failed`` or ``undo``, and when the object
    changed, ask ``advance`` what to send."""

    rests_until = 0.0
    patience = 0.0
    finished = False
    error = ""
    for_group = False
    _uid = ""  # of the object; a new object with the same name is not ours
    _sent = False
    _based = 0  # the version that the last write was based on
    _version = 0  # after our last write
    _stale = 0  # a copy as old as this is not worth looking at
    _wrote = False  # the state on the server is, or may be, our write
    _conflicts = _silences = 0
    _undoing = False

    def __init__(self, step: BindVolume | SelectNode, storage: Storage) -> None:
        self._step = step
        self._storage = storage
        self.subject = VOLUME + step.volume if isinstance(step, BindVolume) else CLAIM + step.claim
        shown = self._shown()
        self._uid = shown.metadata.uid if shown is not None else ""

    @property
    def follows(self) -> str:
        return self.subject

    # --- what happened ---

    def done(self, version: int, uid: str) -> None:
        self._sent = False
        self._version = max(self._version, version)
        self._silences = 0
        self._wrote = True

    def failed(self, why: WriteFailure, message: str, now: float) -> None:
        self._sent = False
        if why is WriteFailure.CONFLICT:
            self._conflicts += 1
            self._stale = self._based
            if self._conflicts > MOST_CONFLICTS and not self._undoing:
                self.error = f"could not be written after {self._conflicts} conflicts"
        elif why is WriteFailure.UNKNOWN:
            self._wrote = True
            self.rests_until = now + min(FIRST_REST * 2 ** min(self._silences, 10), LONGEST_REST)
            self._silences += 1
        elif not self._undoing:
            self.error = message or why.value
        elif why is WriteFailure.GONE:
            self.finished = True
        else:  # repeating it soon would not help
            self.rests_until = now + LONGEST_REST

    def undo(self) -> None:
        """Turns around: from now on, ``advance`` undoes what was written."""
        self._undoing, self.finished, self.error, self._conflicts = True, False, "", 0

    def awaits_news(self) -> bool:
        shown = self._shown()
        return shown is not None and self._outdated(shown)

    def stands(self) -> bool:
        """Whether the object still shows what was written."""
        shown = self._shown()
        return shown is not None and self._is_so(shown)

    # --- what to do next ---

    def advance(self, now: float) -> Draft | None:
        """The next write to send; None if there is nothing to send now. Look at ``finished`` and ``error`` too."""
        if self._sent or self.finished or self.error or now < self.rests_until:
            return None
        shown = self._shown()
        if shown is None:
            self.finished, self.error = self._undoing, "" if self._undoing else "is gone"
            return None
        if self._outdated(shown):
            return None
        return self._backward(shown) if self._undoing else self._forward(shown)

    def _shown(self) -> PersistentVolume | PersistentVolumeClaim | None:
        step, storage = self._step, self._storage
        found: PersistentVolume | PersistentVolumeClaim | None
        if isinstance(step, BindVolume):
            volume = storage.volumes.get(step.volume)
            found = volume.pv if volume is not None else None
        else:
            found = storage.claims.get(step.claim)
        return found if found is None or self._uid in ("", found.metadata.uid) else None

    def _outdated(self, shown: PersistentVolume | PersistentVolumeClaim) -> bool:
        known = int(shown.metadata.resource_version or 0)
        return known <= self._stale or known < self._version

    def _forward(self, shown: PersistentVolume | PersistentVolumeClaim) -> Draft | None:
        if shown.metadata.deletion_timestamp is not None:
            self.error = "is being deleted"
        elif self._is_so(shown):
            self.finished = True
        else:
            self.error = self._obstacle(shown)
            if not self.error:
                return self._patch(shown, self._wanted(shown))
        return None

    def _is_so(self, shown: PersistentVolume | PersistentVolumeClaim) -> bool:
        step = self._step
        if isinstance(step, BindVolume):
            ref = shown.spec.claim_ref if isinstance(shown, PersistentVolume) else None
            return ref is not None and (f"{ref.namespace}/{ref.name}", ref.uid) == (step.claim, step.uid)
        # once the claim has its volume, the node that was chosen for it no longer matters
        assert isinstance(shown, PersistentVolumeClaim)
        return bool(shown.spec.volume_name) or shown.metadata.annotations.get(SELECTED_NODE) == step.node

    def _obstacle(self, shown: PersistentVolume | PersistentVolumeClaim) -> str:
        step = self._step
        if isinstance(step, BindVolume):
            claim = self._storage.claims.get(step.claim)
            if claim is None or claim.metadata.uid != step.uid:
                return f"was for {CLAIM}{step.claim}, which is gone"
            assert isinstance(shown, PersistentVolume)
            if shown.spec.claim_ref is not None and not belongs_to(shown, claim):
                return "was given to another claim meanwhile"
        elif other := shown.metadata.annotations.get(SELECTED_NODE):
            return f"is to get a volume for node {other} by now"
        return ""

    def _wanted(self, shown: PersistentVolume | PersistentVolumeClaim) -> dict[str, Any]:
        step = self._step
        if isinstance(step, SelectNode):
            return {"metadata": {"annotations": {SELECTED_NODE: step.node}}}
        assert isinstance(shown, PersistentVolume)
        namespace, _, name = step.claim.partition("/")
        claim = self._storage.claims[step.claim]
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": step.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        patch: dict[str, Any] = {"spec": {"claimRef": ref}}
        if shown.spec.claim_ref is None:  # else a person chose, or another component
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return patch

    def _backward(self, shown: PersistentVolume | PersistentVolumeClaim) -> Draft | None:
        if not self._wrote or (self._is_so(shown) and self._built_upon(shown)):
            self.finished = True
            return None
        unsure = self._silences and int(shown.metadata.resource_version or 0) <= self._based
        if not (unsure or self._is_so(shown)):
            self.finished = True
            return None
        mark = SELECTED_NODE if isinstance(self._step, SelectNode) else BOUND_BY_CONTROLLER
        patch: dict[str, Any] = {"metadata": {"annotations": {mark: None}}}
        if isinstance(self._step, BindVolume):
            patch["spec"] = {"claimRef": None}
        return self._patch(shown, patch)

    def _built_upon(self, shown: PersistentVolume | PersistentVolumeClaim) -> bool:
        """Whether the volume controller has acted on the write, so that it can no longer be undone."""
        if isinstance(shown, PersistentVolumeClaim):
            return bool(shown.spec.volume_name)
        claim = self._storage.claims.get(self._step.claim)
        has_it = claim is not None and claim.spec.volume_name == shown.metadata.name
        return shown.status.phase == "Bound" or has_it

    def _patch(self, shown: PersistentVolume | PersistentVolumeClaim, patch: dict[str, Any]) -> Draft:
        meta, version = shown.metadata, shown.metadata.resource_version
        self._sent, self._based = True, int(version or 0)
        if isinstance(shown, PersistentVolume):
            return lambda id: PatchVolume(id, meta.name, meta.uid, version, patch)
        return lambda id: PatchVolumeClaim(id, meta.namespace, meta.name, meta.uid, version, patch)
