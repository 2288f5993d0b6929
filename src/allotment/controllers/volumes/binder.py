"""Binds claims and volumes to each other, and releases volumes whose claims are gone.

A claim whose class binds immediately gets the smallest volume that fits; a claim that waits for its first consumer gets the
volume that a scheduler chose for it. If there is no volume, a claim without a class gets the default class, and the simulated
provisioner creates a volume if the class is its own. Binding takes four writes, and a crash may follow any of them: the
volume's claim, the volume's phase, the claim's volume, the claim's phase. Every call continues from the present state of the
two.

A volume whose claim is gone becomes Released: it is kept for people to examine, or deleted if its policy is ``Delete`` and
the simulated provisioner created it. Other provisioners delete their own volumes.

One worker does all of this, and it decides nothing before it has seen its own last write, so no two claims get one volume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.api.core import Node
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    OLD_CLASS,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    belongs_to,
    class_of,
    is_bound,
)
from allotment.client.client import Client
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.simulation.marks import is_simulated
from allotment.controllers.volumes.provisioner import PROVISIONER, reference_to, volume_for
from allotment.scheduler.volumes.matching import Candidates
from allotment.scheduler.volumes.needs import waits_for_consumer
from allotment.scheduler.volumes.storage import Storage

if TYPE_CHECKING:
    from allotment.client.client import Collection

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
_ONE = ""
"""The key of the own writes: there is one worker."""


class VolumeKey(NamedTuple):
    """A volume (without a namespace) or a claim."""

    kind: str
    namespace: str
    name: str


class VolumeBinder:
    """Reconciles claims and volumes. Run it with one worker."""

    name = "volume-binder"
    rights = (
        f"{READ}: core: nodes,persistentvolumeclaims,persistentvolumes",
        f"{READ}: storage.k8s.io: storageclasses",
        "create,delete,patch: core: persistentvolumes",
        "patch: core: persistentvolumeclaims",
        "patch: core: persistentvolumeclaims/status,persistentvolumes/status",
    )

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self.queue: WorkQueue[VolumeKey] = WorkQueue()
        self._recorder = recorder
        self._storage = Storage()
        self._volumes: Collection[PersistentVolume] = client.of(PersistentVolume)
        self._claims: Collection[PersistentVolumeClaim] = client.of(PersistentVolumeClaim)
        self._new_volumes = client.plain("v1", "persistentvolumes", namespaced=False)
        self._seen_volumes, self._seen_claims = (
            informers.of(PersistentVolume),
            informers.of(PersistentVolumeClaim),
        )
        self._seen_classes, self._nodes = informers.of(StorageClass), informers.of(Node)
        self._wrote = {
            VOLUME: OwnWrites[str](self._seen_volumes),
            CLAIM: OwnWrites[str](self._seen_claims),
        }
        self._seen_classes.on_change(self._class_changed)
        self._seen_volumes.on_change(self._volume_changed)
        self._seen_claims.on_change(self._claim_changed)

    # --- who is worth a look ---

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._storage.change(old, new)
        if new is not None:
            names = ("", new.metadata.name)
            self._look_at_claims(lambda claim: class_of(claim) in names)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self._storage.change(old, new)
        for volume in filter(None, (old, new)):
            self.queue.add(VolumeKey(VOLUME, "", volume.metadata.name))
            ref = volume.spec.claim_ref
            if ref is not None:
                self.queue.add(VolumeKey(CLAIM, ref.namespace or "", ref.name or ""))
        if new is not None and new.spec.claim_ref is None and new.status.phase == "Available":
            names = ("", new.metadata.name)
            self._look_at_claims(lambda claim: (claim.spec.volume_name or "") in names)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self._storage.change(old, new)
        for claim in filter(None, (old, new)):
            self.queue.add(VolumeKey(CLAIM, claim.metadata.namespace, claim.metadata.name))
            if claim.spec.volume_name:
                self.queue.add(VolumeKey(VOLUME, "", claim.spec.volume_name))
        if new is None:  # a volume may have been chosen for it that it does not name yet
            assert old is not None
            for volume in self._storage.of_class.get(class_of(old), {}).values():
                if belongs_to(volume.pv, old):
                    self.queue.add(VolumeKey(VOLUME, "", volume.name))

    def _look_at_claims(self, which: Callable[[PersistentVolumeClaim], bool]) -> None:
        for claim in self._storage.claims.values():
            if not is_bound(claim) and which(claim):
                self.queue.add(VolumeKey(CLAIM, claim.metadata.namespace, claim.metadata.name))

    # --- one of them ---

    async def reconcile(self, key: VolumeKey) -> None:
        for informer in (self._seen_classes, self._seen_volumes, self._seen_claims, self._nodes):
            await informer.synced()
        for wrote in self._wrote.values():
            await wrote.seen(_ONE)
        if key.kind == VOLUME:
            volume = self._storage.volumes.get(key.name)
            if volume is not None and volume.pv.metadata.deletion_timestamp is None:
                await self._look_at_volume(volume.pv)
            return
        claim = self._storage.claims.get(f"{key.namespace}/{key.name}")
        if claim is not None and claim.metadata.deletion_timestamp is None:
            await self._look_at_claim(claim)

    async def _look_at_claim(self, claim: PersistentVolumeClaim) -> None:
        name = claim.spec.volume_name or ""
        if name:
            volume = self._storage.volumes.get(name)
            await self._complete(claim, volume.pv if volume is not None else None)
            return
        candidates = Candidates(claim, self._storage)
        waits = waits_for_consumer(claim, self._storage)
        found = candidates.meant if waits else candidates.anywhere()
        if found is not None:
            await self._bind(claim, found.pv)
        else:
            await self._provision(claim, waits=waits)

    async def _complete(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> None:
        """Continues for a claim that names its volume: the other writes follow, or the claim has lost the volume."""
        free = volume is not None and volume.spec.claim_ref is None
        if volume is not None and (free or belongs_to(volume, claim)):
            await self._bind(claim, volume)
        elif is_bound(claim) and claim.status.phase != "Lost":
            why = "no longer exists" if volume is None else "belongs to another claim"
            self._tell(claim, EventType.WARNING, "ClaimLost", f"its volume {claim.spec.volume_name} {why}")
            await self._change_claim(claim, {"status": {"phase": "Lost"}}, status=True)

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Makes the next of the four writes that is missing; the next call makes the one after it."""
        ref = volume.spec.claim_ref
        if ref is None or ref.uid != claim.metadata.uid:
            marks = {} if ref is not None else {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}}
            await self._change_volume(volume, {"spec": {"claimRef": reference_to(claim)}, **marks})
        elif volume.status.phase != "Bound":
            await self._phase(volume, "Bound")
        elif not is_bound(claim):
            chosen = {} if claim.spec.volume_name else {BOUND_BY_CONTROLLER: "yes"}
            await self._change_claim(
                claim,
                {
                    "metadata": {"annotations": {BIND_COMPLETED: "yes", **chosen}},
                    "spec": {"volumeName": volume.metadata.name},
                },
            )
        elif claim.status.phase != "Bound":
            status = {
                "phase": "Bound",
                "accessModes": list(volume.spec.access_modes),
                "capacity": {name: str(size) for name, size in volume.spec.capacity.items()},
            }
            await self._change_claim(claim, {"status": status}, status=True)

    async def _provision(self, claim: PersistentVolumeClaim, *, waits: bool) -> None:
        default = self._default_class() if _names_no_class(claim) else None
        if default is not None:
            await self._change_claim(claim, {"spec": {"storageClassName": default}})
            return
        kind = self._storage.classes.get(class_of(claim))
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        if kind is None or (waits and not node_name):
            if waits:
                words = "waiting for first consumer to be created before binding"
                self._tell(claim, EventType.NORMAL, "WaitForFirstConsumer", words)
            return
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) != kind.provisioner:
            mark = {STORAGE_PROVISIONER: kind.provisioner}
            await self._change_claim(claim, {"metadata": {"annotations": mark}})
        elif kind.provisioner == PROVISIONER:
            await self._make(claim, kind, node_name)

    def _default_class(self) -> str | None:
        """The class for claims that name none and get no existing volume: of several default classes the newest, then the
        first by name."""
        marked = [
            (each.metadata.creation_timestamp or "", each.metadata.name)
            for each in self._storage.classes.values()
            if each.metadata.annotations.get(DEFAULT_CLASS) == "true"
        ]
        newest = max((since for since, _ in marked), default="")
        return min((name for since, name in marked if since == newest), default=None)

    async def _make(self, claim: PersistentVolumeClaim, kind: StorageClass, node_name: str) -> None:
        """Creates the volume, or returns the choice of a node to the scheduler."""
        node = self._nodes.get(node_name) if node_name else None
        if node_name and not is_simulated(node):
            words = f"node {node_name} is {'gone' if node is None else 'not simulated'}"
            self._tell(claim, EventType.WARNING, "ProvisioningFailed", words)
            await self._change_claim(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        made = await self._new_volumes.create(volume_for(claim, kind, node))
        self._wrote[VOLUME].wrote(_ONE, made["metadata"]["resourceVersion"])
        name = made["metadata"]["name"]
        self._tell(claim, EventType.NORMAL, "ProvisioningSucceeded", f"made volume {name}")

    # --- volumes ---

    async def _look_at_volume(self, volume: PersistentVolume) -> None:
        ref = volume.spec.claim_ref
        if ref is None or not ref.uid:  # a volume reserved for a claim is free until that claim takes it
            if volume.status.phase != "Available":
                await self._phase(volume, "Available")
            return
        claim = self._storage.claims.get(f"{ref.namespace}/{ref.name}")
        if claim is None or claim.metadata.uid != ref.uid:
            if await self._is_gone(ref.namespace or "", ref.name or "", ref.uid):
                await self._release(volume)
        elif claim.spec.volume_name not in (None, "", volume.metadata.name):
            await self._unbind(volume)

    async def _is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Whether such a claim no longer exists, according to the server, because the copy may be behind."""
        try:
            return (await self._claims.get(name, namespace)).metadata.uid != uid
        except NotFound:
            return True

    async def _release(self, volume: PersistentVolume) -> None:
        if volume.status.phase != "Released":
            await self._phase(volume, "Released")
            return
        ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        if ours and volume.spec.persistent_volume_reclaim_policy == "Delete":
            meta = volume.metadata
            await self._volumes.delete(meta.name, uid=meta.uid)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Frees a volume whose claim has another one: for any claim or, if a person reserved it, for the claim of that name."""
        chosen = BOUND_BY_CONTROLLER not in volume.metadata.annotations
        ref = {"uid": None, "resourceVersion": None} if chosen else None
        patch: dict[str, Any] = {"spec": {"claimRef": ref}}
        if not chosen:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: None}}
        await self._change_volume(volume, patch)

    # --- writes ---

    async def _phase(self, volume: PersistentVolume, phase: str) -> None:
        await self._change_volume(volume, {"status": {"phase": phase}}, status=True)

    async def _change_volume(
        self, volume: PersistentVolume, patch: dict[str, Any], *, status: bool = False
    ) -> None:
        made = await self._volumes.change(volume, patch, subresource="status" if status else "")
        self._wrote[VOLUME].wrote(_ONE, made.metadata.resource_version)

    async def _change_claim(
        self, claim: PersistentVolumeClaim, patch: dict[str, Any], *, status: bool = False
    ) -> None:
        made = await self._claims.change(claim, patch, subresource="status" if status else "")
        self._wrote[CLAIM].wrote(_ONE, made.metadata.resource_version)

    def _tell(self, claim: PersistentVolumeClaim, kind: EventType, reason: str, words: str) -> None:
        meta = claim.metadata
        subject = Subject("v1", CLAIM, meta.name, meta.namespace, meta.uid)
        self._recorder.tell(subject, kind, reason, words)


def _names_no_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has no class field; an empty name means that it wants no class."""
    return claim.spec.storage_class_name is None and OLD_CLASS not in claim.metadata.annotations
