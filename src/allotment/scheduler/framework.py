"""The extension points of a scheduling cycle, in Kubernetes' words, and the status that a plugin answers with.

The order: PreEnqueue → queue → PreFilter → Filter (per node) → PostFilter → Score → Reserve → Permit → PreBind → Bind. After a
failure past Reserve, Unreserve of every plugin runs in reverse order.

**Why it is fast.** Most decisions about a node are *local*: they follow from what the pod asks for (its shape) and from the state
of that one node. The ``index`` remembers such verdicts and scores per shape and node until the node changes. Only plugins that
look at other nodes (spreading, neighbours) run anew in each cycle.

**No plugin waits and none does I/O.** PreBind answers with steps as data; the binding stage carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.binding.step import Step
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo


class StatusCode(Enum):
    """What a status requires the scheduler to do."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"  # try again when an event that can help arrives; preemption may help
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # as above, but preemption cannot help
    WAIT = "Wait"  # PreFilter and Permit: another component's write decides soon; the condition says so only if that takes long
    SKIP = "Skip"  # PreFilter and PreScore only: the plugin has nothing to say about this pod
    ERROR = "Error"  # something is broken: back off, and log it


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer. ``words`` completes the sentence "3 nodes …" in Filter ("have every gpu in use", "do not match
    the pod's node selector": a plural verb first), and is a sentence of its own elsewhere. It holds counts, never names of
    other users' objects.

    A rejection by Filter is ``lasting`` if it holds until the node itself or its devices change, whatever runs there and
    whatever is in use. The scheduler does not ask about the node again before then.

    A rejection by PreEnqueue ``awaits`` a kind if the pod waits for a controller to make an object of that kind. While
    objects of the kind keep appearing, the pod's own may be next, so the condition does not mention it yet."""

    code: StatusCode = StatusCode.SUCCESS
    plugin: str = ""
    words: str = ""
    lasting: bool = field(default=False, repr=False, compare=False)
    awaits: type[ApiStruct] | None = field(default=None, repr=False, compare=False)
    ok: bool = field(init=False, repr=False, compare=False)  # stored, because it is read so often

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.code is StatusCode.SUCCESS)

    def __hash__(self) -> int:
        """Hashes the words alone, whose hash Python caches: rejections are counted by status, node by node."""
        return hash(self.words)

    @property
    def rejected(self) -> bool:
        return self.code in (StatusCode.UNSCHEDULABLE, StatusCode.UNRESOLVABLE)


SUCCESS = Status()
SKIP = Status(StatusCode.SKIP)

MAX_SCORE = 100


@dataclass(slots=True)
class Cycle:
    """One attempt to place one pod, or the representative of a shape for which local verdicts are kept.

    ``state`` belongs to the plugins, each under its name: PreFilter writes what Filter, Score and Reserve read.
    """

    pod: PodInfo
    cluster: Cluster
    now: float
    state: dict[str, Any] = field(default_factory=dict)
    names: frozenset[str] | None = None  # only these nodes; None: any
    # for PostFilter: the verdict of all filters on a node now
    judge: Callable[[NodeInfo], int | Status] | None = None

    def restrict(self, names: frozenset[str]) -> None:
        """Restricts the cycle to these nodes. Further calls narrow it further."""
        self.names = names if self.names is None else self.names & names


class ObjectAction(Enum):
    """A change of an object that can make pods schedulable."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Wake:
    """An event that may help pods that a plugin rejected: changes of objects of ``kind`` (the struct's type)."""

    kind: type[ApiStruct]
    actions: frozenset[ObjectAction]


@runtime_checkable
class Plugin(Protocol):
    """Every plugin has a name, as in Kubernetes, and declares which events may help the pods that it rejected."""

    name: str
    wakes: Sequence[Wake]

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """Whether a change, of a kind named in ``wakes``, may help this pod. True when in doubt. ``new`` is None for a pod that
        was deleted or has finished."""
        ...


@runtime_checkable
class HelpsAnyone(Protocol):
    """A quick test before any ``helps``: whether a change can help any pod at all."""

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool: ...


@runtime_checkable
class Concerns(Protocol):
    """A plugin with gates that knows which pods a change can admit, so that the queue need not ask about all."""

    def concerns(
        self, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster
    ) -> Iterable[str] | None:
        """Keys of the pods; None: any pod."""
        ...

    def helps_others(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        """Whether a change may also help rejected pods that it does not concern."""
        ...


@runtime_checkable
class PreEnqueue(Protocol):
    """May keep a pod out of the queue until something changes."""

    def pre_enqueue(self, pod: PodInfo, cluster: Cluster) -> Status: ...


@runtime_checkable
class PreFilter(Protocol):
    """Prepares ``cycle.state``. SKIP: this plugin's Filter need not run for this pod. A rejection ends the attempt."""

    def pre_filter(self, cycle: Cycle) -> Status: ...


@runtime_checkable
class Shaping(Protocol):
    """A local plugin that may judge pods with equal specs differently. Its PreFilter runs for each pod, before the scheduler
    looks up what it knows about the pod's shape."""

    def pre_filter(self, cycle: Cycle) -> Status: ...

    def shape(self, cycle: Cycle) -> Hashable:
        """Equal for pods that Filter and Score cannot tell apart, after PreFilter."""
        ...


@runtime_checkable
class Indifferent(Protocol):
    """A quick test before PreFilter and PreScore of a plugin that is not local."""

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        """True if both would answer SKIP."""
        ...


@runtime_checkable
class Filter(Protocol):
    """Whether the pod can run on a node. ``local``: see the module's docstring."""

    local: bool

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status: ...


@runtime_checkable
class KeepsRoom(Protocol):
    """A local filter that keeps nodes for the pods that they were cleared for. The scheduler leaves it out when it judges such
    a pod on its own node."""

    keeps_room: bool


@runtime_checkable
class StandsForUnasked(Protocol):
    """A plugin that counts as the one that rejected a pod on nodes which no filter was asked about. Its ``wakes`` cover new
    nodes, and claims that become usable elsewhere."""

    stands_for_unasked: bool


Sight = Callable[["NodeInfo"], Hashable]
"""What plugins read of a node. Nodes with equal values are alike; a node with None is like no other."""


@runtime_checkable
class Sees(Protocol):
    """A local plugin that reads so little of a node that many nodes look alike; the scheduler judges those once."""

    def sees(self, cycle: Cycle) -> Sight | None:
        """What Filter and Score read of a node for pods of this shape, after PreFilter; None if that is too much to compare."""
        ...


@runtime_checkable
class PostFilter(Protocol):
    """Makes room when no node fits. The scheduler follows the first plugin that can help. A plugin that cannot help returns None,
    or ``Protected`` if it knows what prevents it; then the scheduler asks the next."""

    def post_filter(
        self, cycle: Cycle, rejections: Mapping[str, Status]
    ) -> Room | Release | Protected | None: ...


@dataclass(frozen=True, slots=True)
class Room:
    """There will be room on ``node`` once ``victims`` are gone. Without ``victims``, earlier evictions are still making the
    room."""

    node: str
    victims: tuple[PodInfo, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Release:
    """There may be room once the scheduler releases claims of the pod that no other pod uses and that keep it off every node.
    It removes their allocation, reservations and device statuses, and deletes the claims that were made for extended
    resources."""

    claims: tuple[str, ...]  # namespace/name
    words: str


@dataclass(frozen=True, slots=True)
class Protected:
    """There would be room if pods left that may not be evicted. ``words`` is a sentence for the pod's condition."""

    words: str


@runtime_checkable
class Score(Protocol):
    """How good a node is, from 0 to ``MAX_SCORE``. ``local``: see the module's docstring; a local score needs no normalising."""

    local: bool

    def score(self, cycle: Cycle, node: NodeInfo) -> int: ...


@runtime_checkable
class PreScore(Protocol):
    """Prepares scores that are not local, over the nodes that passed. On SKIP, the score does not run. The scheduler first calls
    it without nodes: a pod for which every such plugin answers SKIP takes the fast path."""

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo]) -> Status: ...


@runtime_checkable
class Normalize(Protocol):
    """Brings scores that are not local into the range, in place."""

    def normalize(self, cycle: Cycle, scores: dict[str, int]) -> None: ...


@runtime_checkable
class Reserve(Protocol):
    """Takes what the pod needs on the chosen node, in memory, so that the next pod does not see it as free."""

    def reserve(self, cycle: Cycle, node: NodeInfo) -> Status: ...

    def unreserve(self, cycle: Cycle, node: NodeInfo) -> None:
        """Gives back what ``reserve`` took. It is safe to call if nothing was taken."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """Lists what must be written before the pod is bound, as steps (``step``)."""

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> Sequence[Step]: ...
