"""From the decision to the binding: the steps are written one after another and the pod is bound, or everything is undone.

A binding is a state machine for a pod, driven by events; no call waits.

    WRITING ──► AWAITING (binding conditions, volumes, until a deadline) ──► READY (a gang: until its minimum is) ──► BINDING ──►
    bound └────────────┴───────────────────────────────────────────────────┴──── failure ──► UNDOING ──► given up

Invariants: no member of a gang is bound before the claims of its whole minimum are written and reserved (``BindingGroup``), and no pod
before its status names the claims that were made for it.
A failed write is repeated while it can still succeed. If it cannot, or the pod is deleted, every step is undone in reverse order,
including the failing one. The pod returns to the queue only when the server has shown the undo.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from allotment.scheduler.binding.binding_conditions import Readiness, readiness
from allotment.scheduler.binding.claim_writer import FIRST_REST, LONGEST_REST, ClaimWriter, Draft
from allotment.scheduler.binding.pod_binding import Binding, BindingGroup, BindingStage
from allotment.scheduler.binding.step import (
    AwaitConditions,
    AwaitVolumes,
    BindVolume,
    MakeClaim,
    PatchStatus,
    SelectNode,
    WriteClaim,
)
from allotment.scheduler.devices.claim_references import names_its_claims
from allotment.scheduler.event import Done, Failed, WriteFailure
from allotment.scheduler.instruction import Bind, PatchPod
from allotment.scheduler.volumes.progress import BindingLost, are_bound
from allotment.scheduler.volumes.writer import CLAIM, VOLUME, VolumeWriter

if TYPE_CHECKING:
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


MOST_SILENCES = 16
"""How often a binding is repeated that may have taken effect without an answer and was refused since."""

_WRITTEN = (WriteClaim, MakeClaim, BindVolume, SelectNode)
_Writer = ClaimWriter | VolumeWriter

_STEPPING = (BindingStage.WRITING, BindingStage.AWAITING)
_READY = (BindingStage.READY, BindingStage.BINDING)
_POSSIBLE = (*_STEPPING, *_READY)


def _awaited(step: AwaitConditions | AwaitVolumes) -> list[str]:
    """The keys of the objects that decide whether a wait is over."""
    if isinstance(step, AwaitConditions):
        return list(step.claims)
    claims = [each.claim for each in step.given] + [each.claim for each in step.made]
    return [*(CLAIM + claim for claim in claims), *(VOLUME + each.volume for each in step.given)]


@dataclass(frozen=True, slots=True)
class BindingAccepted:
    """The server has accepted the binding."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class PodReleased:
    """The receiver must release what the pod holds in memory before it asks for the next outcome."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class BindingGivenUp:
    """Everything is undone. ``binding.why`` says why the binding failed."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class BindingGroupBroken:
    """A gang can no longer reach its minimum, and these members are bound."""

    binding_group: BindingGroup
    bound: Mapping[str, PodInfo]


BindingOutcome = BindingAccepted | PodReleased | BindingGivenUp | BindingGroupBroken
Outcomes = Iterable[BindingOutcome]
"""Outcomes that the receiver must iterate over once, since iterating does the work behind them. It must apply each before it asks
for the next, which may depend on it."""


class BindingsUnderWay:
    """All bindings under way. ``send`` takes a write that lacks its id, and returns the id.

    Steps forward happen at once, until one raises BindingLost. Steps backward happen while the receiver iterates over the
    outcomes.
    """

    def __init__(self, clock: Clock, cluster: Cluster, send: Callable[[Draft], int]) -> None:
        self._clock = clock
        self._cluster = cluster
        self._send = send
        self._of_pod: dict[str, Binding] = {}
        self._of_write: dict[int, tuple[Binding, _Writer | None]] = {}
        self._of_claim: dict[str, dict[Binding, None]] = {}
        self._timed: dict[Binding, None] = {}  # bindings with a deadline or a rest

    def __contains__(self, key: str) -> bool:
        return key in self._of_pod

    def __len__(self) -> int:
        return len(self._of_pod)

    def get(self, key: str) -> Binding | None:
        return self._of_pod.get(key)

    def undoing(self, pod: PodInfo) -> bool:
        """Whether a pod counts on its node only until its writes are undone."""
        binding = self._of_pod.get(pod.key)
        return binding is not None and binding.stage is BindingStage.UNDOING

    def all(self) -> list[Binding]:
        return list(self._of_pod.values())

    def start(self, *decided: Binding) -> Iterator[BindingOutcome]:
        """Starts the binding of a placed and reserved pod, or of several members of a gang."""
        for binding in decided:
            self._of_pod[binding.pod.key] = binding
            if binding.binding_group is not None:
                binding.binding_group.members[binding.pod.key] = binding
        for binding in decided:
            if self._of_pod.get(binding.pod.key) is binding:  # not given up because of another member
                yield from self._advance(binding)

    # --- events ---

    def wrote(self, id: int) -> bool:
        """Whether a write with an unknown outcome is one of ours."""
        return id in self._of_write

    def done(self, event: Done) -> Outcomes:
        """A write of ours took effect."""
        binding, writer = self._of_write.pop(event.id)
        if self._of_pod.get(binding.pod.key) is not binding:
            return ()  # it ended before the reply came
        binding.silences = 0
        if writer is not None:
            writer.done(event.version, event.uid)
            if binding.stage is BindingStage.WRITING and writer.awaits_news():
                return ()
        elif binding.stage is BindingStage.BINDING:
            return self._bound(binding)
        else:
            binding.sent = False
            if binding.stage is BindingStage.WRITING:
                binding.position += 1
        return self._advance(binding)

    def failed(self, event: Failed) -> Iterator[BindingOutcome]:
        """A write of ours failed."""
        binding, writer = self._of_write.pop(event.id)
        if self._of_pod.get(binding.pod.key) is not binding:
            return
        if writer is not None:
            writer.failed(event.why, event.message, self._clock.now)
            if writer.rests_until > self._clock.now:
                self._timed[binding] = None
        else:
            yield from self._pod_write_failed(binding, event)
        yield from self._advance(binding)

    def claim_changed(self, key: str) -> Outcomes:
        """Makes the bindings that write or await a changed claim, or another followed object, look at it again."""
        followers = self._of_claim.get(key)
        return self._advance_all(list(followers)) if followers else ()

    def pod_changed(self, pod: PodInfo) -> Outcomes:
        """Handles a change of an unbound pod, mostly of its status. A pod that is being deleted can no longer be bound."""
        binding = self._of_pod.get(pod.key)
        if binding is not None and binding.pod.uid == pod.uid:
            binding.pod = pod
            if pod.leaving:
                return self._lose(binding, "the pod is being deleted")
            if binding.stage is BindingStage.BINDING:
                self._bind(binding)
        return ()

    def pod_bound(self, key: str, node: str) -> Outcomes:
        """Handles a pod that the server shows on a node, whichever scheduler bound it."""
        binding = self._of_pod.get(key)
        if binding is None:
            return ()
        if node == binding.node and binding.stage in (BindingStage.BINDING, BindingStage.READY):
            return self._bound(binding)
        return self._overtaken(binding)

    def pod_gone(self, key: str) -> Outcomes:
        """Handles a pod that was deleted or has finished."""
        binding = self._of_pod.get(key)
        return self._lose(binding, "the pod is gone") if binding is not None else ()

    def tick(self) -> Outcomes:
        """Time has passed."""
        return self._advance_all(list(self._timed)) if self._timed else ()

    def next_time(self) -> float | None:
        """When ``tick`` may have something to do."""
        times = [time for binding in self._timed if (time := self._due(binding)) is not None]
        return min(times, default=None)

    def _due(self, binding: Binding) -> float | None:
        dues = [due for writer in binding.writers for due in (writer.rests_until, writer.patience)]
        times = [due for due in dues if due > self._clock.now]
        if binding.rests_until > self._clock.now:
            times.append(binding.rests_until)
        if binding.stage is BindingStage.AWAITING:
            times.append(binding.deadline)
        return min(times, default=None)

    # --- forward ---

    def _advance_all(self, bindings: Iterable[Binding]) -> Iterator[BindingOutcome]:
        for binding in bindings:
            yield from self._advance(binding)

    def _advance(self, binding: Binding) -> Outcomes:
        """Does all that is possible now."""
        if binding.stage is BindingStage.UNDOING:
            return self._back(binding)
        try:
            self._forward(binding)
        except BindingLost as exc:
            return self._back(binding, str(exc))
        self._rest(binding)
        return ()

    def _back(self, binding: Binding, why: str = "") -> Iterator[BindingOutcome]:
        yield from self._fail(binding, why) if why else self._advance_undo(binding)
        self._rest(binding)

    def _rest(self, binding: Binding) -> None:
        if binding in self._timed and self._due(binding) is None:
            del self._timed[binding]

    def _forward(self, binding: Binding) -> None:
        """Continues as far as possible. Raises BindingLost if the binding can no longer succeed."""
        while binding.stage in _STEPPING and self._one_step(binding):
            pass
        if binding.stage is BindingStage.READY:
            self._look_again(binding)
        if binding.stage is BindingStage.BINDING:
            self._bind(binding)

    def _look_again(self, binding: Binding) -> None:
        """Checks that a member which waits for its gang still has what was written for it."""
        lost = next((writer.subject for writer in binding.writers if not writer.stands()), "")
        if lost:
            raise BindingLost(f"{lost} was taken back meanwhile")

    def _one_step(self, binding: Binding) -> bool:
        """Works on the current step. Returns True if the next may begin."""
        if binding.position == len(binding.steps):
            self._ready(binding)
            return False
        step = binding.steps[binding.position]
        if isinstance(step, _WRITTEN):
            return self._write(binding)
        if isinstance(step, PatchStatus):
            self._patch_pod(binding, step)
            return False
        return self._await(binding, step)

    def _write(self, binding: Binding) -> bool:
        """Writes all claims and volumes in parallel: they are the first steps."""
        if not binding.writers:
            for step in binding.steps:
                if not isinstance(step, _WRITTEN):
                    break
                writer = self._writer(step)
                binding.writers.append(writer)
                self._follow(binding, writer.follows)
        finished = True
        for writer in binding.writers:
            if writer.finished:
                continue
            self._advance_writer(binding, writer)
            if writer.finished:
                continue
            finished = False
            if writer.patience > self._clock.now:
                self._timed[binding] = None
            if writer.error:
                raise BindingLost(f"{writer.subject} {writer.error}")
        if finished:
            binding.position = len(binding.writers)
        return finished

    def _writer(self, step: WriteClaim | MakeClaim | BindVolume | SelectNode) -> _Writer:
        if isinstance(step, BindVolume | SelectNode):
            return VolumeWriter(step, self._cluster.storage)
        return ClaimWriter(step, self._cluster.claims)

    def _follow(self, binding: Binding, claim: str) -> None:
        """Makes a binding look again whenever a claim or a volume changes."""
        binding.followed[claim] = None
        self._of_claim.setdefault(claim, {})[binding] = None

    def _advance_writer(self, binding: Binding, writer: _Writer) -> None:
        draft = writer.advance(self._clock.now)
        if draft is not None:
            self._of_write[self._send(draft)] = (binding, writer)

    def _patch_pod(self, binding: Binding, step: PatchStatus) -> None:
        if not binding.sent and self._clock.now >= binding.rests_until:
            pod = binding.pod
            self._send_own(binding, lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, step.patch))

    def _await(self, binding: Binding, step: AwaitConditions | AwaitVolumes) -> bool:
        if binding.stage is not BindingStage.AWAITING:
            binding.stage, binding.deadline = BindingStage.AWAITING, self._clock.now + step.seconds
            self._timed[binding] = None
            for key in _awaited(step):
                self._follow(binding, key)
        if self._has_come(step):
            binding.stage = BindingStage.WRITING
            binding.position += 1
            return True
        if self._clock.now >= binding.deadline:
            what = "volumes were not bound" if isinstance(step, AwaitVolumes) else "devices did not get ready"
            raise BindingLost(f"{what} within {step.seconds:g} s")
        return False

    def _has_come(self, step: AwaitConditions | AwaitVolumes) -> bool:
        """Whether the awaited state has come. Raises BindingLost if it never will."""
        if isinstance(step, AwaitVolumes):
            info = self._cluster.nodes.get(step.node)
            return are_bound(step, info.node if info is not None else None, self._cluster.storage)
        ready = True
        for key in step.claims:
            claim = self._cluster.claims.objects.get(key)
            if claim is None or claim.status.allocation is None:
                raise BindingLost(f"claim {key} was taken back meanwhile")
            state = readiness(claim, self._clock.now, inf)
            if state is Readiness.FAILED:
                raise BindingLost("a device reported that it does not get ready")
            ready = ready and state is Readiness.READY
        return ready

    def _ready(self, binding: Binding) -> None:
        binding.stage = BindingStage.READY
        if binding.binding_group is None:
            binding.stage = BindingStage.BINDING
        else:
            self._open(binding.binding_group)

    def _open(self, binding_group: BindingGroup) -> None:
        """Binds the ready members of a gang once enough of them are ready."""
        if binding_group.open or self._enough(binding_group, _READY):
            binding_group.open = True
            for member in list(binding_group.members.values()):
                if member.stage is BindingStage.READY:
                    member.stage = BindingStage.BINDING
                    self._bind(member)

    def _enough(self, binding_group: BindingGroup, stages: Container[BindingStage]) -> bool:
        """Whether the members that are bound or at these stages meet the gang's need. It reads all members, since others than
        those of the binding group may have come or gone since the gang was placed."""
        gang = binding_group.gang
        there = list(binding_group.bound.values())
        for key, pod in self._cluster.members.get(gang.key, {}).items():
            binding, counted = self._of_pod.get(key), binding_group.bound.get(key)
            has_place = bool(pod.node) if binding is None else binding.stage in stages
            if has_place and (counted is None or counted.uid != pod.uid):
                there.append(pod)
        finished = self._cluster.finished.get(gang.key, {}).items()
        done = sum(phase == "Succeeded" for key, phase in finished if key not in binding_group.bound)
        return not gang.need(there, done)

    def reconsider(self, binding_group: BindingGroup, why: str) -> Iterator[BindingOutcome]:
        """Checks a gang again after other members left: those being bound may have relied on them."""
        if binding_group.open or binding_group.broken:
            return
        if self._enough(binding_group, _POSSIBLE):
            self._open(binding_group)
        else:
            yield from self._break(binding_group, why, evicts=False)

    def _bind(self, binding: Binding) -> None:
        """Binds a pod, once its status names the claims that were made for it: a kubelet finds them only there."""
        if not binding.sent and self._clock.now >= binding.rests_until and names_its_claims(binding.pod):
            pod, node = binding.pod, binding.node
            self._send_own(binding, lambda id: Bind(id, pod.namespace, pod.name, pod.uid, node))

    def _send_own(self, binding: Binding, draft: Draft) -> None:
        binding.sent = True
        self._of_write[self._send(draft)] = (binding, None)

    def _bound(self, binding: Binding) -> Iterator[BindingOutcome]:
        binding_group, key = binding.binding_group, binding.pod.key
        if binding_group is not None:
            binding_group.bound[key] = binding.pod
        self._end(binding)
        yield BindingAccepted(binding)
        if binding_group is not None and binding_group.evicts:
            yield BindingGroupBroken(binding_group, {key: binding.pod})

    def _overtaken(self, binding: Binding) -> Iterator[BindingOutcome]:
        """Handles a pod that another scheduler bound. What was written for it belongs to it now and stays."""
        yield PodReleased(binding)
        binding_group = binding.binding_group
        if binding_group is not None:
            binding_group.bound[binding.pod.key] = binding.pod
        self._end(binding)
        if binding_group is not None and not binding_group.broken:
            self._open(binding_group)

    def _pod_write_failed(self, binding: Binding, event: Failed) -> Iterator[BindingOutcome]:
        binding.sent = False
        if binding.stage is BindingStage.UNDOING:
            return
        if event.why is WriteFailure.UNKNOWN or (
            binding.stage is BindingStage.BINDING and self._undecided(binding, event)
        ):
            binding.rests_until = self._clock.now + min(
                FIRST_REST * 2 ** min(binding.silences, 10), LONGEST_REST
            )
            binding.silences += 1
            self._timed[binding] = None
            return
        yield from self._fail(binding, event.message or event.why.value, gone=event.why is WriteFailure.GONE)

    def _undecided(self, binding: Binding, event: Failed) -> bool:
        """Whether the pod may be bound although a binding failed, so that nothing may be taken from it. A conflict means that
        the pod is bound, perhaps by our own write whose reply was lost, or is being deleted; a later event shows which. Any
        other refusal means little after a write without an answer."""
        if event.why is WriteFailure.CONFLICT:
            return True
        return event.why is not WriteFailure.GONE and 0 < binding.silences <= MOST_SILENCES

    # --- backward ---

    def _lose(self, binding: Binding, why: str) -> Iterator[BindingOutcome]:
        """Fails the binding of a pod that goes away. The outcome of a write to the pod itself no longer matters."""
        binding.sent = False
        yield from self._fail(binding, why, gone=True)
        yield from self._advance(binding)

    def _fail(self, binding: Binding, why: str, *, gone: bool = False) -> Iterator[BindingOutcome]:
        """Starts to undo, in reverse, a binding that can no longer succeed. What it holds in memory stays held until the end,
        since a write in flight may still take effect."""
        if binding.stage is BindingStage.UNDOING:
            binding.gone |= gone
            return
        binding.stage, binding.why, binding.gone = BindingStage.UNDOING, why, gone
        for writer in binding.writers:
            writer.undo()
        binding_group = binding.binding_group
        if (
            binding_group is not None
            and not binding_group.broken
            and not self._enough(binding_group, _POSSIBLE)
        ):
            yield from self._break(binding_group, why, evicts=not gone)
        yield from self._advance_undo(binding)

    def _break(self, binding_group: BindingGroup, why: str, *, evicts: bool) -> Iterator[BindingOutcome]:
        """Makes the members of a gang that can no longer reach its minimum give up, except those that may be bound already."""
        binding_group.broken, binding_group.evicts = why, evicts
        for member in list(binding_group.members.values()):
            perhaps_bound = member.stage is BindingStage.BINDING and (member.sent or member.silences)
            if not perhaps_bound:
                yield from self._fail(
                    member, f"the gang {binding_group.gang.name} cannot be placed whole: {why}"
                )
        if evicts and binding_group.bound:
            yield BindingGroupBroken(binding_group, binding_group.bound)

    def _advance_undo(self, binding: Binding) -> Iterator[BindingOutcome]:
        if binding.sent or self._of_pod.get(binding.pod.key) is not binding:
            return  # its outcome decides what to undo; or the binding has ended
        for writer in reversed(binding.writers):
            if self._shared_in_group(binding, writer) or self._needed_by_others(binding, writer):
                writer.finished = True
            self._advance_writer(binding, writer)
            if writer.rests_until > self._clock.now:
                self._timed[binding] = None
            if not writer.finished:
                return
        yield PodReleased(binding)
        self._end(binding)
        yield BindingGivenUp(binding)
        for writer in binding.writers:
            yield from self.claim_changed(writer.follows)  # other members may have waited for its claim

    def _needed_by_others(self, binding: Binding, writer: _Writer) -> bool:
        """Whether another pod that shares a volume's claim relies on what was written."""
        if not isinstance(writer, VolumeWriter):
            return False
        followers = self._of_claim.get(writer.follows, {})
        return any(each is not binding and each.stage is not BindingStage.UNDOING for each in followers)

    def _shared_in_group(self, binding: Binding, writer: _Writer) -> bool:
        """Whether the claim is reserved for a whole group that has other placed pods."""
        if not writer.for_group:
            return False
        members = self._cluster.members.get(binding.pod.group, {}).values()
        return any(
            member.node and member.key != binding.pod.key and not self.undoing(member) for member in members
        )

    def _end(self, binding: Binding) -> None:
        self._of_pod.pop(binding.pod.key, None)
        self._timed.pop(binding, None)
        if binding.binding_group is not None:
            binding.binding_group.members.pop(binding.pod.key, None)
        for claim in binding.followed:
            users = self._of_claim.get(claim, {})
            users.pop(binding, None)
            if not users:
                self._of_claim.pop(claim, None)

    def validate(self) -> None:
        """Raises AssertionError where an index lacks a binding, or a gang is bound too early."""
        for key, binding in self._of_pod.items():
            assert binding.pod.key == key, f"binding of {key}"
            assert {writer.follows for writer in binding.writers} <= binding.followed.keys()
            for claim in binding.followed:
                assert binding in self._of_claim[claim], f"{key} is not told about {claim}"
            binding_group = binding.binding_group
            if binding_group is not None and binding.stage is BindingStage.BINDING:
                assert binding_group.open, f"{key} is bound before its gang is ready"
