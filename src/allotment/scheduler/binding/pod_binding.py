"""The state of one pod between the decision and its node, and of gang members that are bound together.

``binding_stage`` describes and carries out the transitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.scheduler.binding.claim_writer import ClaimWriter
    from allotment.scheduler.binding.step import Step
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.gangs.gang import Gang
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.volumes.writer import VolumeWriter


class BindingStage(Enum):
    """Where a binding is; see ``binding_stage``."""

    WRITING = "writing"
    AWAITING = "awaiting"
    READY = "ready"
    BINDING = "binding"
    UNDOING = "undoing"


class Binding:
    """The binding of one pod to one node."""

    stage = BindingStage.WRITING
    position = 0  # of the first step that is not done
    deadline = 0.0  # of AWAITING
    sent = False  # a write of the pod itself is in flight
    rests_until = 0.0  # after a write without an answer
    silences = 0
    why = ""  # why it failed; empty while it can succeed
    gone = False  # the pod was deleted or has finished

    def __init__(
        self,
        pod: PodInfo,
        cycle: Cycle,
        node: str,
        steps: Sequence[Step],
        started: float,
        binding_group: BindingGroup | None = None,
    ) -> None:
        self.pod = pod
        self.cycle = cycle
        self.node = node
        self.steps = steps
        self.started = started
        self.binding_group = binding_group
        self.writers: list[ClaimWriter | VolumeWriter] = []  # of all claims and volumes, in order
        self.followed: dict[str, None] = {}  # claims and volumes whose changes concern it


@dataclass(slots=True, eq=False)
class BindingGroup:
    """The members of a gang that are bound together. ``open`` once the minimum is ready: from then on they are bound."""

    gang: Gang
    members: dict[str, Binding] = field(default_factory=dict)
    bound: dict[str, PodInfo] = field(default_factory=dict)  # members that were bound, also if gone since
    open: bool = False
    broken: str = ""  # why the minimum can no longer be reached; the binding group is given up
    evicts: bool = False  # its bound members must not stay
