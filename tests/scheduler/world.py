"""A small world for the scheduler's core: a server in memory, its controllers, and schedulers that see it late.

``World`` keeps objects with uids and versions and answers writes as the real server does: preconditions (409), bindings that
cannot be changed, and 409 ``TAKEN`` for a device that is promised twice (``admits=False``: like a Kubernetes that does not
check). What controllers and kubelets do is reduced to one ``chore`` at a time.

A ``Seat`` is one scheduler: what the server did comes to it through a queue per kind, in order but as late as the test likes;
its writes lie about until the test performs them, with one of the outcomes of ``Fate``; replies too come when they are
delivered. A crash throws the core away; a new one starts from what the server has then.

After each event that a core handles, its ``validate`` runs, and the rules of ``World.check``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from msgspec.structs import replace

from allotment.allocator.ledger import Ledger, holding
from allotment.allocator.ledger import LedgerConflict as Twice
from allotment.api import semantic
from allotment.api.batch import PodDisruptionBudget, PodGroup, Queue, VolcanoPodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.codec import decode, to_builtins
from allotment.api.core import Namespace, Node, Pod, PodResourceClaimStatus
from allotment.api.meta import ApiStruct, ObjectMeta, OwnerReference
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from allotment.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.apiserver.patch.merge_patch import merge_patch
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, Configuration
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.instruction import (
    Bind,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    Instruction,
    PatchClaim,
    PatchGroup,
    PatchPod,
    PatchQueue,
    PatchVolume,
    PatchVolumeClaim,
    Tell,
    Write,
)
from allotment.scheduler.pod import FINISHED, group_key

KINDS: tuple[type[ApiStruct], ...] = (
    Node,
    Namespace,
    DeviceClass,
    ResourceSlice,
    DeviceTaintRule,
    PodDisruptionBudget,
    Queue,
    PodGroup,
    VolcanoPodGroup,
    semantic.ResourceClass,
    semantic.ResourceClaimParameters,
    semantic.NodeResourceSlice,
    CSINode,
    StorageClass,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    Pod,
)
AHEAD = "allocated-ahead"
"""The annotation of claims that a test allocated without a user: those stay allocated."""
NOW = "2026-01-01T00:00:00Z"

T = TypeVar("T", bound=ApiStruct)


class Fate(Enum):
    """What becomes of a write."""

    FINE = "fine"
    CONFLICT = "conflict"  # somebody else changes the object just before
    LOST = "lost"  # it takes effect, and the reply gets lost
    TIMEOUT = "timeout"  # no effect, no reply
    REFUSED = "refused"


class Refused(Exception):
    """The server's answer to a write that it does not take."""

    def __init__(self, why: WriteFailure, message: str = "") -> None:
        super().__init__(message or why.value)
        self.why = why


def key_of(obj: ApiStruct) -> str:
    meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # every object of KINDS has it
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


# --- the server ---


class World:
    """A server in memory with its controllers."""

    def __init__(self, *objects: ApiStruct, admits: bool = True) -> None:
        self.now = 1_000_000.0
        self.admits = admits
        self.version = 0
        self._uids = 0
        self.objects: dict[type[ApiStruct], dict[str, Any]] = {kind: {} for kind in KINDS}
        self.seats: list[Seat] = []
        self.templates: dict[str, ResourceClaimSpec] = {}
        self.given_back: set[str] = set()  # uids of claims that a scheduler took from a pod that waits
        self.put(*objects)

    def of(self, kind: type[T]) -> dict[str, T]:
        return self.objects[kind]

    @property
    def pods(self) -> dict[str, Pod]:
        return self.of(Pod)

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        return self.of(ResourceClaim)

    def pod(self, name: str) -> Pod:
        return self.pods[f"default/{name}"]

    def claim(self, name: str) -> ResourceClaim:
        return self.claims[f"default/{name}"]

    def put(self, *objects: ApiStruct) -> None:
        """Creates objects, or changes those that are there."""
        for obj in objects:
            there = self.objects[type(obj)].get(key_of(obj))
            if there is not None:
                meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # as above
                obj = replace(obj, metadata=replace(meta, uid=there.metadata.uid))
            self._store(obj)
            if isinstance(obj, Pod) and there is None:
                self._make_claims(self.pods[key_of(obj)])

    def _store(self, obj: ApiStruct) -> None:
        self.version += 1
        meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # as above
        uid = meta.uid
        key, kind = key_of(obj), type(obj)
        old = self.objects[kind].get(key)
        if old is None:
            self._uids += 1
            uid = f"{kind.__name__.lower()}-{self._uids}"
        new = replace(obj, metadata=replace(meta, uid=uid, resource_version=str(self.version)))
        self.objects[kind][key] = new
        self._tell(old, new)

    def remove(self, obj: ApiStruct) -> None:
        self.version += 1
        old = self.objects[type(obj)].pop(key_of(obj))
        self._tell(old, None)

    def _tell(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        kind = type(new if new is not None else old)
        for seat in self.seats:
            seat.news[kind].append(Changed(old, new))  # type: ignore[index]  # one of the two is there

    def delete(self, obj: ApiStruct) -> None:
        """As users delete: what has finalizers, or runs, stays for a while."""
        obj = self.objects[type(obj)][key_of(obj)]
        meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # as above
        running = isinstance(obj, Pod) and obj.spec.node_name and obj.status.phase not in FINISHED
        if not meta.finalizers and not running:
            self.remove(obj)
        elif meta.deletion_timestamp is None:
            self._store(replace(obj, metadata=replace(meta, deletion_timestamp=NOW)))

    def _make_claims(self, pod: Pod) -> None:
        """The claim controller makes claims from templates at once."""
        statuses = []
        group = self.of(PodGroup).get(group_key(pod))
        for entry in pod.spec.resource_claims:
            of_group = group is not None and entry in group.spec.resource_claims
            if entry.resource_claim_template_name is None or of_group:
                continue
            name = f"{pod.metadata.name}-{entry.name}-{self._uids}"
            owner = OwnerReference(
                api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
            )
            meta = ObjectMeta(
                name=name,
                namespace=pod.metadata.namespace,
                annotations={POD_CLAIM_NAME: entry.name},
                owner_references=(owner,),
            )
            self._store(ResourceClaim(metadata=meta, spec=self.templates[entry.resource_claim_template_name]))
            statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
        if statuses:
            status = replace(pod.status, resource_claim_statuses=tuple(statuses))
            self._store(replace(pod, status=status))

    # --- writes ---

    def perform(self, write: Write) -> Done:
        """Carries a write out. Raises Refused."""
        match write:
            case PatchClaim():
                return self._patch_claim(write)
            case CreateClaim():
                claim = decode(ResourceClaim, write.claim)
                if key_of(claim) in self.claims:
                    raise Refused(WriteFailure.CONFLICT, "already exists")
                self._store(claim)
                made = self.claims[key_of(claim)].metadata
                return Done(write.id, int(made.resource_version), made.uid)
            case DeleteClaim():
                self.delete(self._found(ResourceClaim, write))
            case PatchVolume() | PatchVolumeClaim():
                return self._patch_volume(write)
            case Bind():
                self._bind(write)
            case PatchPod():
                self._patch_pod(self._found(Pod, write), write.patch)
            case DeletePod():
                self.delete(self._found(Pod, write))
            case PatchGroup():
                return self._patch_group(write)
            case PatchQueue():
                return self._patch_queue(write)
        return Done(write.id)

    def _found(self, kind: type[T], write: Any) -> T:
        found: Any = self.objects[kind].get(f"{write.namespace}/{write.name}")
        if found is None:
            raise Refused(WriteFailure.GONE)
        if found.metadata.uid != write.uid:
            raise Refused(WriteFailure.CONFLICT, "another uid")
        return found  # type: ignore[no-any-return]  # it is of the kind that it was looked up by

    def _patch_group(self, write: PatchGroup) -> Done:
        kind: Any = PodGroup if write.api_version == PodGroup().api_version else VolcanoPodGroup
        group = self._found(kind, write)
        if group.metadata.resource_version != write.version:
            raise Refused(WriteFailure.CONFLICT, "another version")
        self._store(decode(kind, merge_patch(to_builtins(group), write.patch)))
        return Done(write.id, self.version)

    def _patch_queue(self, write: PatchQueue) -> Done:
        queue = self.of(Queue).get(write.name)
        if queue is None:
            raise Refused(WriteFailure.GONE)
        if (queue.metadata.uid, queue.metadata.resource_version) != (write.uid, write.version):
            raise Refused(WriteFailure.CONFLICT, "another version")
        self._store(decode(Queue, merge_patch(to_builtins(queue), write.patch)))
        return Done(write.id, self.version)

    def _patch_claim(self, write: PatchClaim) -> Done:
        claim = self._found(ResourceClaim, write)
        if claim.metadata.resource_version != write.version:
            raise Refused(WriteFailure.CONFLICT, "another version")
        new = decode(ResourceClaim, merge_patch(to_builtins(claim), write.patch))
        part = "status" if write.status else "metadata"
        new = replace(claim, **{part: getattr(new, part)})
        if new == claim:
            return Done(write.id, int(claim.metadata.resource_version), claim.metadata.uid)
        if write.status and self.admits and new.status.allocation is not None:
            others = [each for each in self.claims.values() if each.metadata.uid != claim.metadata.uid]
            if promised_twice([new, *others]):
                raise Refused(WriteFailure.TAKEN)
        if write.patch.get("status", {}).get("reservedFor", ()) is None:
            self.given_back.add(claim.metadata.uid)
        self._store(new)
        return Done(write.id, self.version, claim.metadata.uid)

    def _patch_volume(self, write: PatchVolume | PatchVolumeClaim) -> Done:
        kind: Any = PersistentVolume if isinstance(write, PatchVolume) else PersistentVolumeClaim
        key = write.name if isinstance(write, PatchVolume) else f"{write.namespace}/{write.name}"
        found = self.objects[kind].get(key)
        if found is None:
            raise Refused(WriteFailure.GONE)
        if (found.metadata.uid, found.metadata.resource_version) != (write.uid, write.version):
            raise Refused(WriteFailure.CONFLICT, "another version")
        self._store(decode(kind, merge_patch(to_builtins(found), write.patch)))
        return Done(write.id, self.version)

    def _bind(self, write: Bind) -> None:
        pod = self._found(Pod, write)
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            raise Refused(WriteFailure.CONFLICT, "pod is already assigned or being deleted")
        self._store(replace(pod, spec=replace(pod.spec, node_name=write.node)))

    def _patch_pod(self, pod: Pod, patch: dict[str, Any]) -> None:
        """A strategic merge: conditions by their type."""
        status = dict(patch["status"])
        told = {each["type"]: each for each in to_builtins(pod).get("status", {}).get("conditions", [])}
        told |= {each["type"]: each for each in status.get("conditions", [])}
        status["conditions"] = list(told.values())
        new = decode(Pod, merge_patch(to_builtins(pod), {"status": status}))
        if new.status != pod.status:
            self._store(replace(pod, status=new.status))

    def disturb(self, write: Write) -> None:
        """Somebody else changes the object that a write is about, if it says which version it expects."""
        if isinstance(write, PatchVolume | PatchVolumeClaim):
            kind: Any = PersistentVolume if isinstance(write, PatchVolume) else PersistentVolumeClaim
            for each in list(self.objects[kind].values()):
                if each.metadata.uid == write.uid:
                    notes = {**each.metadata.annotations, "disturbed": str(self.version)}
                    self._store(replace(each, metadata=replace(each.metadata, annotations=notes)))
        if isinstance(write, PatchClaim):
            claim = self.claims.get(f"{write.namespace}/{write.name}")
            if claim is not None:
                notes = {**claim.metadata.annotations, "disturbed": str(self.version)}
                self._store(replace(claim, metadata=replace(claim.metadata, annotations=notes)))

    # --- controllers and kubelets ---

    def chores(self) -> list[Callable[[], None]]:
        """What controllers and kubelets would do next, each independent of the others."""
        found: list[Callable[[], None]] = []
        living = {pod.metadata.uid for pod in self.pods.values() if pod.status.phase not in FINISHED}
        living |= {group.metadata.uid for group in self.of(PodGroup).values()}
        living |= set(self._groups_in_use())
        for pod in self.pods.values():
            gone = pod.spec.node_name and pod.spec.node_name not in self.of(Node)
            if pod.metadata.deletion_timestamp is not None or gone:
                found.append(lambda pod=pod: self.remove(pod))  # type: ignore[misc]  # bound early on purpose
            elif shared := self._unnamed(pod):
                found.append(lambda pod=pod, shared=shared: self._name_claims(pod, shared))  # type: ignore[misc]  # as above
        for claim in self.claims.values():
            chore = self._claim_chore(claim, living)
            if chore is not None:
                found.append(chore)
        return found

    def _unnamed(self, pod: Pod) -> tuple[PodResourceClaimStatus, ...]:
        """What the status of a pod is to say of its group's claims, and does not yet."""
        group = self.of(PodGroup).get(group_key(pod))
        if group is None:
            return ()
        named = {status.name for status in pod.status.resource_claim_statuses}
        entries = {entry.name for entry in pod.spec.resource_claims if entry in group.spec.resource_claims}
        statuses = group.status.resource_claim_statuses
        return tuple([each for each in statuses if each.name in entries - named])

    def _name_claims(self, pod: Pod, more: tuple[PodResourceClaimStatus, ...]) -> None:
        there = pod.status.resource_claim_statuses
        self._store(replace(pod, status=replace(pod.status, resource_claim_statuses=(*there, *more))))

    def _groups_in_use(self) -> Iterator[str]:
        """Reservations of groups that are gone last as long as their pods."""
        for claim in self.claims.values():
            for user in claim.status.reserved_for:
                if user.resource == "podgroups" and any(
                    group_key(pod) == f"{claim.metadata.namespace}/{user.name}" for pod in self.pods.values()
                ):
                    yield user.uid

    def _claim_chore(self, claim: ResourceClaim, living: set[str]) -> Callable[[], None] | None:
        meta, status = claim.metadata, claim.status
        left = tuple(user for user in status.reserved_for if user.uid in living)
        if meta.deletion_timestamp is not None and not left:
            return lambda: self.remove(claim)
        if len(left) < len(status.reserved_for):
            stays = left or AHEAD in meta.annotations
            allocation = status.allocation if stays else None
            new = replace(
                status, reserved_for=left, allocation=allocation, devices=() if not stays else status.devices
            )
            return lambda: self._store(replace(claim, status=new))
        owners = [owner.uid for owner in meta.owner_references]
        if owners and meta.deletion_timestamp is None and not any(uid in living for uid in owners):
            return lambda: self.delete(claim)
        return None

    # --- rules ---

    def check(self) -> None:
        """Invariant 1, and that pods which are bound have their claims."""
        if self.admits:
            assert not promised_twice(self.claims.values()), promised_twice(self.claims.values())
        bound = [pod for pod in self.pods.values() if pod.spec.node_name and pod.status.phase not in FINISHED]
        used: dict[str, ResourceClaim] = {}
        for pod in bound:
            for claim in self.claims_of(pod):
                used[key_of(claim)] = claim
        assert not promised_twice(used.values()), f"at a binding: {promised_twice(used.values())}"

    def check_bound(self) -> None:
        """Every bound pod has its claims: allocated, for it or its group.

        With one exception, where several schedulers place the same pods: one gives back a claim that keeps a waiting pod from
        every node, while another is just binding that pod. Neither can know: a binding can name the version of its pod
        but not of a claim, the write of a claim that of the claim but not of the pod, and nothing writes both at once. It would take
        a mark on the pod, written before anything is given back and respected by all who bind, which other schedulers do not
        do. Hence leader election; and a node checks before it starts a pod that the claim is still the pod's. What each can know
        is checked when it speaks (``Seat``): it takes nothing from a pod that it has seen bound.
        """
        for pod in self.pods.values():
            if pod.spec.node_name and pod.status.phase not in FINISHED:
                named = {status.name for status in pod.status.resource_claim_statuses}
                made = {each.name for each in pod.spec.resource_claims if each.resource_claim_template_name}
                assert made <= named, f"{key_of(pod)} is bound, and its status lacks {made - named}"
                for claim in self.claims_of(pod):
                    taken = len(self.seats) > 1 and claim.metadata.uid in self.given_back
                    assert taken or claim.metadata.deletion_timestamp is not None or self.has(pod, claim), (
                        f"{key_of(pod)} is bound without {key_of(claim)}: {claim.status}"
                    )

    def claims_of(self, pod: Pod) -> list[ResourceClaim]:
        names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        names += [entry.resource_claim_name for entry in pod.status.resource_claim_statuses]
        if pod.status.extended_resource_claim_status is not None:
            names.append(pod.status.extended_resource_claim_status.resource_claim_name)
        keys = [f"{pod.metadata.namespace}/{name}" for name in names if name]
        return [self.claims[key] for key in keys if key in self.claims]

    def has(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether it is allocated and reserved for the pod or its group. The group that the claim was made for counts also when it
        is gone, or another has its name: its reservation lasts as long as its pods, and nobody who binds one of them can know that
        the group was deleted a moment ago."""
        group = self.of(PodGroup).get(group_key(pod))
        groups = {owner.uid for owner in claim.metadata.owner_references}
        groups |= {group.metadata.uid} if group is not None else set()
        mine = any(
            user.uid == pod.metadata.uid
            or (user.uid in groups and f"{claim.metadata.namespace}/{user.name}" == group_key(pod))
            for user in claim.status.reserved_for
        )
        return claim.status.allocation is not None and mine

    def check_nothing_leaked(self) -> None:
        """When nothing moves any more: what is allocated is in use."""
        living = {pod.metadata.uid for pod in self.pods.values()}
        living |= {group.metadata.uid for group in self.of(PodGroup).values()}
        living |= set(self._groups_in_use())
        for key, claim in self.claims.items():
            users = {user.uid for user in claim.status.reserved_for}
            assert users <= living, f"{key} is reserved for somebody who is gone"
            for pod in self.pods.values():
                waits = not pod.spec.node_name and pod.status.phase not in FINISHED
                assert not waits or pod.metadata.uid not in users, (
                    f"{key} is kept for {key_of(pod)}, which waits"
                )
            if claim.status.allocation is not None:
                assert users or AHEAD in claim.metadata.annotations, f"{key} is allocated, and nobody uses it"

    def fresh(self) -> Cluster:
        """A cluster that was shown everything that there is, by nobody in particular."""
        made = Cluster()
        for kind in KINDS:
            for obj in self.objects[kind].values():
                made.change(None, obj)
        return made


def promised_twice(claims: Iterable[ResourceClaim]) -> str:
    """What of the claims' devices is in two of them, whole; empty if nothing is."""
    ledger = Ledger()
    for claim in claims:
        if claim.status.allocation is not None:
            try:
                ledger.hold(
                    key_of(claim), tuple(holding(each) for each in claim.status.allocation.devices.results)
                )
            except Twice as exc:
                return str(exc)
    return ""


# --- a scheduler ---


@dataclass(eq=False)
class Seat:
    """One scheduler in a world; see the module."""

    world: World
    configuration: Configuration = DEFAULT
    core: Scheduler = field(init=False)
    news: dict[type[ApiStruct], deque[Changed]] = field(init=False)
    writes: list[Write] = field(init=False)
    replies: list[Done | Failed] = field(init=False)
    told: list[Tell] = field(default_factory=list)
    said: list[Instruction] = field(default_factory=list)  # all that it ever asked for
    heard: Callable[[Event, list[Instruction]], None] | None = None
    _bound: set[str] = field(default_factory=set)  # uids for which a binding was asked
    _given_back: set[tuple[str, str]] = field(
        default_factory=set
    )  # claims that it gave back, as they were then
    validates: bool = True

    def __post_init__(self) -> None:
        self.world.seats.append(self)
        self._start()

    def _start(self) -> None:
        self.core = Scheduler(Cluster(), self.configuration.rosters(), backoff=self.configuration.backoff)
        self.news = {kind: deque() for kind in KINDS}
        self.writes, self.replies = [], []
        self.tell(Tick(self.world.now))
        for kind in KINDS:
            for obj in list(self.world.objects[kind].values()):
                self.tell(Changed(None, obj))

    def crash(self) -> None:
        """Throws the core away, with what it asked for and did not get; a new one starts."""
        self._bound.clear()
        self._given_back.clear()
        self._start()

    def tell(self, event: Event) -> list[Instruction]:
        """Has the core hear an event."""
        out = self.core.handle(event)
        if self.heard is not None:
            self.heard(event, out)
        for instruction in out:
            self.said.append(instruction)
            if isinstance(instruction, Tell):
                self.told.append(instruction)
            else:
                self.writes.append(instruction)
                if isinstance(instruction, Bind):
                    self._check_gang(instruction)
                elif isinstance(instruction, PatchClaim):
                    self._check_given_back(instruction)
        if self.validates:
            self.core.validate()
        self.world.check()
        return out

    def _check_given_back(self, patch: PatchClaim) -> None:
        """No claim is taken from a pod that is bound, as far as this scheduler can see; one that insists was right the first
        time."""
        if patch.patch.get("status", {}).get("reservedFor", ()) is not None:
            return
        if (patch.uid, patch.version) in self._given_back:
            return
        self._given_back.add((patch.uid, patch.version))
        cluster = self.core.cluster
        claim = cluster.claims.objects[f"{patch.namespace}/{patch.name}"]
        users = {user.uid for user in claim.status.reserved_for}
        for pod in cluster.pods.values():
            assert pod.uid not in users or not pod.pod.spec.node_name, f"{claim} is taken from {pod!r}"

    def _check_gang(self, bind: Bind) -> None:
        """Invariant 4, as far as this scheduler can see; a binding that is repeated was right the first time."""
        if bind.uid in self._bound:
            return
        self._bound.add(bind.uid)
        cluster = self.core.cluster
        pod = cluster.pods[f"{bind.namespace}/{bind.name}"]
        found = cluster.groups.get(group_key(pod.pod))
        gang = gang_of("", found) if found is not None else None
        if found is None or gang is None:
            return
        ready = list(cluster.finished.get(group_key(pod.pod), {}).values()).count("Succeeded")
        for member in cluster.members[group_key(pod.pod)].values():
            claims = [cluster.claims.objects.get(key) for key in cluster.used_by(member)]
            consumers = {member.uid, found.metadata.uid}
            has = all(
                claim is not None
                and claim.status.allocation is not None
                and any(user.uid in consumers for user in claim.status.reserved_for)
                for claim in claims
            )
            binding = self.core.bindings.get(member.key)
            going = binding is not None and binding.stage.value in ("ready", "binding")
            ready += bool(member.pod.spec.node_name) or (has and (going or bool(member.node)))
        binding = self.core.bindings.get(pod.key)
        if (
            binding is not None and binding.binding_group is not None
        ):  # those that were bound, and are gone since
            ready += sum(key not in cluster.pods for key in binding.binding_group.bound)
        assert ready >= gang.minimum, f"{bind.name} is bound with {ready} of {gang.minimum} of its gang ready"

    # --- one step at a time ---

    def deliver(self, kind: type[ApiStruct]) -> None:
        self.tell(self.news[kind].popleft())

    def relist(self, kind: type[ApiStruct]) -> None:
        """The watch breaks, and the list shows only what came out of all that happened."""
        before: dict[str, ApiStruct | None] = {}
        after: dict[str, ApiStruct | None] = {}
        for change in self.news[kind]:
            shown = change.new if change.new is not None else change.old
            assert shown is not None
            before.setdefault(key_of(shown), change.old)
            after[key_of(shown)] = change.new
        self.news[kind].clear()
        for key, old in before.items():
            new: Any = after[key]
            there: Any = old
            if there is not None and new is not None and there.metadata.uid != new.metadata.uid:
                self.news[kind] += [Changed(there, None), Changed(None, new)]
            elif there is not None or new is not None:
                self.news[kind].append(Changed(there, new))

    def perform(self, number: int = 0, fate: Fate = Fate.FINE) -> None:
        """One of the writes that were asked for is carried out, or meets its fate."""
        write = self.writes.pop(number)
        if fate is Fate.TIMEOUT:
            self.replies.append(Failed(write.id, WriteFailure.UNKNOWN, "timed out"))
            return
        if fate is Fate.REFUSED:
            self.replies.append(Failed(write.id, WriteFailure.REFUSED, "not allowed"))
            return
        if fate is Fate.CONFLICT:
            self.world.disturb(write)
        if isinstance(write, PatchClaim) and write.id in self.core.outbox._insisted:
            self.world.given_back.add(write.uid)
        reply: Done | Failed
        try:
            reply = self.world.perform(write)
        except Refused as exc:
            reply = Failed(write.id, exc.why, str(exc))
        self.world.check()
        self.replies.append(
            Failed(write.id, WriteFailure.UNKNOWN, "no reply") if fate is Fate.LOST else reply
        )

    def reply(self, number: int = 0) -> None:
        self.tell(self.replies.pop(number))

    def turn(self, pods: int = 1) -> bool:
        before = self.core.decided
        self.tell(Turn(pods))
        return self.core.decided > before

    def catch_up(self) -> bool:
        """Hears all news and replies, performs all writes; False if there were none."""
        moved = False
        for kind in KINDS:
            while self.news[kind]:
                self.deliver(kind)
                moved = True
        while self.writes:
            self.perform()
            moved = True
        while self.replies:
            self.reply()
            moved = True
        return moved


def settle(world: World, *, seconds: float = 120.0, idle: Callable[[], bool] = lambda: False) -> None:
    """Lets everything happen, without failures, until nothing moves any more. ``idle`` may do something before time passes,
    and says whether it did."""
    end = world.now + seconds
    for _ in range(5000):
        moved = False
        for seat in world.seats:
            moved |= seat.catch_up()
            moved |= seat.turn(16) or bool(seat.writes)
        for chore in world.chores()[:1]:
            chore()
            moved = True
        if moved or idle():
            continue
        times = [time for seat in world.seats if (time := seat.core.next_time()) is not None]
        if not times:
            return
        world.now = max(world.now + 0.01, min(times))
        assert world.now < end, f"still moving after {seconds} s: {[_busy(seat) for seat in world.seats]}"
        for seat in world.seats:
            seat.tell(Tick(world.now))
    raise AssertionError(f"still moving: {[_busy(seat) for seat in world.seats]}")


def _busy(seat: Seat) -> str:
    core = seat.core
    bindings = [(each.pod.key, each.stage.value, each.why) for each in core.bindings.all()]
    return f"{core.queue.counts()} {bindings} {seat.said[-5:]}"
