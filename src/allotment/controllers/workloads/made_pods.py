"""The pods that a replica set or a job has made: how many there are, one more, one less, and never one too many.

A controller counts pods in a copy that is always a little old, and sends writes whose answer may be lost. Three things keep
it from making the same pod twice or deleting two for one:

* after its own writes it waits until the copy shows them (``own_writes.py``);
* the name of a pod is chosen here and not by the server (it looks the same: prefix and five characters). A name whose
  creation failed, or whose answer never came, is tried again before any other. If the lost creation took effect after
  all, the second is refused, and one pod is there;
* a pod that was told to go counts as gone although the copy does not show it yet, and if it is not certain that it was
  told, it is the first to be told again. Deletions name the uid, so that a pod of somebody else under the same name stays.

A crash loses this memory. What was in flight may then become a pod too many, which is seen and deleted as any surplus.
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
from allotment.client.informers import Informers
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
    """A number in letters and digits that spell no words, as upstream has its hashes."""
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def from_template(template: Obj, reference: Obj) -> Obj:
    """A pod of a template, without a name."""
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "ownerReferences": [reference]},
        "spec": template["spec"],
    }


class Offspring:
    """The pods of all owners that one reconciler looks after. ``owner`` is always an owner's uid."""

    def __init__(
        self, client: Client, informers: Informers, now: Now, suffix: Callable[[], str] = random_suffix
    ) -> None:
        self._pods = client.of(Pod)
        self._plain = client.plain("v1", "pods")
        self._seen = informers.of(Pod)
        self._seen.add_index(CONTROLLED, controller_uid)
        self._seen.on_change(self._changed)
        self._writes: OwnWrites[str] = OwnWrites(self._seen)
        self._names: dict[str, dict[str, list[str]]] = {}  # by owner and prefix: may exist, are not known to
        self._told: dict[str, datetime | None] = {}  # pods that were told to go; None: without an answer
        self._now = now
        self._suffix = suffix

    async def settled(self, owner: str) -> None:
        """Returns when the copy shows what was written for an owner."""
        await self._writes.seen(owner)

    def of(self, owner: str) -> list[Pod]:
        return self._seen.by(CONTROLLED, owner)

    def active(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that work or will: not finished, not going."""
        return [pod for pod in pods if not finished(pod) and not self.going(pod)]

    def going(self, pod: Pod) -> bool:
        """Whether the pod is being deleted, as far as anybody knows."""
        if pod.metadata.deletion_timestamp is not None:
            return True
        at = self._told.get(pod.metadata.uid)
        return at is not None and self._now() - at < timedelta(seconds=LOST_WRITE_SECONDS)

    def in_doubt(self, pod: Pod) -> bool:
        """Whether the pod was told to go and no answer came."""
        return pod.metadata.uid in self._told

    async def create(self, owner: str, pod: Obj, prefix: str, namespace: str) -> str | None:
        """Makes one pod and returns its name; None if it was there from an earlier attempt.

        Raises what the server says; the name is then kept for the next attempt. Raises ``Conflict`` if the name is taken by
        somebody else; the next attempt has another.
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
        """The pod that has a name; None if it is gone again."""
        try:
            return await self._pods.get(name, namespace)
        except NotFound:
            return None
        except BaseException:
            self._keep(owner, prefix, name)
            raise

    async def delete(self, pod: Pod) -> bool:
        """Tells a pod to go. False if it was gone already; raises ``Conflict`` if another one has its name."""
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
        """Changes a pod as it is in the copy; raises ``Conflict`` if that is old."""
        changed = await self._pods.change(pod, patch)
        self._writes.wrote(owner, changed.metadata.resource_version)

    def forget(self, owner: str) -> None:
        """The owner is gone."""
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
