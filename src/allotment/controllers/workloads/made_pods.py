"""The pods that a replica set or a job has created: it counts them, creates one more or deletes one, and never one too many.

A controller counts pods in a copy that is always a little old, and sends writes whose replies may be lost. Three rules keep
it from creating a pod twice or deleting two instead of one:

* After its own writes, it waits until the copy shows them (``own_writes.py``).
* The name of a pod is chosen here and not by the server (it looks the same: prefix and five characters). A name whose
  creation failed, or whose reply never came, is tried again before any other. If the lost creation took effect after all, the
  server refuses the second, and there is one pod.
* A deleted pod counts as gone even before the copy shows it. If a deletion is uncertain, that pod is the first to be deleted
  again. Deletions name the uid, so that a foreign pod of the same name stays.

A crash loses this memory. A write in flight may then lead to a pod too many, which is deleted like any surplus.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from allotment.api.core import Pod
from allotment.api.rights import READ
from allotment.api.status import AlreadyExists, Conflict, NotFound
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.shared_informers import Informers
from allotment.controllers.clock import Now
from allotment.controllers.own_writes import LOST_WRITE_SECONDS, OwnWrites
from allotment.controllers.ownership import CONTROLLED, controller_uid
from allotment.controllers.pod_state import finished

RIGHTS = (f"create,delete,patch,{READ}: core: pods",)

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST_PREFIX = 63 - _SUFFIX


def random_suffix() -> str:
    return "".join(random.choices(_LETTERS, k=_SUFFIX))


def encoded(number: int) -> str:
    """A number in letters and digits that spell no words, like upstream's hashes."""
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def from_template(template: Obj, reference: Obj) -> Obj:
    """A pod from a template, without a name."""
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "ownerReferences": [reference]},
        "spec": template["spec"],
    }


class Offspring:
    """The pods of all owners that one reconciler manages. ``owner`` is always an owner's uid."""

    def __init__(
        self, client: Client, informers: Informers, now: Now, suffix: Callable[[], str] = random_suffix
    ) -> None:
        self._pods = client.of(Pod)
        self._plain = client.plain("v1", "pods")
        self._seen = informers.of(Pod)
        self._seen.add_index(CONTROLLED, controller_uid)
        self._seen.on_change(self._changed)
        self._writes: OwnWrites[str] = OwnWrites(self._seen)
        self._names: dict[str, dict[str, list[str]]] = {}  # by owner and prefix: names of pods that may exist
        self._told: dict[str, datetime | None] = {}  # deleted pods; None: the deletion has no reply
        self._now = now
        self._suffix = suffix

    async def settled(self, owner: str) -> None:
        """Returns when the copy shows what was written for an owner."""
        await self._writes.seen(owner)

    def of(self, owner: str) -> list[Pod]:
        return self._seen.by(CONTROLLED, owner)

    def active(self, pods: Iterable[Pod]) -> list[Pod]:
        """The pods that run or will run: neither finished nor being deleted."""
        return [pod for pod in pods if not finished(pod) and not self.going(pod)]

    def going(self, pod: Pod) -> bool:
        """Whether the pod is known to be deleted."""
        if pod.metadata.deletion_timestamp is not None:
            return True
        at = self._told.get(pod.metadata.uid)
        return at is not None and self._now() - at < timedelta(seconds=LOST_WRITE_SECONDS)

    def in_doubt(self, pod: Pod) -> bool:
        """Whether a deletion of the pod was sent without a reply."""
        return pod.metadata.uid in self._told

    async def create(self, owner: str, pod: Obj, prefix: str, namespace: str) -> str | None:
        """Creates one pod and returns its name; None if it exists from an earlier attempt.

        Raises the server's error; the name is then kept for the next attempt. Raises ``Conflict`` if a foreign pod has the
        name; the next attempt uses another one.
        """
        prefix = prefix[:_LONGEST_PREFIX]
        name = self._untried(owner, prefix, namespace)
        meta = {**pod["metadata"], "name": name, "generateName": prefix}
        try:
            made = await self._plain.create({**pod, "metadata": meta}, namespace)
            version, new = made["metadata"]["resourceVersion"], True
        except AlreadyExists:
            there = await self._find(owner, prefix, name, namespace)
            if there is None or controller_uid(there) != [owner]:
                raise Conflict(f"the name {namespace}/{name} for a new pod is taken") from None
            version, new = there.metadata.resource_version, False
        except BaseException:
            self._keep(owner, prefix, name)
            raise
        self._writes.wrote(owner, version)
        return name if new else None

    async def _find(self, owner: str, prefix: str, name: str, namespace: str) -> Pod | None:
        """The pod with a name; None if it no longer exists."""
        try:
            return await self._pods.get(name, namespace)
        except NotFound:
            return None
        except BaseException:
            self._keep(owner, prefix, name)
            raise

    async def delete(self, pod: Pod) -> bool:
        """Deletes a pod. Returns False if it no longer existed; raises ``Conflict`` if another pod has its name."""
        meta, was_there, answered = pod.metadata, True, None
        self._told[meta.uid] = None
        try:
            await self._pods.delete(meta.name, meta.namespace, uid=meta.uid)
            answered = self._now()
        except NotFound:
            was_there, answered = False, self._now()
        finally:
            seen = self._seen.get(meta.name, meta.namespace)
            if seen is not None and seen.metadata.uid == meta.uid:
                self._told[meta.uid] = answered
            else:
                self._told.pop(meta.uid, None)
        return was_there

    async def patch(self, owner: str, pod: Pod, patch: dict[str, Any]) -> None:
        """Changes a pod in the state in which the copy has it; raises ``Conflict`` if that is old."""
        changed = await self._pods.change(pod, patch)
        self._writes.wrote(owner, changed.metadata.resource_version)

    def forget(self, owner: str) -> None:
        """Forgets an owner that is gone."""
        self._names.pop(owner, None)

    def _keep(self, owner: str, prefix: str, name: str) -> None:
        self._names.setdefault(owner, {}).setdefault(prefix, []).append(name)

    def _untried(self, owner: str, prefix: str, namespace: str) -> str:
        """A name to try: one that may exist already, unless the copy shows that it does, or else a new one."""
        names = self._names.get(owner, {}).get(prefix, [])
        while names:
            name = names.pop()
            if self._seen.get(name, namespace) is None:
                return name
        return prefix + self._suffix()

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.deletion_timestamp is not None):
            self._told.pop(old.metadata.uid, None)
