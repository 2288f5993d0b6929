"""The entries that wait to be placed, and when it is worth trying them.

An *entry* is a pod or a whole gang. It is in exactly one place:

* **active**: ready; the highest priority first, then the namespace whose pods cost least so far (``fair_order``), then the entry
  that has waited longest; *lanes* (Volcano's queues) take turns;
* **backoff**: ready again after a delay that doubles with each failed attempt;
* **parked**: rejected by plugins, until an event arrives that can help;
* **gated**: not tried until the ``gate`` admits it (PreEnqueue);
* **taken**: popped, and its result not yet reported.

Entries that ask for the same thing (equal shape) are parked together. When an event can help them, the queue sends one as a
*scout*: the one that would be tried first anyway. If the scout is placed, the next one follows; if it is rejected, the others
stay parked. So ten thousand equal pods that do not fit cost one attempt per event, not ten thousand. If all nodes rejected them
*for good* (``Status.lasting``), pods and claims that come and go cost nothing: such a change helps only the pod itself or the
pods of the claim.

A decision that needs more steps than one turn allows is *paused* (``pause``). It continues in a later turn, from the slow lane.
From then on, all entries that ask for the same use the slow lane too, until one of them is decided within a turn. While others
wait, the slow lane gets half of the steps: an expensive pod delays a simple one by one slice, and ten thousand simple pods cannot
starve an expensive one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeVar

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.scheduler.fair_order import FairOrder
from allotment.scheduler.framework import Concerns, HelpsAnyone, ObjectAction, Plugin

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Status
    from allotment.scheduler.gate import Gate
    from allotment.scheduler.pod import PodInfo

Rank = tuple[int, float, int, str]
"""The lowest rank is tried first: the negated priority, the time of arrival, a unique number, and the key."""

REVISIT_SECONDS = 300.0
"""The queue tries parked entries again after this time even if no event seems to help: a plugin may have missed one."""

ACTIVE, BACKOFF, PARKED, GATED, TAKEN = "active", "backoff", "parked", "gated", "taken"
PLACES = (ACTIVE, BACKOFF, PARKED, GATED)

_COSTS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class QueueBackoff:
    """How long an entry rests after its n-th failed attempt, in seconds. The rest is short for a rejected entry, which is tried
    again only after an event that can help. It is longer for an entry that failed for no reason of its own."""

    initial: float = 0.1
    turned_away: float = 1.0  # at most
    failed: float = 10.0  # at most

    def after(self, entry: QueueEntry) -> float:
        longest = self.turned_away if entry.plugins else self.failed
        return float(min(self.initial * 2 ** min(entry.attempts - 1, 30), longest)) if entry.attempts else 0.0


@dataclass(slots=True)
class QueueEntry:
    """A pod, or the pods of a gang, as the queue sees them."""

    key: str
    priority: int
    pods: tuple[PodInfo, ...]
    since: float  # when it arrived
    place: str = ACTIVE
    attempts: int = 0
    tried: float = 0.0  # time of the last attempt
    shape: Hashable = None  # equal for entries that are parked together
    plugins: frozenset[str] = frozenset()  # which plugins rejected it
    lasting: bool = False  # they rejected it for good, as long as nodes and devices do not change
    ready: float = 0.0  # when its backoff ends
    lane: str = ""  # the lane it belongs to; lanes take turns
    slow: bool = False  # it is in the slow lane
    paused: bool = False  # its decision continues in another turn
    spent: int = 0  # steps that the decision took so far
    again: int = 0  # how many of the latest steps must be repeated
    rank: Rank = (0, 0.0, 0, "")

    @property
    def tenant(self) -> str:
        """The tenant that is charged for decisions about the entry."""
        return self.pods[0].namespace

    @property
    def kind(self) -> Hashable:
        """Equal for entries whose decisions are expected to cost the same."""
        return self.pods[0].asks, self.key if self.pods[0].key != self.key else ""


@dataclass(slots=True)
class _ParkedShape:
    """Parked entries of one shape."""

    entries: dict[str, QueueEntry] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    lasting: bool = False
    scout: str = ""  # the entry of this shape that was sent to be tried
    order: list[Rank] = field(default_factory=list)  # a heap, which may hold entries that are gone

    def add(self, entry: QueueEntry) -> None:
        self.entries[entry.key] = entry
        self.plugins, self.lasting = entry.plugins, entry.lasting
        heappush(self.order, entry.rank)

    def first(self) -> QueueEntry | None:
        """The entry that would be tried first."""
        while self.order:
            entry = self.entries.get(self.order[0][-1])
            if entry is not None and entry.rank == self.order[0]:
                return entry
            heappop(self.order)
        return None


K = TypeVar("K")
V = TypeVar("V")


def _forget(those: dict[str, dict[K, V]], plugin: str, key: K) -> None:
    """Removes a key, and its collection if that is then empty."""
    mine = those.get(plugin)
    if mine is not None and key in mine:
        del mine[key]
        if not mine:
            del those[plugin]


_Happening = tuple["type[ApiStruct]", bool, bool]
"""A kind, whether an object of it appeared, and whether it was deleted; neither means that it changed."""


@dataclass(frozen=True, slots=True)
class _Interest:
    """A plugin that a change may concern, and the quick tests that it offers."""

    plugin: Plugin
    picky: HelpsAnyone | None
    precise: Concerns | None


class SchedulingQueue:
    """Holds the waiting entries and decides which is tried next. ``plugins`` are all plugins of all profiles, by name."""

    def __init__(
        self, clock: Clock, plugins: Iterable[Plugin], gate: Gate, backoff: QueueBackoff | None = None
    ) -> None:
        self._clock = clock
        self.gate = gate
        self.plugins = {plugin.name: plugin for plugin in plugins}
        self._backoff = backoff or QueueBackoff()
        self._entries: dict[str, QueueEntry] = {}
        self._active = FairOrder(lambda rank: self._ready(rank, slow=False))
        self._slow = FairOrder(lambda rank: self._ready(rank, slow=True))
        self._costly: dict[Hashable, None] = {}  # kinds of entries that took more than one turn last time
        self._steps = {False: 0, True: 0}  # the cost of decisions, by whether they came from the slow lane
        self._lanes: dict[str, list[Rank]] = {}  # the same for entries in lanes
        self.turn: Callable[[str], tuple[float, ...]] = lambda lane: ()
        self._resting: list[tuple[float, str]] = []
        self._buckets: dict[Hashable, _ParkedShape] = {}
        self._gated: dict[str, dict[str, QueueEntry]] = {}  # by the plugin whose gate it is
        self._numbers = 0
        self._failures: dict[str, int] = {}  # entry → failed bindings, also of entries not in the queue
        # plugin → shapes without a scout that it rejected, and others
        self._blamed: dict[str, dict[Hashable, None]] = {}
        self._lasting: dict[str, dict[Hashable, None]] = {}  # the same for shapes rejected for good
        self._gangs: dict[Hashable, None] = {}  # shapes with entries of several pods, perhaps gone since
        self._interested: dict[_Happening, dict[str, _Interest]] = {}
        for plugin in self.plugins.values():
            interest = _Interest(
                plugin,
                plugin if isinstance(plugin, HelpsAnyone) else None,
                plugin if isinstance(plugin, Concerns) else None,
            )
            for wake in plugin.wakes:
                for action in wake.actions:
                    happening = (wake.kind, action is ObjectAction.ADD, action is ObjectAction.DELETE)
                    self._interested.setdefault(happening, {})[plugin.name] = interest

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> QueueEntry | None:
        return self._entries.get(key)

    def counts(self) -> dict[str, int]:
        """How many entries are in each place."""
        counts = dict.fromkeys(PLACES, 0)
        for entry in self._entries.values():
            if entry.place in counts:
                counts[entry.place] += 1
        return counts

    # --- coming and going ---

    def add(
        self,
        key: str,
        priority: int,
        pods: tuple[PodInfo, ...],
        *,
        lane: str = "",
        gate: str = "",
    ) -> QueueEntry:
        """Adds a new entry, which is ready to be tried or waits at the gate of a plugin. Among entries of equal priority in
        lanes, the lane with the lowest ``turn`` is served first."""
        assert key not in self._entries, f"{key} is queued already"
        self._numbers += 1
        now = self._clock.now
        entry = QueueEntry(key, priority, pods, now, lane=lane, rank=(-priority, now, self._numbers, key))
        self._entries[key] = entry
        if gate:
            self._shut(entry, gate)
        else:
            self._activate(entry)
        return entry

    def remove(self, key: str) -> None:
        """Removes an entry that was placed or deleted. If it was a scout, the next one of its shape follows."""
        self.gate.forget(key)
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._leave(entry)
        self._relieve(entry)

    # --- the gate ---

    def shut(self, key: str, status: Status) -> None:
        """Keeps an entry from being tried until an event can help pods that the status's plugin rejected. The pod's condition
        says why if that takes long."""
        entry = self._entries[key]
        if entry.place != GATED or status.plugin not in entry.plugins:
            self._leave(entry)
            self._shut(entry, status.plugin)
            self._relieve(entry)
        self.gate.say_later(key, status)

    def overdue(self) -> Iterator[tuple[str, Status]]:
        """The keys of entries whose condition must now say why they wait."""
        return self.gate.overdue(self._entries)

    def _shut(self, entry: QueueEntry, plugin: str) -> None:
        entry.place, entry.plugins = GATED, frozenset((plugin,))
        self._gated.setdefault(plugin, {})[entry.key] = entry

    def open(self, key: str) -> None:
        """Admits an entry; a backoff still applies."""
        self.gate.forget(key)
        self._open(self._entries[key])

    def _open(self, entry: QueueEntry) -> None:
        if entry.place == GATED:
            self._leave(entry)
            if entry.attempts:
                self._rest(entry, entry.tried + self._backoff.after(entry))
            else:
                self._activate(entry)

    def activate(self, key: str) -> None:
        """Makes an entry be tried soon, wherever it is; a backoff still applies."""
        entry = self._entries[key]
        if entry.place == PARKED:
            bucket = self._buckets[entry.shape]
            bucket.scout = bucket.scout or key
            self._unpark(entry)
        elif entry.place == GATED:
            self._open(entry)

    # --- trying ---

    def pop(self) -> QueueEntry | None:
        """Returns the entry to try next. The caller must report the result with ``remove``, ``park``, ``shut`` or ``pause``."""
        self._wake_rested()
        entry, slow = self._first_quick(), self._slow.first()
        if entry is None or slow is None:  # an idle lane saves up no steps for later
            self._steps = dict.fromkeys(self._steps, max(self._steps.values()))
        if slow is not None and (entry is None or self._steps[True] <= self._steps[False]):
            entry = slow
        if entry is not None:
            entry.place = TAKEN
        return entry

    def _first_quick(self) -> QueueEntry | None:
        """The first entry that is not for the slow lane. Entries of a kind known to be slow move there."""
        while True:
            entry = self._active.first()
            if self._lanes:
                entry = self._whose_turn(entry)
            if entry is None or not self._is_costly(entry):
                return entry
            self._activate(entry)

    def pause(self, key: str) -> None:
        """Pauses an entry whose decision ran out of steps for this turn. It continues in another turn."""
        entry = self._entries[key]
        entry.paused = True
        self._costly.pop(entry.kind, None)
        self._costly[entry.kind] = None
        if len(self._costly) > _COSTS_KEPT:
            del self._costly[next(iter(self._costly))]
        self._activate(entry)

    def charge(self, entry: QueueEntry, steps: int, *, done: bool) -> None:
        """Charges an entry for the steps taken since it was popped. ``done`` means that it is decided."""
        self._steps[entry.slow] += steps
        if entry.slow or not entry.lane:
            (self._slow if entry.slow else self._active).charge(entry.tenant, steps)
        entry.spent += steps
        if done:
            if not entry.paused and self._costly:
                self._costly.pop(entry.kind, None)
            entry.paused, entry.spent, entry.again = False, 0, 0

    def _is_costly(self, entry: QueueEntry) -> bool:
        return bool(self._costly) and entry.kind in self._costly  # mostly there are none

    def _ready(self, rank: Rank, *, slow: bool) -> QueueEntry | None:
        entry = self._entries.get(rank[-1])
        active = entry is not None and entry.place == ACTIVE and entry.rank == rank and entry.slow == slow
        return entry if active else None

    def _first(self, heap: list[Rank]) -> QueueEntry | None:
        """The first active entry of a heap."""
        while heap:
            entry = self._ready(heap[0], slow=False)
            if entry is not None:
                return entry
            heappop(heap)
        return None

    def _whose_turn(self, other: QueueEntry | None) -> QueueEntry | None:
        """The entry to try next if there are lanes. ``other`` is the first entry outside all lanes."""
        firsts = {
            lane: first for lane, heap in self._lanes.items() if (first := self._first(heap)) is not None
        }
        self._lanes = {lane: self._lanes[lane] for lane in firsts}
        first = min(firsts.values(), key=lambda entry: entry.rank, default=None)
        if first is None or (other is not None and other.rank < first.rank):
            return other
        rivals = [entry for entry in firsts.values() if entry.priority == first.priority]
        return (
            first if len(rivals) == 1 else min(rivals, key=lambda entry: (self.turn(entry.lane), entry.rank))
        )

    def park(self, key: str, shape: Hashable, plugins: Collection[str], *, lasting: bool = False) -> None:
        """Parks an entry whose attempt failed. If no plugin is to blame (an error, or a failed write), it rests and is tried
        again. If it failed for good, only changes of nodes and devices help it, and changes that concern the entry itself."""
        entry, now = self._entries[key], self._clock.now
        self._leave(entry)
        entry.attempts += 1
        entry.tried = now
        entry.plugins, entry.lasting = frozenset(plugins), lasting
        if not plugins:
            self._rest(entry, now + self._backoff.after(entry))
            return
        if entry.shape != shape:
            self._relieve(entry)  # its result is about another shape than the one it was sent for
        bucket = self._buckets.setdefault(shape, _ParkedShape())
        if bucket.scout == key:
            bucket.scout = ""
        entry.place, entry.shape = PARKED, shape
        bucket.add(entry)
        for plugin in entry.plugins:
            now_in, no_more_in = (self._lasting, self._blamed) if lasting else (self._blamed, self._lasting)
            now_in.setdefault(plugin, {})[shape] = None
            _forget(no_more_in, plugin, shape)
        if entry.pods[0].key != key:
            self._gangs[shape] = None

    # --- bindings that failed ---

    def failed(self, key: str) -> None:
        """Notes that the binding of an entry failed, whether or not the entry is back in the queue. It is tried again after a
        delay that grows each time."""
        self._failures[key] = self._failures.get(key, 0) + 1
        entry = self._entries.get(key)
        if entry is not None and entry.place != GATED:
            self.rest(key)

    def rest(self, key: str) -> None:
        """Makes an entry wait for the delay of its failed bindings."""
        failures = self._failures.get(key)
        if failures is not None:
            self._entries[key].attempts = failures - 1
            self.park(key, None, ())

    def forgive(self, key: str) -> None:
        """Forgets the failed bindings of an entry."""
        self._failures.pop(key, None)

    # --- time ---

    def next_time(self) -> float | None:
        """When ``pop`` or ``overdue`` may return something new because of time alone."""
        times = (self._next_rested(), self.gate.next_time())
        return min((time for time in times if time is not None), default=None)

    def _next_rested(self) -> float | None:
        while self._resting:
            ready, key = self._resting[0]
            entry = self._entries.get(key)
            if entry is not None and entry.place == BACKOFF and entry.ready == ready:
                return ready
            heappop(self._resting)
        return None

    # --- events ---

    def concerns(self, shown: ApiStruct, cluster: Cluster) -> bool:
        """Whether a change of this object may help any waiting entry. A pod or claim helps an entry that was rejected for good
        only if it is the entry's own."""
        if self._gated or self._blamed:
            return True
        if not self._lasting or not isinstance(shown, (Pod, ResourceClaim)):
            return bool(self._lasting)
        return self._concerns_lasting(shown, cluster)

    def wake(self, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> list[QueueEntry]:
        """Sends scouts to the shapes that a change can help. Returns the gated entries that it may help."""
        shown = new if new is not None else old
        assert shown is not None
        interested = self._interested.get((type(shown), old is None, new is None))
        if not interested:
            return []
        helpful: dict[str, _Interest] = {}
        for turned_away in self._whom(shown, cluster):
            for name, those in turned_away.items():
                each = interested.get(name) if those and name not in helpful else None
                if each is not None and (each.picky is None or each.picky.helps_anyone(old, new)):
                    helpful[name] = each
        return self._woken(helpful, old, new, cluster) if helpful else []

    def _whom(self, shown: ApiStruct, cluster: Cluster) -> tuple[Mapping[str, Collection[Hashable]], ...]:
        """The entries that a change may help. Of entries rejected for good, a pod or a claim helps only those that it
        concerns."""
        if isinstance(shown, (Pod, ResourceClaim)) and not (
            self._lasting and self._concerns_lasting(shown, cluster)
        ):
            return self._gated, self._blamed
        return self._gated, self._blamed, self._lasting

    def _concerns_lasting(self, shown: Pod | ResourceClaim, cluster: Cluster) -> bool:
        meta = shown.metadata
        key = f"{meta.namespace}/{meta.name}"
        if isinstance(shown, Pod):
            return self._is_lasting(key)
        for user in cluster.users.get(key, ()):
            if self._is_lasting(user):
                return True
        for owner in meta.owner_references:
            if owner.kind == "Pod" and self._is_lasting(f"{meta.namespace}/{owner.name}"):
                return True
        return False

    def _is_lasting(self, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.lasting and entry.place == PARKED

    def _woken(
        self,
        helpful: Mapping[str, _Interest],
        old: ApiStruct | None,
        new: ApiStruct | None,
        cluster: Cluster,
    ) -> list[QueueEntry]:
        """Like ``wake``, for a change that may help pods that these plugins rejected."""

        def helps(entry: QueueEntry) -> bool:
            return any(
                each.plugin.helps(pod, old, new, cluster)
                for name, each in helpful.items()
                if name in entry.plugins
                for pod in entry.pods
            )

        found: dict[str, QueueEntry] = {}
        for name, each in helpful.items():
            precise = each.precise
            keys = None if precise is None else precise.concerns(old, new, cluster)
            mine = self._gated.get(name, {})
            if keys is None:
                found.update({key: entry for key, entry in mine.items() if helps(entry)})
            else:
                found.update({key: mine[key] for key in sorted(keys) if key in mine})
            if name not in self._blamed and name not in self._lasting:
                continue
            narrow = keys is not None and precise is not None and not precise.helps_others(old, new)
            for bucket in self._turned_away(name, self._may_help(name, old, new, keys, narrow=narrow)):
                first = bucket.first()
                if first is not None and helps(first):
                    self._send_scout(bucket)
        return list(found.values())

    def _may_help(
        self,
        plugin: str,
        old: ApiStruct | None,
        new: ApiStruct | None,
        keys: Iterable[str] | None,
        *,
        narrow: bool,
    ) -> dict[Hashable, None]:
        """The shapes rejected by a plugin that a change may help. With ``narrow``, these are the shapes of the pods with these
        keys, and gangs. Otherwise they include the shapes that were not rejected for good, or all shapes if nodes or devices
        changed."""
        blamed, lasting = self._blamed.get(plugin, {}), self._lasting.get(plugin, {})
        changed = new if new is not None else old
        if not narrow and not isinstance(changed, (Pod, ResourceClaim)):
            return blamed | lasting
        own = keys if keys is not None else ()
        if isinstance(changed, Pod):
            own = (f"{changed.metadata.namespace}/{changed.metadata.name}",)
        entries = [self._entries[key] for key in sorted(own) if key in self._entries]
        concerned = dict.fromkeys(each.shape for each in entries if each.place == PARKED)
        if narrow:
            return concerned | self._gangs
        return blamed | concerned if concerned else blamed

    def _turned_away(self, plugin: str, shapes: Collection[Hashable]) -> list[_ParkedShape]:
        """The buckets of these shapes that a plugin rejected and that have no scout."""
        found, gone = [], []
        for shape in shapes:
            bucket = self._buckets.get(shape)
            if bucket is not None and plugin in bucket.plugins and not bucket.scout:
                found.append(bucket)
            else:  # a shape with a scout under way gets a plugin to blame again if the scout is rejected
                gone.append(shape)
        for shape in gone:
            _forget(self._blamed, plugin, shape)
            _forget(self._lasting, plugin, shape)
            if shape not in self._buckets:
                self._gangs.pop(shape, None)
        return found

    def revisit(self) -> None:
        """Sends scouts of buckets that no event has woken for long."""
        for bucket in list(self._buckets.values()):
            first = bucket.first()
            if first is not None and not bucket.scout and self._clock.now - first.tried >= REVISIT_SECONDS:
                self._send_scout(bucket)

    # --- places ---

    def _send_scout(self, bucket: _ParkedShape) -> None:
        entry = bucket.first()
        if entry is not None:
            bucket.scout = entry.key
            self._unpark(entry)

    def _unpark(self, entry: QueueEntry) -> None:
        bucket = self._buckets[entry.shape]
        bucket.entries.pop(entry.key, None)
        self._rest(entry, entry.tried + self._backoff.after(entry))

    def _leave(self, entry: QueueEntry) -> None:
        if entry.place == PARKED:
            bucket = self._buckets[entry.shape]
            bucket.entries.pop(entry.key, None)
            if not bucket.entries and not bucket.scout:
                del self._buckets[entry.shape]
        elif entry.place == GATED:
            for plugin in entry.plugins:
                _forget(self._gated, plugin, entry.key)

    def _relieve(self, entry: QueueEntry) -> None:
        """If an entry was the scout of its shape, the next one follows."""
        bucket = self._buckets.get(entry.shape)
        if bucket is not None and bucket.scout == entry.key:
            bucket.scout = ""
            self._send_scout(bucket)
            if not bucket.scout:
                del self._buckets[entry.shape]
        entry.shape = None

    def _activate(self, entry: QueueEntry) -> None:
        entry.place, entry.slow = ACTIVE, self._is_costly(entry)
        if entry.slow:
            self._slow.add(entry.tenant, entry.rank)
        elif entry.lane:
            heappush(self._lanes.setdefault(entry.lane, []), entry.rank)
        else:
            self._active.add(entry.tenant, entry.rank)

    def _rest(self, entry: QueueEntry, ready: float) -> None:
        entry.place, entry.ready = BACKOFF, ready
        heappush(self._resting, (ready, entry.key))

    def _wake_rested(self) -> None:
        now = self._clock.now
        while (ready := self._next_rested()) is not None and ready <= now:
            self._activate(self._entries[heappop(self._resting)[1]])

    def validate(self) -> None:
        """Raises AssertionError where an entry is not in exactly one place."""
        parked = [key for bucket in self._buckets.values() for key in bucket.entries]
        assert len(parked) == len(set(parked)), "an entry is parked twice"
        active = {rank for heap in self._lanes.values() for rank in heap}
        active |= self._active.ranks() | self._slow.ranks()
        resting = {key for _, key in self._resting}
        gated = {key for entries in self._gated.values() for key in entries}
        for key, entry in self._entries.items():
            assert (key in parked) == (entry.place == PARKED), f"{key}: parked?"
            assert (key in gated) == (entry.place == GATED), f"{key}: gated?"
            assert entry.place != ACTIVE or entry.rank in active, f"{key}: not among the active"
            assert entry.place != BACKOFF or key in resting, f"{key}: not among those that rest"
        for shape, bucket in self._buckets.items():
            waked = self._lasting if bucket.lasting else self._blamed
            for plugin in bucket.plugins if bucket.entries and not bucket.scout else ():
                assert shape in waked[plugin], f"nobody wakes {shape!r} for {plugin}"
            assert bucket.entries or bucket.scout, f"an empty bucket for {shape!r}"
            if bucket.scout:
                assert bucket.scout in self._entries, "a scout that is gone"
                scout = self._entries[bucket.scout]
                assert scout.shape == shape, f"{scout.key}: a scout of another shape"
                assert scout.place in (ACTIVE, BACKOFF, TAKEN), f"{scout.key}: a scout that is {scout.place}"
