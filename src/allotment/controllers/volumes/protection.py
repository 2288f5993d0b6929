"""Removes the finalizers with which Kubernetes protects claims and volumes in use, once these are deleted and no longer used.

Nothing adds these finalizers here. They come with manifests of other clusters, and would block the deletion of the objects
and their namespace for ever. A claim is in use while an unfinished pod on a node names it; a volume is in use while its claim
exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.api.core import Pod
from allotment.api.rights import READ
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.client.client import Client
from allotment.client.informer import Key
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.pod_state import finished
from allotment.scheduler.volumes.pod_volumes import volumes_of

if TYPE_CHECKING:
    from allotment.api.meta import ObjectMeta

CLAIM_IN_USE, VOLUME_IN_USE = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_CLAIM = "claims-of-a-pod"


def _used_by(pod: Pod) -> list[Key]:
    volumes = volumes_of(pod) if pod.spec.node_name and not finished(pod) else None
    return [(pod.metadata.namespace, claim.name) for claim in volumes.claims] if volumes is not None else []


class VolumeProtection:
    """Reconciles claims, and volumes under keys without a namespace."""

    name = "volume-protection"
    rights = (
        f"{READ}: core: persistentvolumeclaims,persistentvolumes,pods",
        "patch: core: persistentvolumeclaims,persistentvolumes",
    )

    def __init__(self, client: Client, informers: Informers) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._claims, self._volumes = client.of(PersistentVolumeClaim), client.of(PersistentVolume)
        self._seen_claims = informers.of(PersistentVolumeClaim)
        self._seen_volumes = informers.of(PersistentVolume)
        self._pods = informers.of(Pod)
        self._pods.add_index(_CLAIM, _used_by)
        self._pods.on_change(self._pod_changed)
        self._seen_claims.on_change(self._claim_changed)
        self._seen_volumes.on_change(self._volume_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for key in _used_by(old) if old is not None else ():
            self.queue.add(key)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        for claim in filter(None, (old, new)):
            if _held(claim.metadata, CLAIM_IN_USE):
                self.queue.add((claim.metadata.namespace, claim.metadata.name))
            if new is None and claim.spec.volume_name:
                self.queue.add(("", claim.spec.volume_name))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and _held(new.metadata, VOLUME_IN_USE):
            self.queue.add(("", new.metadata.name))

    async def reconcile(self, key: Key) -> None:
        for informer in (self._seen_claims, self._pods):
            await informer.synced()
        namespace, name = key
        if not namespace:
            volume = self._seen_volumes.get(name)
            if volume is not None and _held(volume.metadata, VOLUME_IN_USE) and not self._has_claim(volume):
                await self._volumes.change(volume, _without(volume.metadata, VOLUME_IN_USE))
            return
        claim = self._seen_claims.get(name, namespace)
        if claim is not None and _held(claim.metadata, CLAIM_IN_USE) and not self._pods.by(_CLAIM, key):
            await self._claims.change(claim, _without(claim.metadata, CLAIM_IN_USE))

    def _has_claim(self, volume: PersistentVolume) -> bool:
        ref = volume.spec.claim_ref
        claim = self._seen_claims.get(ref.name or "", ref.namespace or "") if ref is not None else None
        return claim is not None and ref is not None and claim.metadata.uid == ref.uid


def _held(meta: ObjectMeta, mark: str) -> bool:
    return meta.deletion_timestamp is not None and mark in meta.finalizers


def _without(meta: ObjectMeta, mark: str) -> dict[str, object]:
    return {"metadata": {"finalizers": [each for each in meta.finalizers if each != mark] or None}}
