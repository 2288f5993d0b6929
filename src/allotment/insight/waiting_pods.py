"""Pods without a node, each with one sentence that says why: the first sentence of ``allot explain``, for many pods.

One scheduler's view of the cluster is kept up to date, and answers for one pod after the other (``scheduler.inquiry``). An
answer takes milliseconds on a large cluster, so answers are kept until something changes, and then the oldest are renewed
first, while there is time. Until a pod's turn has come, the message of its own condition stands in.

A pod of a gang is judged alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.controllers.claims.claim_users import claim_name
from allotment.insight.explain.explanation import BEGINNINGS, Outlook
from allotment.insight.explain.pod import condition_of, from_templates, identified, regardless_of_nodes
from allotment.insight.explain.trial_scheduler import (
    hides_volumes,
    hold_hidden,
    objects_of,
    plenty,
    profile_of,
    sees_group,
)
from allotment.insight.manifest_cluster import name_of
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.inquiry import Inquiry

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.usage_document import Document

_UNASKED = "no scheduler has tried to place it yet"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """``state`` is None if only the pod's own condition is known."""

    namespace: str
    name: str
    since: str  # a timestamp, or empty
    state: Outlook | None
    reason: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def sentence(self) -> str:
        return f"{BEGINNINGS.get(self.state, '') if self.state is not None else ''}{self.reason}"

    def document(self) -> Document:
        state = str(self.state) if self.state is not None else None
        return {"pod": str(self), "since": self.since or None, "state": state, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class _PodAnswer:
    epoch: int  # of the cluster when the answer was given
    state: Outlook
    reason: str


class WaitingPods:
    """The waiting pods of a cluster with their reasons. ``snapshot`` is the caller's; it must show each change before
    ``change`` is called for it. ``only`` names the namespaces whose pods matter; empty: all."""

    def __init__(self, snapshot: Snapshot, only: Sequence[str] = ()) -> None:
        self._seen = snapshot
        self._only = frozenset(only)
        self._cluster = Cluster()
        # by scheduler, and whether groups are considered
        self._inquiries: dict[tuple[str, bool], Inquiry] = {}
        self._answers: dict[str, _PodAnswer] = {}  # by pod
        self._epoch = 0
        self.behind = False  # some answers are older than the last change
        self._held = -1  # the epoch in which hidden claims were considered
        self._able = snapshot.sees(ResourceSlice) and DeviceClass not in snapshot.denied
        if self._able:
            for obj in [
                *objects_of(dataclasses.replace(snapshot, notes=[])),
                *map(identified, snapshot.some(Pod)),
            ]:
                self._cluster.change(None, obj)

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        """Takes in an object that appeared, changed or disappeared."""
        self._epoch += 1
        if self._able:
            self._cluster.change(*(plenty(each) if isinstance(each, Node) else each for each in (old, new)))

    def told(self, now: datetime, go_on: Callable[[], bool], wanted: Sequence[str] = ()) -> list[WaitingPod]:
        """All waiting pods, those that have waited longest first. Answers for the ``wanted`` ones are renewed before others'."""
        pods = {
            "/".join(name_of(pod.metadata)): identified(pod)
            for pod in self._seen.some(Pod)
            if waits(pod) and (not self._only or name_of(pod.metadata)[0] in self._only)
        }
        self._answers = {key: answer for key, answer in self._answers.items() if key in pods}
        first = set(wanted)
        stale = [key for key in pods if not self._is_fresh(key)]
        stale.sort(key=lambda key: (key not in first, self._given(key), *_age(pods[key])))
        self.behind = False
        for key in stale if self._able else ():
            if not go_on():
                self.behind = True
                break
            self._answers[key] = _PodAnswer(self._epoch, *self._ask(key, pods[key], now))
        return [self._waiting(key, pods[key]) for key in sorted(pods, key=lambda key: _age(pods[key]))]

    def _is_fresh(self, key: str) -> bool:
        answer = self._answers.get(key)
        return answer is not None and answer.epoch == self._epoch

    def _given(self, key: str) -> int:
        answer = self._answers.get(key)
        return answer.epoch if answer is not None else -1

    def _waiting(self, key: str, pod: Pod) -> WaitingPod:
        since, answer = pod.metadata.creation_timestamp or "", self._answers.get(key)
        if answer is None:
            return WaitingPod(*name_of(pod.metadata), since, None, condition_of(pod) or _UNASKED)
        return WaitingPod(*name_of(pod.metadata), since, answer.state, answer.reason)

    def _ask(self, key: str, pod: Pod, now: datetime) -> tuple[Outlook, str]:
        """The answer of ``explain``, without what would help."""
        snapshot = dataclasses.replace(self._seen, notes=[])  # notes are about a single pod
        namespace = name_of(pod.metadata)[0]
        if pod.spec.resource_claims and not snapshot.knows(ResourceClaim, namespace):
            return Outlook.WAITS, condition_of(
                pod
            ) or f"you may not list resourceclaims in namespace {namespace}"
        self._hold_hidden()
        judged = pod if snapshot.sees(Node) else regardless_of_nodes(pod, snapshot)
        inquiry = self._inquiry(pod, sees_group(pod, snapshot))
        made = from_templates(pod, snapshot) if inquiry.obstacles.unmade(pod) is None else []
        with self._supposing(pod, judged, made):
            finding = inquiry.about(key, now.timestamp())
        if finding.refusal is not None:
            return (Outlook.NOWHERE if finding.asked else Outlook.WAITS), finding.refusal.words
        if snapshot.namespaces is None and not hides_volumes(pod, snapshot):
            return Outlook.FITS, f"fits on node {finding.node}; nothing stands in its way"
        return Outlook.MAY_FIT, f"fits on node {finding.node} according to what you may see"

    @contextmanager
    def _supposing(self, pod: Pod, judged: Pod, made: Sequence[ResourceClaim]) -> Iterator[None]:
        """Adds the claims that still have to be created, and removes the parts of the pod that are not considered."""
        changes: list[tuple[ApiStruct | None, ApiStruct | None]] = [(None, claim) for claim in made]
        changes += [(pod, judged)] if judged is not pod else []
        for old, new in changes:
            self._cluster.change(old, new)
        try:
            yield
        finally:
            for old, new in reversed(changes):
                self._cluster.change(new, old)

    def _inquiry(self, pod: Pod, gangs: bool) -> Inquiry:
        key = pod.spec.scheduler_name or "", gangs
        if key not in self._inquiries:
            self._inquiries[key] = Inquiry(
                self._cluster,
                profile_of(pod),
                gangs=gangs,
                knows=self._seen.knows,
                claim_name=claim_name,
            )
        return self._inquiries[key]

    def _hold_hidden(self) -> None:
        if self._held != self._epoch:
            hold_hidden(self._cluster, self._seen)
        self._held = self._epoch


def waits(pod: Pod) -> bool:
    """Whether a pod still has to be placed."""
    begun = pod.spec.node_name or pod.status.phase not in (None, "", "Pending")
    return not begun and pod.metadata.deletion_timestamp is None


def _age(pod: Pod) -> tuple[str, str, str]:
    return (pod.metadata.creation_timestamp or "", *name_of(pod.metadata))
