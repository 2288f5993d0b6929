"""Volcano's queues: how much each tenant uses, may use at most (capability), and deserves when others want it too (weight).

Amounts are those of nodes (cpu, memory, …), ``pods``, and devices of a class as ``deviceclass/<class>``: how many the pods ask
for, in claims or as extended resources. ``<capacity>.deviceclass/<class>`` is what their claims ask for of a capacity of such
devices. A claim that several pods share counts once in a queue. A claim for all devices of a node counts once their number is
known.

Three measures, each for its purpose:

|* ``beyond`` is a hard limit: the ``capability`` of the queue and its ancestors, and what is left beside the ``guarantee`` of
other queues. Nothing is placed above it.
* ``share`` decides whose turn it is: the fraction that a queue uses of what it may expect, by ``deserved`` or else by weight. The
  queue with the smallest share is served first.
* ``due`` is what can be reclaimed for a queue. It is ``deserved`` if the queue states that. The remainder is divided by weight
  among the other queues that want it, and what one does not want goes to the rest. A child queue gets its part of its parent's
  due. The due is never less than the ``guarantee``.

The cluster's log of changed nodes keeps the used amounts up to date, so the cost of a question depends on what changed since the
last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from allotment.allocator.semantic_carrier import is_carrier
from allotment.api.batch import Queue, VolcanoPodGroup
from allotment.api.claim_marks import EXTENDED
from allotment.api.core import Pod
from allotment.api.quantity import Format, Quantity
from allotment.scheduler.devices.extended_resources import served
from allotment.scheduler.framework import ObjectAction, Wake
from allotment.scheduler.gangs.gang import DEFAULT_QUEUE
from allotment.scheduler.node import PODS
from allotment.scheduler.pod import VOLCANO, group_key
from allotment.scheduler.resource_requests import Amounts, amounts

if TYPE_CHECKING:
    from allotment.api.batch import DeviceQuota
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

QUEUE = "Queue"
"""The plugin name for gangs that their queue rejects."""
DEVICE_CLASS = "deviceclass/"
OF_CLASS = ".deviceclass/"
"""Separates the name of a capacity from that of a class."""
INQUEUE = "Inqueue"
_ONE = 10**9
_MOST_OF_ONE_REQUEST = 32


def queue_of(pod: Pod, cluster: Cluster) -> str:
    """The queue that a pod draws on through its group; empty if it draws on none."""
    key = group_key(pod)
    group = cluster.groups.get(key) if key.startswith(VOLCANO) else None
    return queue_name(group) if isinstance(group, VolcanoPodGroup) else ""


def queue_name(group: VolcanoPodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


# --- demand ---


def demand_of(pods: Iterable[PodInfo], cluster: Cluster) -> Amounts:
    """What these pods together take, or would take, of a queue."""
    total: Amounts = {}
    counted: set[str] = set()
    for pod in pods:
        more, claims = further_demand(pod, counted, cluster)
        add(total, more)
        counted |= claims
    return total


def further_demand(pod: PodInfo, counted: Set[str], cluster: Cluster) -> tuple[Amounts, set[str]]:
    """What a pod takes of a queue in addition to others whose claims are ``counted``, and its claims that are not counted yet."""
    more, claims = own_demand(pod, cluster), set(_claims(pod, cluster)) - counted
    for key in claims:
        add(more, claimed(key, cluster))
    return more, claims


def own_demand(pod: PodInfo, cluster: Cluster) -> Amounts:
    """What a pod takes of a queue, without its claims."""
    total = dict(pod.requests)
    total[PODS] = total.get(PODS, 0) + _ONE
    if cluster.extended:
        node = cluster.nodes.get(pod.node)
        for resource, name in served(pod, cluster.extended).items():
            if node is None or not node.offered.get(resource):  # else the node's device plugin serves it
                key = DEVICE_CLASS + name
                total[key] = total.get(key, 0) + pod.requests.get(resource, 0)
    return total


def _claims(pod: PodInfo, cluster: Cluster) -> list[str]:
    """The claims that count in addition to ``own_demand``, which covers claims for extended resources."""
    if not pod.pod.spec.resource_claims:
        return []
    claims = cluster.claims.objects
    return [
        key
        for key in cluster.used_by(pod)
        if key in claims and claims[key].metadata.annotations.get(EXTENDED) != "true"
    ]


def claimed(key: str, cluster: Cluster) -> Amounts:
    """How many devices of each class a claim requests. Of several alternatives, it counts the one allocated, or else the
    first."""
    asked: Amounts = {}
    allocation = cluster.claims.allocation(key)
    given = [result.request for result in allocation.devices.results] if allocation is not None else []
    for request in cluster.claims.objects[key].spec.devices.requests:
        wish = request.exactly or next(iter(request.first_available), None)
        if wish is None or (request.exactly is not None and request.exactly.admin_access):
            continue
        for other in request.first_available:
            if f"{request.name}/{other.name}" in given:
                wish = other
        got = sum(each.partition("/")[0] == request.name for each in given)
        # a v1alpha2 claim requests one, and gets as many instances as its parameters say
        count = got if wish.allocation_mode == "All" else max(wish.count or 1, got)
        count = min(count, _MOST_OF_ONE_REQUEST)
        add(asked, {DEVICE_CLASS + wish.device_class_name: count * _ONE})
        for name, amount in (wish.capacity.requests if wish.capacity is not None else {}).items():
            add(asked, {f"{name}{OF_CLASS}{wish.device_class_name}": count * amount.nanos})
    return asked


# --- queues ---


def open_ended(pod: PodInfo, cluster: Cluster) -> bool:
    """Whether a pod may take more of a queue than its claims show before allocation: all devices of a node, an alternative other
    than the first, or instances of v1alpha2."""
    claims = cluster.claims.objects
    return any(
        is_carrier(claims[key])
        or any(
            each.first_available or (each.exactly is not None and each.exactly.allocation_mode == "All")
            for each in claims[key].spec.devices.requests
        )
        for key in _claims(pod, cluster)
    )


def limits(queue: Queue | None) -> Amounts:
    """The most that a queue may use of each resource that it limits."""
    if queue is None:
        return {}
    quotas = queue.spec.dra.capability if queue.spec.dra is not None else {}
    return amounts(queue.spec.capability) | _devices(quotas)


def deserved(queue: Queue | None) -> Amounts:
    """What a queue itself says that it deserves."""
    if queue is None:
        return {}
    quotas = queue.spec.dra.deserved if queue.spec.dra is not None else {}
    return amounts(queue.spec.deserved) | _devices(quotas)


def guaranteed(queue: Queue | None) -> Amounts:
    """What is guaranteed to a queue."""
    if queue is None:
        return {}
    quotas = queue.spec.dra.guarantee if queue.spec.dra is not None else {}
    return amounts(queue.spec.guarantee.resource) | _devices(quotas)


def unread(queue: Queue) -> str:
    """A sentence on what a queue asks for and this scheduler ignores; empty if nothing."""
    names = sorted(name for name in guaranteed(queue) if OF_CLASS in name)
    if not names:
        return ""
    return f"guarantee of {', '.join(names)}: not kept; of devices, only their number (deviceclass/<class>) can be kept for a queue"


def _devices(quotas: Mapping[str, DeviceQuota]) -> Amounts:
    found: Amounts = {}
    for name, quota in quotas.items():
        if quota.count is not None:
            found[DEVICE_CLASS + name] = quota.count * _ONE
        for capacity, amount in quota.capacity.items():
            found[f"{capacity}{OF_CLASS}{name}"] = amount.nanos
    return found


class TenantQueues:
    """All queues as they stand now, including pods that are only assumed on a node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read = -1
        self._claims_read = 0
        self._used: dict[str, Amounts] = {}
        # node → what each pod there counts for
        self._on: dict[str, list[tuple[str, Amounts, list[str]]]] = {}
        self._shared: dict[tuple[str, str], tuple[int, Amounts]] = {}  # (queue, claim) → by how many pods
        self._where: dict[str, dict[str, None]] = {}  # claim → nodes on which it was counted
        self._supply: tuple[int, Amounts] = (-1, {})  # version, and total of each resource

    def reset(self) -> None:
        """Counts everything again, because pods may belong to other queues now."""
        self._read = -1

    @property
    def used(self) -> dict[str, Amounts]:
        """What the placed pods of each queue take. The caller must not change it."""
        log, claims = self._cluster.log, self._cluster.claims.log
        changed: Iterable[str] | None = log.since(self._read) if self._read >= 0 else None
        other: Iterable[str] | None = claims.since(self._claims_read)
        if changed is None or other is None:
            self._used, self._on, self._shared, self._where = {}, {}, {}, {}
            changed, other = self._cluster.nodes, ()
        self._read, self._claims_read = log.end, claims.end
        names = dict.fromkeys(changed)
        for claim in dict.fromkeys(other):
            names.update(dict.fromkeys(self._nodes_of(claim)))
        for name in names:  # all first: a shared claim is counted again once no pod holds it
            self._uncount(name)
        for name in names:
            self._count(name)
        return self._used

    def _nodes_of(self, claim: str) -> Iterator[str]:
        """The nodes whose pods use a claim, before and after the change."""
        yield from self._where.get(claim, ())
        cluster, shown = self._cluster, self._cluster.claims.objects.get(claim)
        owners = shown.metadata.owner_references if shown is not None else ()
        namespace = claim.partition("/")[0]
        for key in (*cluster.users.get(claim, ()), *(f"{namespace}/{owner.name}" for owner in owners)):
            if key in cluster.pods and cluster.pods[key].node:
                yield cluster.pods[key].node

    def _uncount(self, name: str) -> None:
        for queue, own, claims in self._on.pop(name, ()):
            add(self._used[queue], own, -1)
            for claim in claims:
                self._release(queue, claim)
                self._where.get(claim, {}).pop(name, None)
                if not self._where.get(claim, True):
                    del self._where[claim]

    def _count(self, name: str) -> None:
        node = self._cluster.nodes.get(name)
        entries = []
        for pod in node.pods.values() if node is not None else ():
            queue = queue_of(pod.pod, self._cluster)
            if queue:
                own, claims = own_demand(pod, self._cluster), _claims(pod, self._cluster)
                entries.append((queue, own, claims))
                add(self._used.setdefault(queue, {}), own)
                for claim in claims:
                    self._hold(queue, claim)
                    self._where.setdefault(claim, {})[name] = None
        if entries:
            self._on[name] = entries

    def _hold(self, queue: str, claim: str) -> None:
        users, held = self._shared.get((queue, claim), (0, {}))
        if not users:
            held = claimed(claim, self._cluster)
            add(self._used[queue], held)
        self._shared[queue, claim] = (users + 1, held)

    def _release(self, queue: str, claim: str) -> None:
        users, held = self._shared.pop((queue, claim))
        if users > 1:
            self._shared[queue, claim] = (users - 1, held)
        else:
            add(self._used[queue], held, -1)

    # --- questions ---

    def closed(self, name: str) -> str:
        """Why a queue takes no gangs; empty if it does."""
        queue = self._cluster.queues.get(name)
        if queue is None:
            return "" if name == DEFAULT_QUEUE else f"there is no queue {name}"
        state = queue.status.state
        if state in ("Closed", "Closing"):
            return f"the queue {name} is {state}"
        return self._cluster.queue_tree.fault(name)

    def beyond(
        self, name: str, more: Mapping[str, int], kept: Mapping[str, Mapping[str, int]] | None = None
    ) -> str:
        """Says which limit of a queue or its ancestors would be exceeded, or that it would take what is guaranteed to others.
        Empty if neither. ``kept`` is what others wait to use, by queue."""
        return self.above_limits(name, more, kept) or self._beside_guarantees(name, more)

    def above_limits(
        self, name: str, more: Mapping[str, int], kept: Mapping[str, Mapping[str, int]] | None = None
    ) -> str:
        """Like ``beyond``, without the guarantees of others: those depend on the total supply, and these limits do not."""
        tree = self._cluster.queue_tree
        for each in reversed(tree.path(name)):
            used, waiting = self._under(each, self.used), self._under(each, kept or {})
            for resource, limit in limits(self._cluster.queues.get(each)).items():
                wanted, others = more.get(resource, 0), waiting.get(resource, 0)
                if wanted and used.get(resource, 0) + others + wanted > limit:
                    words = f", others wait for {told(others, resource)}" if others else ""
                    return (
                        f"queue {each} may use {told(limit, resource)} of {resource}, uses "
                        f"{told(used.get(resource, 0), resource)}{words}, and this needs {told(wanted, resource)} more"
                    )
        return ""

    def exceeded(self, name: str, resources: Collection[str]) -> str:
        """Like ``beyond``, for pods that are placed and counted already: which limit of these resources is exceeded, or that the
        queue has what is guaranteed to others."""
        for each in reversed(self._cluster.queue_tree.path(name)):
            used = self._under(each, self.used)
            for resource, limit in limits(self._cluster.queues.get(each)).items():
                if resource in resources and used.get(resource, 0) > limit:
                    return (
                        f"queue {each} may use {told(limit, resource)} of {resource}, and would use "
                        f"{told(used[resource], resource)} with what its claims got"
                    )
        mine, own = guaranteed(self._cluster.queues.get(name)), self.used.get(name, {})
        for resource, total in self._totals(sorted(self._guaranteed() & set(resources))).items():
            used_, others = own.get(resource, 0), self._of_others(name, resource)
            if used_ > max(mine.get(resource, 0), total - others):
                return (
                    f"queue {name} would use {told(used_, resource)} of {resource} with what its claims got; of "
                    f"{told(total, resource)} there are, other queues use or have guaranteed {told(others, resource)}"
                )
        return ""

    def _guaranteed(self) -> set[str]:
        """The resources that are guaranteed to any queue."""
        queues = self._cluster.queues.values()
        return {each for queue in queues for each in guaranteed(queue) if OF_CLASS not in each}

    def _beside_guarantees(self, name: str, more: Mapping[str, int]) -> str:
        """Says that a queue would take what is guaranteed to others; empty if not."""
        mine, own = guaranteed(self._cluster.queues.get(name)), self.used.get(name, {})
        for resource, total in self._totals(sorted(self._guaranteed() & more.keys())).items():
            used, wanted = own.get(resource, 0), more[resource]
            if not wanted or used + wanted <= mine.get(resource, 0):
                continue
            others = self._of_others(name, resource)
            if used + wanted > total - others:
                return (
                    f"queue {name} uses {told(used, resource)} of {resource} and this needs {told(wanted, resource)} more; of "
                    f"{told(total, resource)} there are, other queues use or have guaranteed {told(others, resource)}"
                )
        return ""

    def _of_others(self, name: str, resource: str) -> int:
        """What other queues use of a resource, plus their unused guarantees."""
        tree, found, parent = self._cluster.queue_tree, 0, ""
        alone = [each for each in self.used if not tree.reached(each) and each != name]
        for each in tree.path(name):
            found += sum(self._reserved(other, resource) for other in tree.children(parent) if other != each)
            parent = each
        return found + sum(self.used[each].get(resource, 0) for each in alone)

    def _reserved(self, name: str, resource: str) -> int:
        below = sum(self._reserved(child, resource) for child in self._cluster.queue_tree.children(name))
        used = self.used.get(name, {}).get(resource, 0)
        return max(guaranteed(self._cluster.queues.get(name)).get(resource, 0), below + used)

    def _under(self, name: str, given: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
        """What a queue and all below it have together."""
        names = self._cluster.queue_tree.below(name)
        if len(names) == 1:
            return given.get(name, {})
        total: Amounts = {}
        for each in names:
            add(total, given.get(each, {}))
        return total

    def full(self, name: str) -> bool:
        """Whether a queue or one of its ancestors uses more than it may."""
        for each in self._cluster.queue_tree.path(name):
            most = limits(self._cluster.queues.get(each))
            used = self._under(each, self.used) if most else {}
            if any(used.get(resource, 0) > limit for resource, limit in most.items()):
                return True
        return False

    def kept(self) -> dict[str, Amounts]:
        """What the groups that each queue admitted still wait to use, by their ``minResources``."""
        found: dict[str, Amounts] = {}
        for key, group in self._cluster.groups.items():
            if isinstance(group, VolcanoPodGroup) and group.status.phase == INQUEUE:
                placed = [pod for pod in self._cluster.members.get(key, {}).values() if pod.node]
                there = demand_of(placed, self._cluster)
                least = amounts(group.spec.min_resources)
                more = {name: max(0, amount - there.get(name, 0)) for name, amount in least.items()}
                add(found.setdefault(queue_name(group), {}), more)
        return found

    def admit(self, group: VolcanoPodGroup, kept: dict[str, Amounts]) -> str:
        """Volcano's enqueue: why a queue cannot take the minimum of a group beside what is ``kept`` for others. If it can,
        returns an empty string and adds the minimum to ``kept``."""
        name, least = queue_name(group), amounts(group.spec.min_resources)
        words = self.closed(name) or self.beyond(name, least, kept)
        if not words:
            add(kept.setdefault(name, {}), least)
        return words

    def share(self, name: str) -> float:
        """The largest fraction that a queue uses of what it may expect. Of two queues, the one with the smaller share is served
        first."""
        used = self._under(name, self.used)
        explicit = self.stated(name)
        totals = self._totals(
            [resource for resource, amount in used.items() if amount and resource not in explicit]
        )
        parts = [amount / explicit[r] for r, amount in used.items() if explicit.get(r)]
        parts += [used[r] / (total * self._weight(name)) for r, total in totals.items() if total]
        return max(parts, default=0.0)

    def stated(self, name: str) -> Amounts:
        """What a queue itself says that it deserves, and at least its guarantee. A guarantee alone says nothing about what the
        queue deserves of other resources."""
        queue = self._cluster.queues.get(name)
        kept = guaranteed(queue)
        return {each: max(amount, kept.get(each, 0)) for each, amount in deserved(queue).items()}

    def turn(self, name: str) -> tuple[float, ...]:
        """The queue with the lower turn is served first: by priority, then by share. Child queues compare their ancestors' turns
        first."""
        queues, found = self._cluster.queues, list[float]()
        for each in self._cluster.queue_tree.path(name):
            queue = queues.get(each)
            found += [-(queue.spec.priority or 0) if queue is not None else 0, self.share(each)]
        return tuple(found)

    def contended(self, wanted: Mapping[str, int]) -> set[str]:
        """The wanted resources that do not suffice for all queues that want them, that some queue says it deserves, or that are
        guaranteed to one."""
        queues = self._cluster.queues
        stated = {resource for name in queues for resource in self.stated(name)} | self._guaranteed()
        demand = self._demand()
        found = set()
        for resource, total in self._totals([each for each in wanted if OF_CLASS not in each]).items():
            all_want = sum(mine.get(resource, 0) for mine in demand.values())
            if resource != PODS and wanted[resource] and (resource in stated or all_want > total):
                found.add(resource)
        return found

    def due(self, wanted: Collection[str]) -> dict[str, Amounts]:
        """What each queue may have of some resources while all want something. A queue outside the tree, because its parents are
        gone or form a cycle, keeps what it uses."""
        demand = self._demand()
        found: dict[str, Amounts] = {name: {} for name in demand}
        tops = [name for name in demand if name not in self._cluster.queues]
        tops += self._cluster.queue_tree.children("")
        apart = {
            name: used
            for name, used in self.used.items()
            if name in self._cluster.queues and not self._cluster.queue_tree.reached(name)
        }
        for resource, total in self._totals([each for each in wanted if OF_CLASS not in each]).items():
            left = total - sum(used.get(resource, 0) for used in apart.values())
            self._part(resource, max(0, left), tops, demand, found)
        return found | {name: dict(used) for name, used in apart.items()}

    def _part(
        self,
        resource: str,
        total: int,
        names: Collection[str],
        demand: Mapping[str, Amounts],
        found: dict[str, Amounts],
    ) -> None:
        """Divides a total among queues, and each part among the queues below."""
        most = {
            name: self._most(name, resource, self._under(name, demand).get(resource, 0)) for name in names
        }
        explicit = {name: stated[resource] for name in names if resource in (stated := self.stated(name))}
        kept = {name: self._kept(name, resource) for name in names}
        explicit = {name: max(amount, kept[name]) for name, amount in explicit.items()}
        left = total - sum(max(min(amount, most[name]), kept[name]) for name, amount in explicit.items())
        others = {name: amount for name, amount in most.items() if name not in explicit}
        weights = {each: self._weight(each) for each in others}
        parts = parted(max(0, left), others, weights, kept) | explicit
        for name, amount in parts.items():
            found.setdefault(name, {})[resource] = amount
            if children := self._cluster.queue_tree.children(name):
                self._part(resource, amount, children, demand, found)

    def _kept(self, name: str, resource: str) -> int:
        """What is guaranteed of a resource to a queue and those below it."""
        below = sum(self._kept(child, resource) for child in self._cluster.queue_tree.children(name))
        return max(guaranteed(self._cluster.queues.get(name)).get(resource, 0), below)

    def _demand(self) -> dict[str, Amounts]:
        """What each queue uses and waits for."""
        cluster, demand = self._cluster, {name: dict(used) for name, used in self.used.items()}
        for key, members in cluster.members.items():
            group = cluster.groups.get(key)
            if isinstance(group, VolcanoPodGroup):
                waiting = [pod for pod in members.values() if not pod.node]
                add(demand.setdefault(queue_name(group), {}), demand_of(waiting, cluster))
        return demand

    def _most(self, name: str, resource: str, wanted: int) -> int:
        limit = limits(self._cluster.queues.get(name)).get(resource)
        return wanted if limit is None else min(wanted, limit)

    def reclaimable(self, name: str) -> bool:
        queue = self._cluster.queues.get(name)
        return queue is None or queue.spec.reclaimable is not False

    def _weight(self, name: str) -> int:
        queue = self._cluster.queues.get(name)
        return max(1, queue.spec.weight or 1) if queue is not None else 1

    def _totals(self, resources: Collection[str]) -> Amounts:
        """The total of each resource in the cluster."""
        if self._supply[0] != self._cluster.supply:
            self._supply = (self._cluster.supply, {})
        known = self._supply[1]
        for resource in resources:
            if resource not in known:
                known[resource] = self._total(resource)
        return {resource: known[resource] for resource in resources}

    def _total(self, resource: str) -> int:
        if resource.startswith(DEVICE_CLASS):
            return self._cluster.fleet.count(resource.removeprefix(DEVICE_CLASS)) * _ONE
        return sum(node.offered.get(resource, 0) for node in self._cluster.nodes.values())

    def validate(self) -> None:
        """Raises AssertionError where the kept amounts differ from what the placed pods take."""
        fresh = TenantQueues(self._cluster).used
        for name in {*fresh, *self.used}:
            assert _nonzero(fresh.get(name, {})) == _nonzero(self.used.get(name, {})), f"queue {name}"


class Quota:
    """What may help a gang that its queue rejected: a change of the queue, or a pod that leaves it."""

    name = QUEUE
    wakes: Sequence[Wake] = (
        Wake(Queue, frozenset(ObjectAction)),
        Wake(Pod, frozenset((ObjectAction.DELETE,))),
    )

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        """A change of the counts in a queue's status helps no pod."""
        if isinstance(old, Queue) and isinstance(new, Queue):
            return old.spec != new.spec or old.status.state != new.status.state
        return True

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        mine = queue_of(pod.pod, cluster)
        changed = new if new is not None else old
        if isinstance(changed, Queue):
            return changed.metadata.name == mine
        return isinstance(old, Pod) and queue_of(old, cluster) == mine


def parted(
    total: int, wanted: Mapping[str, int], weights: Mapping[str, int], least: Mapping[str, int] | None = None
) -> Amounts:
    """Divides a total by weight. No queue gets more than it wants, and the rest goes to the others. A queue with a ``least`` gets
    at least that, wanted or not."""
    fixed: Amounts = {}
    while True:
        open_ = {name: amount for name, amount in wanted.items() if name not in fixed}
        parts = _by_weight(max(0, total - sum(fixed.values())), open_, weights)
        short = {name: amount for name, amount in (least or {}).items() if name in open_}
        short = {name: amount for name, amount in short.items() if parts.get(name, 0) < amount}
        if not short:
            return parts | fixed
        fixed |= short  # these fall short, and would get no more once less is left for the others


def _by_weight(total: int, wanted: Mapping[str, int], weights: Mapping[str, int]) -> Amounts:
    parts: Amounts = {}
    open_ = {name for name, amount in wanted.items() if amount > 0}
    left = total
    while open_:
        weight = sum(weights[name] for name in open_)
        content = {name for name in open_ if wanted[name] * weight <= left * weights[name]}
        if not content:
            return parts | {name: left * weights[name] // weight for name in open_}
        parts.update((name, wanted[name]) for name in content)
        left -= sum(wanted[name] for name in content)
        open_ -= content
    return parts


def told(amount: int, resource: str) -> str:
    """An amount in the form that people write."""
    whole = amount % _ONE == 0
    if whole and resource.partition(OF_CLASS)[0] in ("memory", "ephemeral-storage"):
        return str(Quantity.of(amount // _ONE, Format.BINARY_SI))
    return str(Quantity.of(amount // _ONE)) if whole else str(Quantity.parse(f"{amount}n"))


def add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def _nonzero(given: Amounts) -> Amounts:
    return {name: amount for name, amount in given.items() if amount}
