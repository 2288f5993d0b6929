"""The extension points of a scheduling cycle, in Kubernetes' words, and the status that a plugin answers with.

The order: PreEnqueue → queue → PreFilter → Filter (per node) → PostFilter → Score → Reserve → Permit → PreBind → Bind. After a
failure behind Reserve, Unreserve of every plugin runs in reverse order.

**Why it is fast.** Most of what decides about a node is *local*: it follows from what the pod asks for (its shape) and from
the state of that one node. Such verdicts and scores are remembered per shape and node until the node changes (``index``).
Only plugins that look at other nodes (spreading, neighbours) are asked anew in each cycle.

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
    """What a status obliges the scheduler to do."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"  # try again when an event that can help arrives; preemption may help
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # as above, but preemption cannot help
    WAIT = (
        "Wait"  # PreFilter and Permit: somebody else's write decides soon; people are told only if that lasts
    )
    SKIP = "Skip"  # PreFilter and PreScore only: the plugin has nothing to say about this pod
    ERROR = "Error"  # something is broken: back off, and log it


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer. ``words`` completes the sentence "3 nodes …" in Filter ("have every gpu in use", "do not match
    the pod's node selector": a plural verb first), and is a sentence of its own elsewhere. It holds counts, never names of
    other people's objects.

    A rejection by Filter is ``lasting`` if it holds as long as the node itself and its devices are what they are, whatever
    runs there and whatever is in use: the node is not asked about again before one of them changes.

    One by PreEnqueue ``awaits`` a kind if the pod waits for an object of it that somebody makes: while others of the kind keep
    coming, the turn of this one may come too, and people are not told yet."""

    code: StatusCode = StatusCode.SUCCESS
    plugin: str = ""
    words: str = ""
    lasting: bool = field(default=False, repr=False, compare=False)
    awaits: type[ApiStruct] | None = field(default=None, repr=False, compare=False)
    ok: bool = field(init=False, repr=False, compare=False)  # kept, since it is asked so often

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.code is StatusCode.SUCCESS)

    def __hash__(self) -> int:
        """Of the words alone, which remember theirs: rejections are counted by status, node by node."""
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
    # for PostFilter: what all filters say of a node now
    judge: Callable[[NodeInfo], int | Status] | None = None

    def restrict(self, names: frozenset[str]) -> None:
        """Leaves only these nodes. Several restrictions all count."""
        self.names = names if self.names is None else self.names & names


class ObjectAction(Enum):
    """What happened to an object, as far as it can make pods schedulable."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Wake:
    """An event that may help pods that a plugin turned away: changes of objects of ``kind`` (the struct's type)."""

    kind: type[ApiStruct]
    actions: frozenset[ObjectAction]


@runtime_checkable
class Plugin(Protocol):
    """Every plugin has a name, as in Kubernetes, and says which events may help the pods that it turned away."""

    name: str
    wakes: Sequence[Wake]

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """Whether a change, of a kind named in ``wakes``, may help this pod. True when in doubt. A pod that finished
        is gone: ``new`` is None."""
        ...


@runtime_checkable
class HelpsAnyone(Protocol):
    """A quick test before any ``helps``: whether a change can help any pod at all."""

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool: ...


@runtime_checkable
class Concerns(Protocol):
    """A plugin with gates that knows which pods a change can let in, so that not all have to be asked."""

    def concerns(
        self, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster
    ) -> Iterable[str] | None:
        """Keys of the pods; None: any pod."""
        ...

    def helps_others(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        """Whether a change may also help pods that were turned away and that it does not concern."""
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
    """A local plugin by which pods with equal specs may differ. Its PreFilter is asked about each pod, before what is known of
    pods alike is looked up."""

    def pre_filter(self, cycle: Cycle) -> Status: ...

    def shape(self, cycle: Cycle) -> Hashable:
        """Equal for pods that Filter and Score cannot tell apart, after PreFilter."""
        ...


@runtime_checkable
class Indifferent(Protocol):
    """A quick test before PreFilter and PreScore of a plugin that is not local."""

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        """True: both say SKIP."""
        ...


@runtime_checkable
class Filter(Protocol):
    """Whether the pod can run on a node. ``local``: see the module."""

    local: bool

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status: ...


Sight = Callable[["NodeInfo"], Hashable]
"""What can be seen of a node: nodes of which it is equal are alike. None: such a node is like no other."""


@runtime_checkable
class Sees(Protocol):
    """A local plugin that reads little enough of a node for many nodes to look alike: they are judged once."""

    def sees(self, cycle: Cycle) -> Sight | None:
        """What its Filter and its Score read of a node for pods of this shape, after PreFilter; None: too much."""
        ...


@runtime_checkable
class PostFilter(Protocol):
    """Makes room, when no node fits. Returns None where it cannot help; the first plugin that can is followed. One that knows
    what keeps it from helping returns that, and the next is asked."""

    def post_filter(
        self, cycle: Cycle, rejections: Mapping[str, Status]
    ) -> Room | Release | Protected | None: ...


@dataclass(frozen=True, slots=True)
class Room:
    """There will be room on ``node`` once ``victims`` are gone; with none of them, once those are that were evicted before."""

    node: str
    victims: tuple[PodInfo, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Release:
    """There may be room once the pod's own claims are given back that keep it from every node and that nobody else uses:
    take their allocation, reservations and device statuses away; delete those that were made for extended resources."""

    claims: tuple[str, ...]  # namespace/name
    words: str


@dataclass(frozen=True, slots=True)
class Protected:
    """There would be room if others went who may not be made to go; ``words`` are a sentence for the pod."""

    words: str


@runtime_checkable
class Score(Protocol):
    """How good a node is, from 0 to ``MAX_SCORE``. ``local``: see the module; a local score needs no normalising."""

    local: bool

    def score(self, cycle: Cycle, node: NodeInfo) -> int: ...


@runtime_checkable
class PreScore(Protocol):
    """Prepares scores that are not local, over the nodes that passed. SKIP: the score does not run. It is asked first
    without any nodes, and a pod for which it says SKIP then is placed the fast way."""

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
        """Gives back what ``reserve`` took; safe where it took nothing."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """What has to be written before the pod is bound, as steps (``step``)."""

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> Sequence[Step]: ...
