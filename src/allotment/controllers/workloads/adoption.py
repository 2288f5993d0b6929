"""Which pods belong to which owner: pods that match an owner's selector and have no controller become the owner's; its own
pods that no longer match are released.

An owner that is being deleted adopts nothing. Because the copy of it may be old, the server is asked first: an owner that was
deleted with its pods left behind must not adopt them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from allotment.api.core import Pod
from allotment.api.label_selector import matches
from allotment.api.selection import Selector
from allotment.api.status import Conflict
from allotment.client.client import Collection
from allotment.client.form import Obj
from allotment.client.informer import Informer, Key
from allotment.controllers.ownership import controller_of, controller_reference
from allotment.controllers.workloads.made_pods import Offspring

ORPHANS = "orphans"
"""Index of pods: the namespace of a pod that has no controller."""
NAMESPACE = "namespace"
"""Index of owners: their namespace."""


def namespace_of(obj: Obj) -> list[str]:
    return [obj["metadata"]["namespace"]]


def _orphan_in(pod: Pod) -> list[str]:
    """The namespace of a pod that has no controller and has labels by which an owner may adopt it."""
    return [pod.metadata.namespace] if pod.metadata.labels and controller_of(pod) is None else []


class Adoption:
    """The adoption of pods by owners of one kind, given by apiVersion and name. ``mark`` is a finalizer that an owner's pods
    carry."""

    def __init__(
        self,
        kind: tuple[str, str],
        owners: Collection[Obj],
        seen: Informer[Obj],
        pods: Informer[Pod],
        offspring: Offspring,
        *,
        mark: str = "",
    ) -> None:
        self._owners, self._seen, self._pods, self._offspring = owners, seen, pods, offspring
        self._kind, self._mark = kind, mark
        seen.add_index(NAMESPACE, namespace_of)
        pods.add_index(ORPHANS, _orphan_in)

    def claimants(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """The owners that may adopt a pod that has just lost its controller, or got other labels."""
        if new is None or not _orphan_in(new) or (old is not None and _claimable(old) == _claimable(new)):
            return
        for each in self._seen.by(NAMESPACE, new.metadata.namespace):
            if matches(each["spec"].get("selector"), new.metadata.labels):
                yield each["metadata"]["namespace"], each["metadata"]["name"]

    async def claim(self, owner: Obj, selector: Selector, wanted: Callable[[Pod], bool]) -> None:
        """Adopts and releases pods, among those that are ``wanted`` at all."""
        meta = owner["metadata"]
        adopted = [
            pod
            for pod in self._pods.by(ORPHANS, meta["namespace"])
            if wanted(pod) and not self._offspring.going(pod) and selector.matches(pod.metadata.labels)
        ]
        if adopted:
            await self._require(meta)
        reference = controller_reference(*self._kind, meta["name"], meta["uid"])
        for pod in adopted:
            await self._own(pod, meta["uid"], [*_references(pod), reference], self._mark)
        for pod in filter(wanted, self._offspring.of(meta["uid"])):
            if not selector.matches(pod.metadata.labels):
                kept = [each for each in _references(pod) if each["uid"] != meta["uid"]]
                await self._own(pod, meta["uid"], kept, "")

    async def _own(self, pod: Pod, owner: str, references: list[Obj], mark: str) -> None:
        patch: Obj = {"ownerReferences": references or None}
        if self._mark:
            others = [each for each in pod.metadata.finalizers if each != self._mark]
            patch["finalizers"] = [*others, *filter(None, [mark])] or None
        await self._offspring.patch(owner, pod, {"metadata": patch})

    async def _require(self, meta: Obj) -> None:
        """Checks that the owner exists on the server."""
        fresh = (await self._owners.get(meta["name"], meta["namespace"]))["metadata"]
        if fresh["uid"] != meta["uid"] or fresh.get("deletionTimestamp") is not None:
            raise Conflict(f"{self._kind[1]} {meta['namespace']}/{meta['name']} is being deleted")


def _claimable(pod: Pod) -> tuple[dict[str, str], bool]:
    return pod.metadata.labels, controller_of(pod) is None


def _references(pod: Pod) -> list[Obj]:
    return [msgspec.to_builtins(owner) for owner in pod.metadata.owner_references]
