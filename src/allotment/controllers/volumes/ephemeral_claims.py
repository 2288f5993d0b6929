"""Creates the claims of generic ephemeral volumes. For each such volume of a pod, there is a claim named after the pod and
the volume. The pod owns it, and it is deleted with the pod.
"""

from __future__ import annotations

from typing import Any

from allotment.api.core import Pod
from allotment.api.rights import READ
from allotment.api.status import AlreadyExists, NotFound
from allotment.api.storage import PersistentVolumeClaim
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.informer import Key
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.ownership import controller_reference
from allotment.controllers.pod_state import finished
from allotment.scheduler.volumes.needs import controlled_by


class EphemeralClaims:
    """Reconciles pods."""

    name = "ephemeral-claims"
    rights = (
        f"{READ}: core: persistentvolumeclaims,pods",
        "create: core: persistentvolumeclaims",
        "update: core: pods/finalizers",
    )

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._recorder = recorder
        self._client_pods = client.plain("v1", "pods")
        self._client_claims = client.plain("v1", "persistentvolumeclaims")
        self._pods, self._claims = informers.of(Pod), informers.of(PersistentVolumeClaim)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and _volumes(new):
            self.queue.add((new.metadata.namespace, new.metadata.name))

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and new is None:
            for owner in old.metadata.owner_references:
                if owner.controller and owner.kind == "Pod":
                    self.queue.add((old.metadata.namespace, owner.name))

    async def reconcile(self, key: Key) -> None:
        await self._claims.synced()
        pod = self._pods.get(key[1], key[0])
        if pod is None or pod.metadata.deletion_timestamp is not None or finished(pod):
            return
        lacking = [name for name in _volumes(pod) if not self._has(pod, name)]
        if not lacking:
            return
        try:
            whole = await self._client_pods.get(pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return
        for volume in whole["spec"].get("volumes") or ():
            if volume["name"] in lacking and whole["metadata"]["uid"] == pod.metadata.uid:
                await self._make(pod, volume)

    def _has(self, pod: Pod, volume: str) -> bool:
        """Whether the claim exists and belongs to the pod. If it belongs to another owner, the pod gets an event."""
        claim = self._claims.get(f"{pod.metadata.name}-{volume}", pod.metadata.namespace)
        if claim is None:
            return False
        if not controlled_by(claim.metadata, pod.metadata.uid):
            self._tell(pod, f"the claim {claim.metadata.name} exists and does not belong to the pod")
        return True

    async def _make(self, pod: Pod, volume: Obj) -> None:
        try:
            await self._client_claims.create(manifest(pod, volume), pod.metadata.namespace)
        except AlreadyExists:
            return  # the informer will show to whom it belongs

    def _tell(self, pod: Pod, words: str) -> None:
        meta = pod.metadata
        subject = Subject("v1", "Pod", meta.name, meta.namespace, meta.uid)
        self._recorder.tell(subject, EventType.WARNING, "EphemeralVolumeClaim", words)


def _volumes(pod: Pod) -> list[str]:
    return [volume.name for volume in pod.spec.volumes if volume.ephemeral is not None]


def manifest(pod: Pod, volume: Obj) -> Obj:
    """The claim to create for a volume of a pod."""
    template: Obj = volume["ephemeral"].get("volumeClaimTemplate") or {}
    given: dict[str, Any] = template.get("metadata") or {}
    meta = pod.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **{name: given[name] for name in ("labels", "annotations") if given.get(name)},
            "name": f"{meta.name}-{volume['name']}",
            "namespace": meta.namespace,
            "ownerReferences": [controller_reference("v1", "Pod", meta.name, meta.uid)],
        },
        "spec": template.get("spec") or {},
    }
