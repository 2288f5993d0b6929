"""What cannot be simulated, as opposed to "does not fit", which is a value (``scheduler.diagnosis.Refusal``).

SimulationError
├── NodeExists      a node, or a slice, is added that is there already
├── NoSuchNode      a node is asked about that is not there
├── NodeInUse       a node is removed while pods that use its devices are bound: evict them first
├── NoSuchPod       a pod is evicted that is not on the node
├── PodBound        a pod is to be placed that has its node
└── NoFork          commit or revert without a fork

Refused             a step of a scenario cannot be done, with who stands in its way
"""

from collections.abc import Mapping


class SimulationError(Exception):
    """The call was refused and changed nothing; the message names the object."""


class NodeExists(SimulationError):
    """The node, or one of the slices, is there already."""


class NoSuchNode(SimulationError):
    """There is no node of that name."""


class NodeInUse(SimulationError):
    """Pods that use the node's devices are still bound. ``pods`` are their keys: evict them first."""

    def __init__(self, message: str, pods: tuple[str, ...]) -> None:
        super().__init__(message)
        self.pods = pods


class NoSuchPod(SimulationError):
    """The pod is not on the node that it is to be evicted from."""


class PodBound(SimulationError):
    """The pod has its node already."""


class NoFork(SimulationError):
    """There is no fork to commit or revert."""


class Refused(Exception):
    """A step cannot be done; what it did so far is to be reverted. ``holders`` are pods and claims in its way, each with why."""

    def __init__(self, words: str, holders: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.holders = holders or {}
