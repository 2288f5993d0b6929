"""Pods leave devices that have a ``NoExecute`` taint, at once or when their claim's toleration ends.

A pod uses a device if it is bound and one of its claims has the device and is reserved for it, or for its PodGroup. The pod
is evicted as soon as any taint of any of its devices is no longer tolerated. Time counts from the taint's ``timeAdded``, as
in Kubernetes: a pod that comes later has less of it.

Two indexes lead from changes to pods, claims by device or pool and pods by claim, so that one tainted device costs the same
in a fleet of any size. A rule that names no pool is compared with every claim once. While no device has such a taint, changes
of pods and claims cost nothing.

The status of each rule has a condition with the progress of its eviction. It is written at once when the rule's spec changes,
and otherwise at most every ten seconds. For the effect ``None``, it says what ``NoExecute`` would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from allotment.allocator.pool import DeviceID, PoolID
from allotment.api.core import Pod
from allotment.api.resource import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from allotment.api.rights import READ
from allotment.api.timestamps import moment, timestamp
from allotment.client.client import Client, Collection, PatchType
from allotment.client.form import ResourcePath, Typed, resource_of
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.claims.claim_users import is_reserved, names_used
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.taints import eviction
from allotment.controllers.taints.device_taints import (
    EVICTS,
    DeviceTaints,
    RuleKey,
    borne_until,
    device_of,
    key_of,
    selects,
)
from allotment.controllers.taints.eviction import Evictions, EvictionWords, can_go
from allotment.controllers.taints.taint_rule_status import EvictionCounts, condition, present

STATUS_SECONDS = 10.0
"""The least time between two writes of a rule's status, unless the rule itself changed."""

_RULES = resource_of(DeviceTaintRule)
_BY_DEVICE = "device taint eviction: device"
_BY_CLAIM = "device taint eviction: claim"
_WORDS = EvictionWords(
    "DeviceTaintManagerEviction",
    "DeletionByDeviceTaintManager",
    "a device of it has a NoExecute taint that its claim does not tolerate (any more)",
)


@dataclass(frozen=True, slots=True)
class PodKey:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ClaimDeadline:
    """When the users of a claim must leave, and the rules among the reasons."""

    at: datetime
    rules: frozenset[RuleKey] = frozenset()


class DeviceTaintEviction:
    """Evicts pods and reports on rules; the two kinds of keys share a queue. ``rules`` is where the server has
    DeviceTaintRules, if it has them."""

    name = "device-taint-eviction"
    rights = (
        *eviction.RIGHTS,
        f"{READ}: resource.k8s.io: devicetaintrules,resourceclaims,resourceslices",
        "patch: resource.k8s.io: devicetaintrules/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        rules: ResourcePath | None = _RULES,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[PodKey | RuleKey] = WorkQueue()
        self._now = now
        self._evictions = Evictions(client, recorder, _WORDS, now)
        self._taints = DeviceTaints()
        self._blamed: dict[
            str, frozenset[RuleKey]
        ] = {}  # pods by uid: the rules for which they will be evicted
        self._evicted: dict[RuleKey, int] = {}
        self._pods = informers.of(Pod)
        self._claims = informers.of(ResourceClaim)
        self._slices = informers.of(ResourceSlice)
        self._pods.add_index(_BY_CLAIM, _claim_keys)
        self._claims.add_index(_BY_DEVICE, _held)
        self._slices.on_change(self._slice_changed)
        if rules is not None:  # without rules, no key is ever a rule's
            self._writable_rules = Collection(client, rules, Typed(DeviceTaintRule))
            self._rules = informers.at(rules, DeviceTaintRule)
            self._rules.on_change(self._rule_changed)
        self._claims.on_change(self._claim_changed)
        self._pods.on_change(self._pod_changed)

    # --- which pods a change concerns ---

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for device in self._taints.slice_changed(old, new):
            self._look_at_users(self._claims.by(_BY_DEVICE, device))

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._taints.rule_changed(old, new)
        if new is not None:
            self.queue.add(key_of(new))
        elif old is not None:
            self._evicted.pop(key_of(old), None)
        for rule in (old, new):
            if rule is not None and rule.spec.taint.effect == EVICTS:
                self._look_at_users(self._holding(rule.spec.device_selector))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claims = [claim for claim in (old, new) if claim is not None]
        if self._taints and any(self._verdict(claim) for claim in claims):
            self._look_at_users(claims[-1:])

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._evictions.forget(old.metadata.uid)
                self._report(self._blamed.pop(old.metadata.uid, frozenset()))
        elif self._taints and new.spec.node_name and (old is None or _stand(old) != _stand(new)):
            self.queue.add(PodKey(new.metadata.namespace, new.metadata.name))

    def _look_at_users(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for pod in self._pods_of(claim):
                self.queue.add(PodKey(pod.metadata.namespace, pod.metadata.name))

    def _report(self, rules: Iterable[RuleKey]) -> None:
        for rule in rules:
            self.queue.add_after(rule, STATUS_SECONDS)

    def _pods_of(self, claim: ResourceClaim) -> list[Pod]:
        return self._pods.by(_BY_CLAIM, (claim.metadata.namespace, claim.metadata.name))

    def _holding(self, selector: DeviceTaintSelector | None) -> list[ResourceClaim]:
        """The claims with a device that a rule selects."""
        if selector is None:
            return []
        if selector.driver and selector.pool:
            pool = PoolID(selector.driver, selector.pool)
            return self._claims.by(_BY_DEVICE, DeviceID(*pool, selector.device) if selector.device else pool)
        return [claim for claim in self._claims.all() if _selected(selector, claim)]

    # --- what must happen ---

    async def reconcile(self, key: PodKey | RuleKey) -> Again | None:
        await (
            self._slices.synced()
        )  # otherwise an outdated slice may look like the newest, and counts would be too low
        await self._claims.synced()
        await self._pods.synced()
        return await (self._pod(key) if isinstance(key, PodKey) else self._rule(key))

    async def _pod(self, key: PodKey) -> Again | None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or not can_go(pod):
            return None
        verdict = self._pod_verdict(pod)
        rules = verdict.rules if verdict is not None else frozenset()
        self._report(rules | self._blamed.pop(pod.metadata.uid, frozenset()))
        if verdict is None:
            self._evictions.cancel(pod)
            return None
        if rules:
            self._blamed[pod.metadata.uid] = rules
        again = self._evictions.wait(pod, verdict.at)
        if again is None and await self._evictions.evict(pod):
            for rule in rules:
                self._evicted[rule] = self._evicted.get(rule, 0) + 1
        return again

    def _pod_verdict(self, pod: Pod) -> ClaimDeadline | None:
        claims = (self._claims.get(name, namespace) for namespace, name in _claim_keys(pod))
        used = [claim for claim in claims if claim is not None and is_reserved(claim, pod)]
        verdicts = [found for claim in used if (found := self._verdict(claim)) is not None]
        if not verdicts:
            return None
        rules = frozenset[RuleKey]().union(*(verdict.rules for verdict in verdicts))
        return ClaimDeadline(min(verdict.at for verdict in verdicts), rules)

    def _verdict(self, claim: ResourceClaim) -> ClaimDeadline | None:
        ends: list[datetime] = []
        rules: set[RuleKey] = set()
        for result in _results(claim):
            for cause in self._taints.of(device_of(result)):
                if (end := borne_until(result.tolerations, cause.taint)) is not None:
                    ends.append(end)
                    if cause.rule is not None:
                        rules.add(cause.rule)
        return ClaimDeadline(min(ends), frozenset(rules)) if ends else None

    # --- what a rule says ---

    async def _rule(self, key: RuleKey) -> Again | None:
        rule = self._rules.get(key.name)
        if rule is None or rule.metadata.uid != key.uid:
            return None
        before = present(rule)
        if before is not None and before.observed_generation == rule.metadata.generation:
            if rule.spec.taint.effect == "None":
                return None
            written = moment(before.last_transition_time)
            age = (self._now() - written).total_seconds() if written is not None else STATUS_SECONDS
            if 0 <= age < STATUS_SECONDS:
                return Again(STATUS_SECONDS - age, "the status was written just now")
        after = condition(rule, self._tally(rule))
        if before is None or msgspec.structs.replace(before, last_transition_time=None) != after:
            await self._write(rule, msgspec.to_builtins(after))
        return None

    async def _write(self, rule: DeviceTaintRule, wanted: dict[str, object]) -> None:
        wanted["lastTransitionTime"] = timestamp(self._now())
        patch = {"status": {"conditions": [wanted]}}  # merged by type
        await self._writable_rules.change(rule, patch, type_=PatchType.STRATEGIC, subresource="status")

    def _tally(self, rule: DeviceTaintRule) -> EvictionCounts:
        selector, effect = rule.spec.device_selector, rule.spec.taint.effect
        evicted = self._evicted.get(key_of(rule), 0)
        if selector is None or effect not in (EVICTS, "None"):
            return EvictionCounts(evicted=evicted)
        holding = self._holding(selector)
        pods = {
            (pod.metadata.namespace, pod.metadata.name)
            for claim in holding
            if _must_leave(rule, claim)
            for pod in self._pods_of(claim)
            if can_go(pod) and is_reserved(claim, pod)
        }
        tally = EvictionCounts(len(pods), len({namespace for namespace, _ in pods}), evicted=evicted)
        if effect == EVICTS:
            return tally
        allocated = sum(len(_selected(selector, claim)) for claim in holding)
        return replace(tally, published=self._published(selector), allocated=allocated)

    def _published(self, selector: DeviceTaintSelector) -> int:
        return sum(
            selects(selector, DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name))
            for slice_ in self._slices.all()
            if self._taints.is_current(slice_)
            for device in slice_.spec.devices
        )


def _held(claim: ResourceClaim) -> set[DeviceID | PoolID]:
    devices = [device_of(result) for result in _results(claim)]
    return {*devices, *(device.of_pool for device in devices)}


def _selected(selector: DeviceTaintSelector, claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    return [result for result in _results(claim) if selects(selector, device_of(result))]


def _must_leave(rule: DeviceTaintRule, claim: ResourceClaim) -> bool:
    """Whether the claim does not tolerate the rule's taint for ever; the rule is treated as one that evicts."""
    selector, taint = rule.spec.device_selector, msgspec.structs.replace(rule.spec.taint, effect=EVICTS)
    return selector is not None and any(
        borne_until(result.tolerations, taint) is not None for result in _selected(selector, claim)
    )


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    return () if claim.status.allocation is None else claim.status.allocation.devices.results


def _stand(pod: Pod) -> tuple[object, ...]:
    return pod.spec.node_name, pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _claim_keys(pod: Pod) -> list[tuple[str, str]]:
    return [(pod.metadata.namespace, name) for name in names_used(pod)]
