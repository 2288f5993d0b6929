"""Removes machines that nobody needs, and machines that cheaper ones can replace.

``autoscaler.consolidate.consolidation`` finds what can be removed, once no pod has come to a node or left it for as long as
its pool says. The search runs after changes, but takes only a small part of the time. It never runs while machines are on
their way, because its result might soon be wrong. A result must be found a second time, a little later, before it is carried
out.

Without replacements, the claims are deleted; the machine controller then empties the nodes first, within disruption budgets.
With replacements, these are launched first, marked with the names of the claims that they replace. This mark is the only
record. When all replacements of a set are ready, the old machines are removed, if the result still holds. When one of them
fails, nothing is removed, and a later search finds the superfluous machines. Only one such exchange happens at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from allotment.api.autoscaling import KARPENTER_VERSION, NODE_POOL, NodeClaim
from allotment.api.core import Pod
from allotment.api.cron import seconds
from allotment.api.rights import READ
from allotment.api.status import Conflict, NotFound
from allotment.api.timestamps import moment
from allotment.autoscaler.catalogue.node_claims import (
    INITIALIZED,
    ClaimProgress,
    condition,
    machine_of,
    node_name,
    state_of,
)
from allotment.autoscaler.consolidate.consolidation import (
    EFFORT_PER_PLAN,
    NOTHING,
    Consolidation,
    consolidate,
)
from allotment.autoscaler.provision.launch import launch_of, to_be_had, unavailable
from allotment.autoscaler.simulate.expected_machines import expect
from allotment.autoscaler.solver.covering import SolverEffort
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.autoscaling import followed_cluster
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from allotment.controllers.autoscaling.metrics import AutoscalingMetrics
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.machines import market
from allotment.controllers.machines.market import Market
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.pod_state import finished

log = logging.getLogger(__name__)

EVERYTHING = "nodes"
"""The only key: all nodes are considered together."""
REPLACES = "allotment.dev/replaces"
"""Annotation of a claim: the names of the claims that are deleted when it is ready, separated by commas."""
AGAIN_SECONDS = 60.0
SETTLE_SECONDS = 2.0
"""Seconds after which a result must be found again."""
REST_PER_LOOK = 10.0
"""After a search, the next one starts no sooner than this many times its duration."""
KEPT_SECONDS = 30.0
"""For so many seconds after the replaced machines are gone, a node is expected to receive their pods."""
DISCOURAGED_SECONDS = 300.0
"""After a failed exchange, none is begun for so many seconds."""
LEAST_PAUSE_SECONDS = 1.0
"""The minimum of that pause."""


class ScaleDown:
    """The reconciler. ``place`` is where the server has NodeClaims."""

    name = "scale-down"
    rights = (
        *followed_cluster.RIGHTS,
        *market.RIGHTS,
        f"create,delete,patch,{READ}: karpenter.sh: nodeclaims",
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
        effort: SolverEffort = EFFORT_PER_PLAN,
        settle: float = SETTLE_SECONDS,
        pause: float = LEAST_PAUSE_SECONDS,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._recorder, self._cluster, self._market = recorder, cluster, market
        self._numbers, self._effort, self._settle, self._pause, self._now = (
            numbers,
            effort,
            settle,
            pause,
            now,
        )
        self._claims = Collection(client, place, Typed(NodeClaim))
        self._seen = informers.at(place, NodeClaim)
        self._own: OwnWrites[str] = OwnWrites(self._seen)
        # when this process last saw a pod come to a node or leave it
        self._touched: dict[str, float] = {}
        self._kept: dict[
            str, float
        ] = {}  # nodes that are expected to receive pods of removed nodes, and until when
        # the result to confirm, and when it was first found
        self._found: tuple[tuple[str, ...], float] | None = None
        self._rest = 0.0  # no search before this time
        self._discouraged = 0.0  # no exchange before this time
        informers.of(Pod).on_change(self._pod_changed)
        self._seen.on_change(self._claim_changed)
        market.on_change.append(self._look)

    # --- when to look ---

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before, after = _presence(old), _presence(new)
        if old is not None and before != after:
            now = self._now().timestamp()
            self._touched.update({node: now for node, _ in (before, after) if node})
            self._look()

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is None or new is None or state_of(old) is not state_of(new):
            self._look()
        if new is None and old is not None:
            self._touched.pop(node_name(old), None)
            self._kept.pop(node_name(old), None)

    def _look(self) -> None:
        self.queue.add(EVERYTHING)

    async def reconcile(self, key: str) -> Again | None:
        await self._own.seen(EVERYTHING)
        now, claims = self._now(), self._seen.all()
        wait = self._rest - now.timestamp()
        if wait > 0:
            return Again(wait, "the last search was a moment ago")
        if not any(state_of(each) is ClaimProgress.INITIALIZED for each in claims):
            return None
        if any(state_of(each).is_coming for each in claims):
            self._found = None
            return None  # its change triggers the next call
        exchange = [each for each in claims if self._unfinished(each)]
        if exchange:
            return await self._finish(exchange, now)
        return await self._begin(claims, now)

    # --- what can go ---

    async def _begin(self, claims: Sequence[NodeClaim], now: datetime) -> Again | None:
        candidates = {
            node_name(each): self._since(each)
            for each in claims
            if state_of(each) is ClaimProgress.INITIALIZED and not self._waits_for_pods(each, now)
        }
        found = self._consolidate(candidates, now)
        if not found.gone:
            self._found = None
            return Again(
                self._next(claims, candidates, now), "nodes may have been quiet for long enough then"
            )
        wait = self._confirmed(found, now)
        if wait > 0:
            return Again(wait, "the result must be confirmed")
        self._found = None
        going = [each for each in claims if node_name(each) in {gone.node for gone in found.gone}]
        if found.machines:
            await self._replace(found, going)
        else:
            await self._let_go(going, found, now)
        return Again(self._pause, "there may be more")

    def _consolidate(self, candidates: Mapping[str, float], now: datetime) -> Consolidation:
        began = time.perf_counter()
        simulation, claims = self._cluster.at(now.timestamp()), self._seen.all()
        machines = to_be_had(self._market.machines, claims)
        if now.timestamp() < self._discouraged:
            machines = [unavailable(each) for each in machines]
        with simulation.trial():
            expect(simulation, claims, machines)
            found = consolidate(simulation, machines, candidates, now=now.timestamp(), effort=self._effort)
        took = time.perf_counter() - began
        self._rest = now.timestamp() + max(self._pause, REST_PER_LOOK * took)
        self._numbers.planned("consolidation", took)
        return found

    def _confirmed(self, found: Consolidation, now: datetime) -> float:
        """In how many seconds the result counts if it is found again then; 0 if it is confirmed."""
        what = (
            *sorted(each.node for each in found.gone),
            *sorted(each.machine.name for each in found.machines),
        )
        if self._found is None or self._found[0] != what:
            self._found = what, now.timestamp()
        return self._found[1] + self._settle - now.timestamp()

    def _since(self, claim: NodeClaim) -> float:
        """When a pod last came to the node or left it; at the earliest when the node became ready."""
        ready = condition(claim, INITIALIZED)
        stamps = (ready.last_transition_time if ready is not None else None, claim.status.last_pod_event_time)
        times = [found.timestamp() for each in stamps if (found := moment(each)) is not None]
        return max([self._touched.get(node_name(claim), 0.0), *times])

    def _waits_for_pods(self, claim: NodeClaim, now: datetime) -> bool:
        """Whether the node replaces others that are being emptied, or were until a moment ago."""
        return bool(self._replaced(claim)) or self._kept.get(node_name(claim), 0.0) > now.timestamp()

    def _next(self, claims: Sequence[NodeClaim], since: Mapping[str, float], now: datetime) -> float:
        """In how many seconds some node will have been quiet for as long as its pool says."""
        pools = {each.source: each.pool for each in self._market.machines if each.pool is not None}
        wait = AGAIN_SECONDS
        for claim in claims:
            pool = pools.get(claim.metadata.labels.get(NODE_POOL, ""))
            rules = pool.spec.disruption if pool is not None else None
            after = seconds(rules.consolidate_after or "0s") if rules is not None else None
            due = since.get(node_name(claim), 0.0) + (after or 0) - now.timestamp()
            if due > 0:
                wait = min(wait, max(due, self._pause))
        return wait

    # --- exchanges ---

    def _unfinished(self, claim: NodeClaim) -> bool:
        """Whether a claim replaces others that still exist."""
        return any(state_of(each) is ClaimProgress.INITIALIZED for each in self._replaced(claim))

    def _replaced(self, claim: NodeClaim) -> list[NodeClaim]:
        names = claim.metadata.annotations.get(REPLACES, "").split(",")
        return [found for name in names if name and (found := self._seen.get(name)) is not None]

    async def _replace(self, found: Consolidation, going: Sequence[NodeClaim]) -> None:
        simulation = self._cluster.at(self._now().timestamp())
        names = ",".join(sorted(each.metadata.name for each in going))
        taken = {each.metadata.name for each in self._seen.all()}
        pods = {place.pod: simulation.cluster.pods[place.pod].pod for place in found.moved}
        for each in found.machines:
            launch = launch_of(each, pods, taken)
            meta = launch.claim.metadata
            marked = replace(meta, annotations={**meta.annotations, REPLACES: names})
            made = await self._claims.create(replace(launch.claim, metadata=marked))
            self._own.wrote(EVERYTHING, made.metadata.resource_version or 0)
            self._numbers.asked_for(each.machine)
        words = f"cheaper machines are launched in its place: {_counted(len(going), len(found.machines))}, saving {found.saved} an hour"
        self._tell(going, "Replacing", words)

    async def _finish(self, exchange: Sequence[NodeClaim], now: datetime) -> Again | None:
        """Completes an exchange whose replacements are ready or will never be."""
        going = {old.metadata.name: old for each in exchange for old in self._replaced(each)}
        candidates = {
            node_name(each): 0.0 for each in going.values() if state_of(each) is ClaimProgress.INITIALIZED
        }
        ready = all(state_of(each) is ClaimProgress.INITIALIZED for each in exchange)
        found = self._consolidate(candidates, now) if ready else None
        if found is None or {each.node for each in found.gone} != candidates.keys() or found.machines:
            self._discouraged = now.timestamp() + DISCOURAGED_SECONDS
            self._tell(
                list(going.values()),
                "ReplacingFailed",
                "it stays: its replacements failed, or are no longer sufficient",
            )
            for each in exchange:
                await self._claims.change(each, {"metadata": {"annotations": {REPLACES: None}}})
            return Again(self._pause, "replacements may be superfluous now")
        await self._let_go(
            [each for each in going.values() if node_name(each) in candidates], found, now, exchange
        )
        return Again(self._pause, "there may be more")

    async def _let_go(
        self,
        going: Sequence[NodeClaim],
        found: Consolidation,
        now: datetime,
        instead: Sequence[NodeClaim] = (),
    ) -> None:
        """Deletes claims in the state in which they were seen, and reports the savings."""
        for each in instead:
            self._kept[node_name(each)] = now.timestamp() + KEPT_SECONDS
        gone = []
        for each in going:
            with suppress(
                NotFound, Conflict
            ):  # it has changed: the next search decides whether it may be removed
                await self._claims.remove(each)
                gone.append(each)
        prices = {each.node: each.price or NOTHING for each in found.gone}
        saved = sum((prices[node_name(each)] for each in gone), NOTHING)
        bought = [machine_of(each, self._market.machines) for each in instead]
        saved -= sum((each.price for each in bought if each is not None), NOTHING)
        pods = f"{len(found.moved)} {'pod moves' if len(found.moved) == 1 else 'pods move'}"
        words = f"{_counted(len(gone), len(instead))}, {pods}, saving {saved} an hour"
        self._tell(gone, "Consolidated", f"removed, because it is not needed: {words}")
        self._numbers.consolidated(len(gone), saved)
        log.info("consolidated: %s", words)

    def _tell(self, claims: Iterable[NodeClaim], reason: str, words: str) -> None:
        for each in claims:
            subject = Subject(KARPENTER_VERSION, "NodeClaim", each.metadata.name, uid=each.metadata.uid)
            self._recorder.tell(subject, EventType.NORMAL, reason, words)


def _counted(going: int, instead: int) -> str:
    """``3 machines for 1``."""
    machines = f"{going} {'machine' if going == 1 else 'machines'}"
    return f"{machines} for {instead}" if instead else machines


def _presence(pod: Pod | None) -> tuple[str, bool]:
    """The node of a pod, and whether the pod is leaving."""
    if pod is None or not pod.spec.node_name or finished(pod):
        return "", False
    return pod.spec.node_name, pod.metadata.deletion_timestamp is not None
