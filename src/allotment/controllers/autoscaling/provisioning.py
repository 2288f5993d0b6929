"""Launches machines for pods for which the scheduler has found no place.

Pods are collected for a moment, so that pods that arrive together, and whole gangs, are planned together. The plan counts on
machines that are already on their way. For each missing machine, a NodeClaim is created, with a name that is derived from its
purpose. There is no state to lose: after a crash at any point, the next plan counts on the claims that were already created.

A plan is made when pods come to need a machine, when a claim fails, disappears or becomes ready, when the available machines
change, and from time to time while pods wait. Each pod gets the decision in an event, once. A pod that still waits after
machines were launched for it is planned again a few times without delay (with another offer if one is out of stock), then
less and less often. So if the scheduler disagrees with the plan, this does not launch machines for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from allotment.api.autoscaling import INSTANCE_TYPE, NODE_GROUP, ZONE, NodeClaim
from allotment.api.core import Pod
from allotment.api.meta import key_of
from allotment.api.rights import READ
from allotment.api.status import AlreadyExists, StatusError
from allotment.autoscaler.catalogue.node_claims import (
    INITIALIZED,
    LAUNCHED,
    ClaimProgress,
    condition,
    state_of,
)
from allotment.autoscaler.provision.launch import Launch, LaunchDecision, decide
from allotment.autoscaler.simulate.pending_pods import pending, wants_machine
from allotment.autoscaler.solver.covering import USUAL_EFFORT, SolverEffort
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.transport import Disconnected
from allotment.client.work_queue import WorkQueue
from allotment.controllers.autoscaling import followed_cluster
from allotment.controllers.autoscaling.batch import Batch
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from allotment.controllers.autoscaling.metrics import AutoscalingMetrics
from allotment.controllers.autoscaling.patience import Patience
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.machines import market
from allotment.controllers.machines.market import Market
from allotment.controllers.own_writes import OwnWrites

log = logging.getLogger(__name__)

EVERYTHING = "pods"
"""The only key: all pods are planned together."""
AGAIN_SECONDS = 60.0
NEW_SECONDS = 30.0
"""Seconds after a node became ready in which the copies of the node and its slices may be older than the claim's."""
SOON_SECONDS = 1.0
_NAMED = 3


class Provisioning:
    """The reconciler. ``place`` is where the server has NodeClaims."""

    name = "provisioning"
    rights = (
        *followed_cluster.RIGHTS,
        *market.RIGHTS,
        f"create,{READ}: karpenter.sh: nodeclaims",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        cluster: FollowedCluster,
        market: Market,
        *,
        place: ResourcePath,
        numbers: AutoscalingMetrics,
        batch: Batch | None = None,
        effort: SolverEffort = USUAL_EFFORT,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._recorder, self._cluster, self._market = recorder, cluster, market
        self._numbers, self._effort, self._now = numbers, effort, now
        self._batch = batch or Batch()
        self._claims = Collection(client, place, Typed(NodeClaim))
        self._seen = informers.at(place, NodeClaim)
        self._own: OwnWrites[str] = OwnWrites(self._seen)
        self._unsure = False  # whether a claim may have been created without a reply
        self._patience = Patience()
        self._told: dict[str, str] = {}  # the last message to each pod, by uid
        informers.of(Pod).on_change(self._pod_changed)
        self._seen.on_change(self._claim_changed)
        market.on_change.append(self._look)

    # --- when to plan ---

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and wants_machine(new) and (old is None or not wants_machine(old)):
            self._batch.add(self._now().timestamp())
            self._look()

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        settled = new is None or state_of(new) in (ClaimProgress.FAILED, ClaimProgress.INITIALIZED)
        if settled and (old is None or new is None or state_of(old) is not state_of(new)):
            self._look()

    def _look(self) -> None:
        self.queue.add(EVERYTHING)

    async def reconcile(self, key: str) -> Again | None:
        wait = self._batch.left(self._now().timestamp())
        if wait > 0:
            return Again(wait, "more pods may come")
        self._batch.close()
        await self._see_own_writes()
        now = self._now()
        waiting = pending(self._cluster.at(now.timestamp()))
        self._patience.keep({pod.metadata.uid for pod in waiting})
        self._told = {
            pod.metadata.uid: words for pod in waiting if (words := self._told.get(pod.metadata.uid))
        }
        decision = self._decide(waiting, now)
        decision = replace(
            decision, launches=tuple(each for each in decision.launches if self._may(each, now))
        )
        await self._launch(decision.launches, now)
        self._tell(decision, {key_of(pod): pod for pod in waiting})
        if self._unsure:
            return Again(SOON_SECONDS, "a claim already existed")
        return Again(AGAIN_SECONDS, "pods wait") if waiting else None

    async def _see_own_writes(self) -> None:
        if self._unsure:
            found = await self._claims.list()
            versions = [int(each.metadata.resource_version or 0) for each in found.items]
            self._own.wrote(EVERYTHING, max(versions, default=0))
            self._unsure = False
        await self._own.seen(EVERYTHING)

    # --- what to launch ---

    def _decide(self, pods: Sequence[Pod], now: datetime) -> LaunchDecision:
        began = time.perf_counter()
        simulation, claims = self._cluster.at(now.timestamp()), self._seen.all()
        decision = decide(
            simulation,
            self._market.machines,
            claims,
            pods,
            is_new=lambda each: _is_new(each, now),
            effort=self._effort,
        )
        self._numbers.planned("provisioning", time.perf_counter() - began)
        self._numbers.left_out(len(decision.plan.pending))
        return decision

    def _may(self, launch: Launch, now: datetime) -> bool:
        """Whether the machine is for a pod that has not had too many launches without success."""
        return any(self._patience.has(pod.metadata.uid, now.timestamp()) for pod in launch.pods)

    async def _launch(self, launches: Sequence[Launch], now: datetime) -> None:
        """Creates all claims that the server accepts; raises the server's error for one that it refused."""
        refused: StatusError | None = None
        for each in launches:
            try:
                made = await self._claims.create(each.claim)
            except AlreadyExists:  # created before, by this process or another; or just being deleted
                self._unsure = True
                continue
            except StatusError as exc:
                refused = exc
                continue
            except Disconnected:
                self._unsure = True
                raise
            self._own.wrote(EVERYTHING, made.metadata.resource_version or 0)
            self._patience.spend((pod.metadata.uid for pod in each.pods), now.timestamp())
            self._numbers.asked_for(each.machine)
            log.info(
                "%s requested: %s, for %d pods", each.claim.metadata.name, each.machine.name, len(each.pods)
            )
        if refused is not None:
            raise refused

    # --- what to say ---

    def _tell(self, decision: LaunchDecision, pods: dict[str, Pod]) -> None:
        for pod, words in decision.told():
            self._say(pod, EventType.NORMAL, "TriggeredScaleUp", words)
        refused = self._refused()
        for each in decision.plan.pending:
            words = f"no machine helps: {each.why}{refused}"
            self._say(pods[each.pod], EventType.WARNING, "NotTriggerScaleUp", words)

    def _say(self, pod: Pod, type_: EventType, reason: str, words: str) -> None:
        meta = pod.metadata
        if self._told.get(meta.uid) != words:
            self._told[meta.uid] = words
            self._recorder.tell(
                Subject("v1", "Pod", meta.name, meta.namespace, meta.uid), type_, reason, words
            )

    def _refused(self) -> str:
        """What could not be launched recently."""
        failed = [each for each in self._seen.all() if state_of(each) is ClaimProgress.FAILED]
        told = {words for each in failed if (words := _failure(each))}
        more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
        return f"; could not be launched: {', '.join(sorted(told)[:_NAMED])}{more}" if told else ""


def _is_new(claim: NodeClaim, now: datetime) -> bool:
    ready = condition(claim, INITIALIZED)
    return ready is not None and left(ready.last_transition_time, NEW_SECONDS, now) > 0


def _failure(claim: NodeClaim) -> str:
    """``gpu-8 in zone-a (InsufficientCapacity)``."""
    told, labels = condition(claim, LAUNCHED), claim.metadata.labels
    type_, zone = labels.get(INSTANCE_TYPE) or labels.get(NODE_GROUP, ""), labels.get(ZONE, "")
    return f"{type_}{f' in {zone}' if zone else ''} ({told.reason})" if told is not None else ""
