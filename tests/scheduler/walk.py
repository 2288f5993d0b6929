"""A random walk through a world: users, drivers and controllers do things, schedulers hear of it late, writes fail.

``Walk(seed).run(steps)`` does so many steps, then lets everything come to rest and asks whether it came to rest where it should:
nothing leaked, nothing under way, and nobody waits who would fit. The seed decides everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from allotment.api.batch import (
    GangSchedulingPolicy,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Node, Pod, PodResourceClaim, PodResourceClaimStatus
from allotment.api.meta import ApiStruct, Condition, LabelSelector, ObjectMeta, OwnerReference
from allotment.api.resource import (
    AllocatedDeviceStatus,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from allotment.scheduler.config.configuration import Configuration
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.event import Tick
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.gangs.session import Session
from allotment.scheduler.placement import Placer
from allotment.scheduler.pod import FINISHED, group_key
from tests.allocator import build
from tests.builders import typed
from tests.scheduler.world import AHEAD, KINDS, Fate, Seat, World, settle

GPU = "example.com/gpu"
BINDING_SECONDS = 20.0
FATES = (Fate.FINE,) * 6 + (Fate.CONFLICT, Fate.CONFLICT, Fate.LOST, Fate.TIMEOUT, Fate.REFUSED)
CONFIGURATION = Configuration(binding_seconds=BINDING_SECONDS)


@dataclass(frozen=True)
class Act:
    """Something that may happen, and how often relative to others."""

    weight: int
    do: Callable[[], object]


class Walk:
    """A random walk. ``schedulers`` work on the same pods."""

    def __init__(
        self,
        seed: int,
        *,
        schedulers: int = 1,
        admits: bool = True,
        faults: bool = True,
        strips: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.faults = faults
        self.strips = strips  # whether users remove claims that pods run with
        self.stripped: list[ResourceClaim] = []  # those claims
        # Where the server does not check, two schedulers find out who was first by the order of what they see.
        self.relists = admits or schedulers == 1
        gpu = replace(build.class_("gpu"), spec=replace(build.class_("gpu").spec, extended_resource_name=GPU))
        big = build.class_("big", f'{build.mine("size")} == "big"')
        self.world = World(build.class_(), big, gpu, admits=admits)
        self.world.templates = {
            "one": typed.claim("t").spec,
            "two": typed.claim("t", build.request(count=2)).spec,
            "big": typed.claim("t", build.request(class_name="big")).spec,
        }
        for name in ("n0", "n1"):
            self._put_node(name)
            self._put_slice(name)
        self.seats = [Seat(self.world, CONFIGURATION) for _ in range(schedulers)]
        self._names = 0
        self.acts = self._acts()

    def _acts(self) -> list[Act]:
        schedulers = [
            Act(40, self.deliver),
            Act(30, self.perform),
            Act(30, self.reply),
            Act(20, self.turn),
            Act(10, self.tick),
            Act(10, self.chore),
        ]
        if self.relists:
            schedulers.append(Act(2, self.relist))
        users = [
            Act(12, self.make_pod),
            Act(4, self.delete_pod),
            Act(2, self.finish_pod),
            Act(2, self.make_claim),
            Act(1, self.delete_claim),
            Act(1, self.allocate_ahead),
            Act(3, self.make_group),
            Act(1, self.delete_group),
            Act(2, self.change_slice),
            Act(2, self.change_node),
            Act(1, self.delete_node),
            Act(1, self.change_rule),
            Act(1, self.change_budget),
            Act(2, self.open_gate),
            Act(4, self.attach),
        ]
        if self.strips:
            users.append(Act(3, self.strip_claim))
        return schedulers + users + ([Act(1, self.crash)] if self.faults and self.relists else [])

    # --- the walk ---

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choices(self.acts, [act.weight for act in self.acts])[0].do()
            self.world.check_bound()
            self.check_stripped()
        self.rest()

    def rest(self) -> None:
        """Lets everything come to rest, and looks at what it came to."""
        settle(self.world, seconds=600, idle=lambda: self.attach(everywhere=True))
        self.world.check_nothing_leaked()
        for seat in self.seats:
            self._check_seat(seat)
        self._check_pending()

    def _check_seat(self, seat: Seat) -> None:
        core = seat.core
        assert not core.bindings.all(), [(each.pod.key, each.stage) for each in core.bindings.all()]
        assert not core.cluster.claims.flights
        assert not core.cluster.assumed
        # What a user took for somebody else before a stand-in had it stays held for the pods of the claim that was stripped.
        assert not core.cluster.claims.disputed.keys() & core.cluster.claims.objects.keys()
        fresh = self.world.fresh()
        assert core.cluster.pods.keys() == fresh.pods.keys()
        ledgers = core.cluster.fleet.ledger, fresh.fleet.ledger
        held, should = [
            {key: each.holdings(key) for key in each.claims() if each.holdings(key)} for each in ledgers
        ]
        assert held == should

    def _check_pending(self) -> None:
        """A scheduler that starts from nothing refuses every pod that is still pending."""
        cluster = self.world.fresh()
        profiles = CONFIGURATION.rosters()
        placer = Placer(cluster, profiles)
        gangs: dict[str, list[str]] = {}
        for key, info in cluster.pods.items():
            profile = profiles[info.pod.spec.scheduler_name or ""]
            open_ = all(plugin.pre_enqueue(info, cluster).ok for plugin in profile.pre_enqueue)
            if info.node or info.leaving or not open_:
                continue
            group = group_key(info.pod)
            if not group:
                placed = placer.place(info, self.world.now)
                assert isinstance(placed, NoNode), f"{key} would fit on {placed.node}"
            else:
                gangs.setdefault(group, []).append(key)
        for group, keys in gangs.items():
            self._check_gang(group, [cluster.pods[key] for key in sorted(keys)], Session(cluster, placer))

    def _check_gang(self, group: str, pods: list, session: Session) -> None:  # type: ignore[type-arg]
        found = session._cluster.groups.get(group)
        gang = gang_of(group, found) if found is not None else None
        if gang is None:
            return
        done = list(session._cluster.finished.get(group, {}).values()).count("Succeeded")
        need = gang.need([pod for pod in session._cluster.members[group].values() if pod.node], done)
        if need.met_by(pods):
            placed = session.place(gang, pods, need, self.world.now)
            assert isinstance(placed, NoNode), f"{group} would fit"

    # --- schedulers ---

    def _seat(self) -> Seat:
        return self.rng.choice(self.seats)

    def deliver(self) -> None:
        seat = self._seat()
        kinds = [kind for kind in KINDS if seat.news[kind]]
        if kinds:
            kind = self.rng.choice(kinds)
            for _ in range(min(len(seat.news[kind]), self.rng.choice((1, 1, 3, 9)))):
                seat.deliver(kind)

    def relist(self) -> None:
        seat = self._seat()
        for kind in KINDS:
            seat.relist(kind)

    def perform(self) -> None:
        seat = self._seat()
        for _ in range(self.rng.choice((1, 1, 4))):
            if seat.writes:
                fate = self.rng.choice(FATES) if self.faults else Fate.FINE
                seat.perform(self.rng.randrange(len(seat.writes)), fate)

    def reply(self) -> None:
        seat = self._seat()
        if seat.replies:
            seat.reply(self.rng.randrange(len(seat.replies)))

    def turn(self) -> None:
        self._seat().turn(self.rng.choice((1, 1, 2, 8)))

    def tick(self) -> None:
        self.world.now += self.rng.choice((0.05, 0.2, 1.0, 3.0, 25.0))
        for seat in self.seats:
            seat.tell(Tick(self.world.now))

    def crash(self) -> None:
        seat = self._seat()
        while seat.writes and self.rng.random() < 0.5:
            seat.perform()
        seat.crash()

    def chore(self) -> None:
        chores = self.world.chores()
        if chores:
            self.rng.choice(chores)()

    # --- users ---

    def _name(self, prefix: str) -> str:
        """Mostly new; at times one that was there before, or is."""
        if self.rng.random() < 0.15 and self._names:
            return f"{prefix}{self.rng.randrange(self._names)}"
        self._names += 1
        return f"{prefix}{self._names}"

    def make_pod(self) -> None:
        rng = self.rng
        more: dict[str, Any] = {}
        name = self._name("p")
        if f"default/{name}" in self.world.pods:
            return
        kind = rng.choice(
            ("plain", "one", "one", "two", "big", "shared", "both", "extended", "port", "apart")
        )
        if kind in self.world.templates:
            more["templates"] = {"d": kind}
        if kind in ("shared", "both"):
            more["claims"] = {"s": f"s{rng.randrange(3)}"}
        if kind == "both":
            more["templates"] = {"d": "one"}
        if kind == "extended":
            more["more"] = {GPU: rng.choice((1, 2))}
        if kind == "port":
            more["ports"] = [rng.choice((80, 81))]
        if kind == "apart":
            more |= {
                "labels": {"app": "a"},
                "affinity": typed.pod_affinity(apart=[typed.near({"app": "a"}, typed.HOSTNAME)]),
            }
        if rng.random() < 0.3:
            more["group"] = f"g{rng.randrange(3)}"
        if rng.random() < 0.15:
            more["gates"] = ["wait"]
        if rng.random() < 0.3:
            more["tolerations"] = [typed.toleration()]
        if rng.random() < 0.15:
            more["selector"] = {typed.ZONE: rng.choice(("east", "west"))}
        if rng.random() < 0.1:
            more["preemption_policy"] = "Never"
        pod = typed.pod(name, cpu=rng.choice((1, 1, 2, 4)), priority=rng.choice((0, 0, 0, 5, 10)), **more)
        meta = pod.metadata
        if rng.random() < 0.3:
            meta = replace(meta, labels={**meta.labels, "budget": "b"})
        if rng.random() < 0.5:
            owner = OwnerReference(
                api_version="apps/v1", kind="ReplicaSet", name="r", uid="r", controller=True
            )
            meta = replace(meta, owner_references=(owner,))
        self.world.put(self._with_group_claim(replace(pod, metadata=meta)))

    def _with_group_claim(self, pod: Pod) -> Pod:
        """Pods of a group that has a claim use it."""
        group = self.world.of(PodGroup).get(group_key(pod))
        if group is None or not group.spec.resource_claims:
            return pod
        entries = (*pod.spec.resource_claims, *group.spec.resource_claims)
        return replace(pod, spec=replace(pod.spec, resource_claims=entries))

    def _some(self, kind: type[ApiStruct]) -> ApiStruct | None:
        found = list(self.world.objects[kind].values())
        return self.rng.choice(found) if found else None

    def delete_pod(self) -> None:
        pod = self._some(Pod)
        if pod is not None:
            self.world.delete(pod)

    def finish_pod(self) -> None:
        pod = self._some(Pod)
        if isinstance(pod, Pod) and pod.spec.node_name:
            self.world.put(replace(pod, status=replace(pod.status, phase="Succeeded")))

    def open_gate(self) -> None:
        gated = [pod for pod in self.world.pods.values() if pod.spec.scheduling_gates]
        if gated:
            pod = self.rng.choice(gated)
            self.world.put(replace(pod, spec=replace(pod.spec, scheduling_gates=())))

    def make_claim(self) -> None:
        name = f"s{self.rng.randrange(3)}"
        if f"default/{name}" not in self.world.claims:
            spec = self.world.templates[self.rng.choice(("one", "two", "big"))]
            self.world.put(replace(typed.claim(name), spec=spec))

    def delete_claim(self) -> None:
        claims = [claim for key, claim in self.world.claims.items() if key.startswith("default/s")]
        if claims:
            self.world.delete(self.rng.choice(claims))

    def strip_claim(self) -> None:
        """A user takes the finalizer from a claim that was made for a pod which runs, or from its stand-in, and deletes it."""
        seen = [
            {pod.uid for pod in seat.core.cluster.pods.values() if pod.pod.spec.node_name}
            for seat in self.seats
        ]
        bound = set.intersection(*seen)  # what a gang has is checked by what a seat has seen
        claims = [
            claim
            for claim in self.world.claims.values()
            if claim.status.allocation is not None
            and any(owner.uid in bound for owner in claim.metadata.owner_references)
        ]
        if claims:
            claim = self.rng.choice(claims)
            self.stripped.append(claim)
            self.world.remove(claim)

    def check_stripped(self) -> None:
        """The scheduler gives the devices of a claim that was stripped to nobody else while its pods run. A crash may come before
        the news."""
        running = {
            pod.metadata.uid
            for pod in self.world.pods.values()
            if pod.spec.node_name and pod.status.phase not in FINISHED
        }
        for claim in self.stripped if not self.faults else ():
            users = {user.uid for user in claim.status.reserved_for} & running
            devices = _devices(claim)
            for other in self.world.claims.values():
                if AHEAD in other.metadata.annotations:
                    continue
                theirs = {user.uid for user in other.status.reserved_for}
                assert not users or not devices & _devices(other) or theirs & users, (
                    f"{other.metadata.name} has a device of {claim.metadata.name}, which was stripped"
                )

    def allocate_ahead(self) -> None:
        """A user has a claim allocated before any pod needs it."""
        claims = [
            claim
            for claim in self.world.claims.values()
            if claim.status.allocation is None
            and claim.metadata.deletion_timestamp is None
            and not claim.metadata.owner_references
        ]
        if claims:
            claim = self.rng.choice(claims)
            fleet = self.world.fresh().fleet
            node = self._some(Node)
            outcome = fleet.allocate(node.metadata.name, [claim]) if isinstance(node, Node) else None
            results = getattr(outcome, "results", None)
            if results:
                status = replace(claim.status, allocation=results[0])
                meta = replace(claim.metadata, annotations={**claim.metadata.annotations, AHEAD: "1"})
                self.world.put(replace(claim, status=status, metadata=meta))

    def make_group(self) -> None:
        number = self.rng.randrange(3)
        name = f"g{number}"
        if f"default/{name}" in self.world.of(PodGroup):
            return
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=number + 1))
        entries: tuple[PodResourceClaim, ...] = ()
        if self.rng.random() < 0.3:
            entries = (PodResourceClaim(name="g", resource_claim_template_name="one"),)
        spec = PodGroupSpec(scheduling_policy=policy, resource_claims=entries)
        self.world.put(PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        if entries:
            self._make_group_claim(self.world.of(PodGroup)[f"default/{name}"])

    def _make_group_claim(self, group: PodGroup) -> None:
        meta = group.metadata
        owner = OwnerReference(
            api_version="scheduling.k8s.io/v1beta1",
            kind="PodGroup",
            name=meta.name,
            uid=meta.uid,
            controller=True,
        )
        name = f"{meta.name}-{meta.uid}"
        claim = ResourceClaim(
            metadata=ObjectMeta(
                name=name,
                namespace="default",
                annotations={POD_CLAIM_NAME: "g"},
                owner_references=(owner,),
            ),
            spec=self.world.templates["one"],
        )
        self.world.put(claim)
        noted = (PodResourceClaimStatus(name="g", resource_claim_name=name),)
        self.world.put(replace(group, status=replace(group.status, resource_claim_statuses=noted)))

    def delete_group(self) -> None:
        group = self._some(PodGroup)
        if group is not None:
            self.world.delete(group)

    # --- nodes and devices ---

    def _put_node(self, name: str) -> None:
        rng = self.rng
        taints = [typed.taint("spot")] if rng.random() < 0.2 else []
        zone = rng.choice(("east", "west"))
        self.world.put(
            typed.node(name, cpu=rng.choice((4, 8)), zone=zone, taints=taints, cordoned=rng.random() < 0.15)
        )

    def change_node(self) -> None:
        self._put_node(f"n{self.rng.randrange(4)}")

    def delete_node(self) -> None:
        node = self._some(Node)
        if node is not None:
            self.world.delete(node)

    def _put_slice(self, name: str) -> None:
        """A driver publishes anew: more devices, or fewer, in a new generation or the same."""
        rng = self.rng
        key = f"slice-{name}"
        there = self.world.of(ResourceSlice).get(key)
        generation = there.spec.pool.generation + rng.choice((0, 1)) if there is not None else 1
        devices = []
        for number in range(rng.choice((0, 1, 2, 3, 4))):
            size = "big" if number == 0 else "small"
            device = build.device(f"d{number}", attributes={"size": size})
            if number == 1 and rng.random() < 0.3:
                device = replace(
                    device,
                    binding_conditions=("attached",),
                    binding_failure_conditions=("broken",),
                    binds_to_node=True,
                )
            devices.append(device)
        self.world.put(typed.slice_(name, *devices, generation=generation))

    def change_slice(self) -> None:
        slice_ = self._some(ResourceSlice)
        if self.rng.random() < 0.2 and slice_ is not None:
            self.world.delete(slice_)
        else:
            self._put_slice(f"n{self.rng.randrange(4)}")

    def change_rule(self) -> None:
        rule = self._some(DeviceTaintRule)
        if rule is not None:
            self.world.delete(rule)
            return
        selector = DeviceTaintSelector(pool=f"n{self.rng.randrange(3)}", device=self.rng.choice((None, "d0")))
        spec = DeviceTaintRuleSpec(device_selector=selector, taint=build.taint("bad"))
        self.world.put(DeviceTaintRule(metadata=ObjectMeta(name="rule"), spec=spec))

    def change_budget(self) -> None:
        self.world.put(
            PodDisruptionBudget(
                metadata=ObjectMeta(name="b", namespace="default"),
                spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"budget": "b"})),
                status=PodDisruptionBudgetStatus(disruptions_allowed=self.rng.choice((0, 0, 1))),
            )
        )

    def attach(self, *, everywhere: bool = False) -> bool:
        """A driver reports that devices are ready; or, if not all of them, that one is broken."""
        found = False
        for claim in list(self.world.claims.values()):
            results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
            told = {(each.pool, each.device) for each in claim.status.devices}
            for result in results:
                if result.binding_conditions and (result.pool, result.device) not in told:
                    word = "broken" if not everywhere and self.rng.random() < 0.3 else "attached"
                    condition = Condition(type=word, status="True")
                    device = AllocatedDeviceStatus(
                        driver=result.driver, pool=result.pool, device=result.device, conditions=(condition,)
                    )
                    status = replace(claim.status, devices=(*claim.status.devices, device))
                    self.world.put(replace(claim, status=status))
                    found = True
                    if not everywhere:
                        return found
        return found


def _devices(claim: ResourceClaim) -> set[tuple[str, str, str]]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return {(each.driver, each.pool, each.device) for each in results}
