"""Errors of simulations. "Does not fit" is not among them, because it is a value (``scheduler.diagnosis.Refusal``).

SimulationError ├── NodeExists a node, or a slice, that is added exists already ├── NoSuchNode the node does not exist ├──
NodeInUse pods that use a node's devices are still bound: evict them before removing it ├── NoSuchPod a pod to evict is not on
the node ├── PodBound a pod to place already has a node └── NoFork commit or revert without a fork

Refused             a step of a scenario cannot be done, with the objects that prevent it
"""

from collections.abc import Mapping


class SimulationError(Exception):
    """The call was refused and changed nothing; the message names the object."""


class NodeExists(SimulationError):
    """The node, or one of the slices, already exists."""


class NoSuchNode(SimulationError):
    """There is no node of that name."""


class NodeInUse(SimulationError):
    """Pods that use the node's devices are still bound. ``pods`` are their keys: evict them first."""

    def __init__(self, message: str, pods: tuple[str, ...]) -> None:
        super().__init__(message)
        self.pods = pods


class NoSuchPod(SimulationError):
    """The pod is not on the node from which it should be evicted."""


class PodBound(SimulationError):
    """The pod already has a node."""


class NoFork(SimulationError):
    """There is no fork to commit or revert."""


class StepRefused(Exception):
    """A step cannot be done; revert what it has done so far. ``holders`` are the pods and claims that prevent it, each with
    the reason."""

    def __init__(self, words: str, holders: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.holders = holders or {}
