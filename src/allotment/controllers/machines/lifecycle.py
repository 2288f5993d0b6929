"""NodeClaims from their creation to a ready node, and from their deletion to the end of the machine.

    created ─► finalizer, choice of a machine ─► provider.launch ─► Launched
            ─► its node joins ─► labels and taints of the claim on it ─► Registered
            ─► kubelet ready, start-up taints gone, drivers have published ─► Initialized, DevicesAsPredicted
    deleted ─► see departure

* *Nothing is launched twice.* A launch is keyed by the claim's uid, and the finalizer that records it is added before.
* *Out of stock*: the claim says so (Launched=False, an event) and stays for ``REMEMBERED_SECONDS``, in which plans avoid this
  machine; then the claim is deleted, and its creator may create another. Other failures are retried at growing intervals for
  ``LAUNCH_SECONDS``, and then treated in the same way.
* *No node joins* within ``REGISTER_SECONDS``: the machine is given up, and the claim is deleted. A node that does not become
  ready is only reported, because pods may already run on it.
* *A node is deleted*: its claim is deleted too, and so the machine is terminated. A node older than ``expireAfter`` is
  removed, whatever runs on it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Any

from allotment.api.autoscaling import CAPACITY_TYPE, INSTANCE_TYPE, NODE_GROUP, NODE_POOL, ZONE, NodeClaim
from allotment.api.core import Node, Pod
from allotment.api.cron import seconds
from allotment.api.resource import ResourceSlice
from allotment.api.rights import READ
from allotment.api.semantic import NodeResourceSlice
from allotment.api.status import NotFound, StatusError
from allotment.api.timestamps import moment
from allotment.api.validation import validate_node_claim
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import (
    AS_PREDICTED,
    DRIVERS,
    INITIALIZED,
    INSUFFICIENT_CAPACITY,
    LAUNCH_FAILED,
    LAUNCHED,
    REGISTERED,
    TERMINATION,
    ClaimProgress,
    condition,
    state_of,
)
from allotment.autoscaler.catalogue.prediction import published_by
from allotment.autoscaler.simulate.forkable_cluster import Slice
from allotment.client.client import Client
from allotment.client.form import Obj, ResourcePath
from allotment.client.recorder import EventType, Recorder
from allotment.client.shared_informers import Informers
from allotment.client.transport import Disconnected
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.machines import departure, market
from allotment.controllers.machines.claim_status import ClaimStatus
from allotment.controllers.machines.departure import Departure
from allotment.controllers.machines.initialisation import compared, obstacle
from allotment.controllers.machines.market import Market
from allotment.controllers.machines.membership import (
    INITIALIZED_LABEL,
    follow_nodes,
    marks_of,
    registration,
)
from allotment.controllers.machines.metrics import MachineNumbers
from allotment.controllers.machines.provider import LaunchFailed, OutOfStock, Provider, Running
from allotment.controllers.taints.eviction import LONGEST_TIMER

log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 180.0
LAUNCH_SECONDS = 300.0
REGISTER_SECONDS = INITIALIZE_SECONDS = 900.0
"""The last three are Karpenter's values."""
ANSWER_SECONDS = 60.0
"""Seconds that a provider's call may take; afterwards it is called again."""
_SHORTEST, _LONGEST = 5.0, 60.0
"""The interval between attempts to launch is half of the claim's age, within these limits."""

_BY_MARK, _BY_NODE = "machines: mark", "machines: node"
_CHOICE = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE, NODE_POOL, NODE_GROUP)


class MachineLifecycle:
    """The reconciler; its keys are names of claims."""

    name = "machines"
    rights = (
        *departure.RIGHTS,
        *market.RIGHTS,
        f"{READ}: resource.k8s.io: resourceslices",
        f"{READ}: ours: noderesourceslices",
        f"delete,patch,{READ}: karpenter.sh: nodeclaims",
        "patch: karpenter.sh: nodeclaims/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        provider: Provider,
        market: Market,
        *,
        place: ResourcePath,
        trees: ResourcePath | None = None,
        numbers: MachineNumbers | None = None,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._provider, self._market, self._now = provider, market, now
        self._claims = informers.at(place, NodeClaim)
        self._numbers = numbers or MachineNumbers(self._claims)
        self._status = ClaimStatus(client, place, recorder, now)
        self._client_nodes = client.of(Node)
        self._nodes = follow_nodes(informers)
        self._slices = informers.of(ResourceSlice)
        self._departure = Departure(client, informers, provider, self._status, now)
        self._due: dict[
            str, datetime
        ] = {}  # claims by uid: when to try again, because this controller's own writes wake it too
        self._claims.add_index(_BY_MARK, _marks)
        self._slices.add_index(_BY_NODE, _hosts)
        self._claims.on_change(self._claim_changed)
        self._nodes.informer.on_change(self._node_changed)
        self._slices.on_change(self._slice_changed)
        self._trees = informers.at(trees, NodeResourceSlice) if trees is not None else None
        if self._trees is not None:
            self._trees.add_index(_BY_NODE, _hosts)
            self._trees.on_change(self._slice_changed)
        informers.of(Pod).on_change(self._pod_changed)
        market.on_change.append(self._market_changed)

    # --- what brings a claim here ---

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None:
            self.queue.add(new.metadata.name)
        elif old is not None:
            self._due.pop(old.metadata.uid, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for node in (old, new):
            for mark in marks_of(node) if node is not None else ():
                self._wake(mark)

    def _slice_changed(self, old: Slice | None, new: Slice | None) -> None:
        for each in (old, new):
            for name in _hosts(each) if each is not None else ():
                node = self._nodes.informer.get(name)
                self._node_changed(None, node)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Only nodes that are being emptied wait for pods."""
        pod = new or old
        node = self._nodes.informer.get(pod.spec.node_name or "") if pod is not None else None
        for mark in marks_of(node) if node is not None else ():
            self._wake(mark, going=True)

    def _market_changed(self) -> None:
        self._due.clear()
        for claim in self._claims.all():
            if state_of(claim) is ClaimProgress.LAUNCHING:
                self.queue.add(claim.metadata.name)

    def _wake(self, mark: str, *, going: bool = False) -> None:
        for claim in self._claims.by(_BY_MARK, mark):
            if not going or claim.metadata.deletion_timestamp is not None:
                self.queue.add(claim.metadata.name)

    # --- what is done with it ---

    async def reconcile(self, key: str) -> Again | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        match state_of(claim):
            case ClaimProgress.GOING:
                if TERMINATION not in claim.metadata.finalizers:
                    return None
                return await self._depart(claim)
            case ClaimProgress.LAUNCHING:
                return await self._launch(claim)
            case ClaimProgress.FAILED:
                return await self._bury(claim)
            case ClaimProgress.LAUNCHED:
                return await self._register(claim)
            case ClaimProgress.REGISTERED:
                return await self._initialise(claim)
            case ClaimProgress.INITIALIZED:
                return await self._look_after(claim)

    # --- launching ---

    async def _launch(self, claim: NodeClaim) -> Again | None:
        due = self._due.get(claim.metadata.uid)
        if due is not None and (wait := (due - self._now()).total_seconds()) > 0:
            return Again(wait, "the launch is retried then")
        problems = validate_node_claim(claim)
        machine = self._market.machine_of(claim) if not problems else None
        try:
            if machine is None:
                why = (
                    "; ".join(map(str, problems))
                    or "the catalogue has no machine that meets the claim's requirements"
                )
                raise LaunchFailed(why)
            prepared = _prepared(claim, machine)
            if prepared is not None:
                claim = await self._status.claims.change(claim, prepared)
            running = await self._asked(claim, machine)
        except OutOfStock as exc:
            self._numbers.launches.labels("out_of_stock").inc()
            return await self._failed(claim, INSUFFICIENT_CAPACITY, str(exc))
        except LaunchFailed as exc:
            self._numbers.launches.labels("failed").inc()
            return await self._not_this_time(claim, str(exc))
        await self._status.write(
            claim,
            _condition(LAUNCHED, "True", "Launched", f"{machine.name} was launched"),
            _condition(REGISTERED, "Unknown", "NodeNotFound", "its node has not joined yet"),
            providerID=running.id,
            capacity=_plain_amounts(machine.capacity),
            allocatable=_plain_amounts(machine.allocatable),
        )
        self._numbers.launches.labels("launched").inc()
        self._status.tell(claim, EventType.NORMAL, "Launched", f"{machine.name} was launched")
        return None

    async def _asked(self, claim: NodeClaim, machine: Machine) -> Running:
        """Foreign errors become LaunchFailed here; the API's own errors stay as they are."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._provider.launch(claim, machine)
        except (OutOfStock, LaunchFailed, StatusError, Disconnected):
            raise
        except Exception as exc:
            log.warning("provider %s: launch failed", self._provider.name, exc_info=exc)
            raise LaunchFailed(f"{self._provider.name}: {type(exc).__name__}: {exc}") from exc

    async def _not_this_time(self, claim: NodeClaim, why: str) -> Again | None:
        remaining = left(claim.metadata.creation_timestamp, LAUNCH_SECONDS, self._now())
        if remaining <= 0:
            return await self._failed(claim, LAUNCH_FAILED, f"given up: {why}")
        wait = min(max((LAUNCH_SECONDS - remaining) / 2, _SHORTEST), _LONGEST, remaining)
        self._due[claim.metadata.uid] = self._now() + timedelta(seconds=wait)
        await self._status.write(claim, _condition(LAUNCHED, "Unknown", LAUNCH_FAILED, why))
        self._status.tell(claim, EventType.WARNING, LAUNCH_FAILED, why)
        return Again(wait, "the launch is retried then")

    async def _failed(self, claim: NodeClaim, reason: str, why: str) -> Again:
        await self._status.write(claim, _condition(LAUNCHED, "False", reason, why))
        self._status.tell(claim, EventType.WARNING, reason, why)
        return Again(REMEMBERED_SECONDS, "the failure has been shown for long enough then")

    async def _bury(self, claim: NodeClaim) -> Again | None:
        """Deletes the claim, which also terminates a machine that was launched but whose reply was lost."""
        remaining = left(_since(claim, LAUNCHED), REMEMBERED_SECONDS, self._now())
        if remaining > 0:
            return Again(remaining, "the failure has been shown for long enough then")
        await self._give_up(claim)
        return None

    # --- joining ---

    async def _register(self, claim: NodeClaim) -> Again | None:
        nodes = self._nodes.of_claim(claim)
        if len(nodes) > 1:
            message = f"{len(nodes)} nodes have the id {claim.status.provider_id}"
            await self._status.write(claim, _condition(REGISTERED, "Unknown", "MultipleNodesFound", message))
            return None
        if not nodes:
            remaining = left(_since(claim, LAUNCHED), REGISTER_SECONDS, self._now())
            if remaining > 0:
                return Again(remaining, "its node may never join")
            message = f"no node has joined for {REGISTER_SECONDS / 60:.0f} minutes: giving up the machine"
            self._status.tell(claim, EventType.WARNING, "RegistrationTimeout", message)
            await self._give_up(claim)
            return None
        node = nodes[0]
        change = registration(claim, node)
        if change is not None:
            await self._client_nodes.change(node, change)
        claim = await self._status.write(
            claim,
            _condition(REGISTERED, "True", "Registered", ""),
            _condition(INITIALIZED, "Unknown", "NodeNotReady", "its node has just joined"),
            nodeName=node.metadata.name,
        )
        self._numbers.registered.observe(self._age(claim))
        self._status.tell(claim, EventType.NORMAL, "Registered", f"Node {node.metadata.name} has joined")
        return None

    async def _initialise(self, claim: NodeClaim) -> Again | None:
        node = next(iter(self._nodes.of_claim(claim)), None)
        if node is None:
            return await self._lose(claim)
        published = self._published(node)
        found = obstacle(claim, node, published)
        if found is not None:
            remaining = left(_since(claim, REGISTERED), INITIALIZE_SECONDS, self._now())
            told = condition(claim, INITIALIZED)
            if remaining <= 0 and (told is None or told.status != "False"):
                self._status.tell(claim, EventType.WARNING, "NotInitialized", found.message)
            status = "Unknown" if remaining > 0 else "False"
            await self._status.write(claim, _condition(INITIALIZED, status, *found))
            return Again(remaining, "it may never become ready") if remaining > 0 else None
        if node.metadata.labels.get(INITIALIZED_LABEL) != "true":
            await self._client_nodes.change(node, {"metadata": {"labels": {INITIALIZED_LABEL: "true"}}})
        verdict = compared(claim, self._market.machine_of(claim), published)
        claim = await self._status.write(
            claim,
            _condition(INITIALIZED, "True", "Initialized", ""),
            verdict.condition,
            capacity=_plain_amounts(node.status.capacity),
            allocatable=_plain_amounts(node.status.allocatable),
        )
        self._numbers.initialised.observe(self._age(claim))
        self._status.tell(claim, EventType.NORMAL, "Initialized", "The node is ready with its devices")
        if verdict.differences:
            self._numbers.mismatched.inc(len({each[:2] for each in verdict.differences}))
            message = verdict.condition["message"]
            self._status.tell(claim, EventType.WARNING, "DevicesDiffer", message)
        return None

    # --- running ---

    async def _look_after(self, claim: NodeClaim) -> Again | None:
        """Devices that met the prediction are not checked again later; others may still improve."""
        node = next(iter(self._nodes.of_claim(claim)), None)
        if node is None:
            return await self._lose(claim)
        told = condition(claim, AS_PREDICTED)
        if told is not None and told.status != "True":
            verdict = compared(claim, self._market.machine_of(claim), self._published(node))
            await self._status.write(claim, verdict.condition)
        return await self._expire(claim)

    async def _expire(self, claim: NodeClaim) -> Again | None:
        lasts = seconds(claim.spec.expire_after or "")
        if lasts is None:
            return None
        remaining = left(claim.metadata.creation_timestamp, lasts, self._now())
        if remaining > 0:
            return Again(min(remaining, LONGEST_TIMER), "it expires then")
        message = f"The node has reached the maximal age in expireAfter, {claim.spec.expire_after}"
        self._status.tell(claim, EventType.NORMAL, "Expired", message)
        await self._give_up(claim)
        return None

    async def _lose(self, claim: NodeClaim) -> Again | None:
        """The node is not in the copy; the server knows whether it is gone."""
        try:
            node = await self._client_nodes.get(claim.status.node_name or "")
        except NotFound:
            node = None
        if node is not None and {claim.metadata.uid, claim.status.provider_id} & set(marks_of(node)):
            return Again(1.0, "its node exists after all")
        self._status.tell(
            claim, EventType.WARNING, "NodeGone", "The node was deleted: terminating its machine"
        )
        await self._give_up(claim)
        return None

    async def _depart(self, claim: NodeClaim) -> Again | None:
        """If a machine was launched without a record, this records it first, because its id leads to its node."""
        if claim.status.provider_id is None:
            running = [each for each in await self._provider.machines() if each.claim == claim.metadata.uid]
            if running:
                claim = await self._status.write(claim, providerID=running[0].id)
        return await self._departure.step(claim, self._nodes.of_claim(claim))

    async def _give_up(self, claim: NodeClaim) -> None:
        await self._status.claims.delete(claim.metadata.name, uid=claim.metadata.uid)

    def _published(self, node: Node) -> list[Slice]:
        name = node.metadata.name
        trees = self._trees.by(_BY_NODE, name) if self._trees is not None else ()
        return [*published_by(node, self._slices.by(_BY_NODE, name)), *trees]

    def _age(self, claim: NodeClaim) -> float:
        created = moment(claim.metadata.creation_timestamp) or self._now()
        return max((self._now() - created).total_seconds(), 0.0)


def _prepared(claim: NodeClaim, machine: Machine) -> Obj | None:
    """What a claim needs before its machine may be launched: the finalizer, the chosen machine and, if its author left that
    open, the drivers whose devices are awaited."""
    meta, change = claim.metadata, dict[str, Any]()
    if DRIVERS not in meta.annotations:
        change["annotations"] = {DRIVERS: ",".join(sorted(machine.devices))}
    if TERMINATION not in meta.finalizers:
        change["finalizers"] = [*meta.finalizers, TERMINATION]
    chosen = {key: machine.labels[key] for key in _CHOICE if key in machine.labels}
    if any(meta.labels.get(key) != value for key, value in chosen.items()):
        change["labels"] = dict(machine.labels)
    return {"metadata": change} if change else None


def _condition(type_: str, status: str, reason: str, message: str) -> Obj:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _since(claim: NodeClaim, type_: str) -> str | None:
    told = condition(claim, type_)
    return told.last_transition_time if told is not None else None


def _plain_amounts(amounts: Any) -> Obj:
    return {name: str(amount) for name, amount in amounts.items()}


def _marks(claim: NodeClaim) -> tuple[str, ...]:
    return tuple(each for each in (claim.metadata.uid, claim.status.provider_id) if each)


def _hosts(slice: Slice) -> tuple[str, ...]:
    """The nodes that may have published a slice."""
    owners = (each.name for each in slice.metadata.owner_references if each.kind == "Node")
    return tuple({*owners, *([slice.spec.node_name] if slice.spec.node_name else [])})
