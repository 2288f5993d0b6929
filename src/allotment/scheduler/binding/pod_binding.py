"""One pod on its way from the decision to its node, and the members of a gang that go together.

What happens to them on the way is told in ``binding_stage``.
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
    """One pod on its way to one node."""

    stage = BindingStage.WRITING
    position = 0  # of the first step that is not done
    deadline = 0.0  # of AWAITING
    sent = False  # a write of the pod itself is on its way
    rests_until = 0.0  # after a write without an answer
    silences = 0
    why = ""  # it failed
    gone = False  # the pod went

    def __init__(
        self,
        pod: PodInfo,
        cycle: Cycle,
        node: str,
        steps: Sequence[Step],
        started: float,
        party: Party | None = None,
    ) -> None:
        self.pod = pod
        self.cycle = cycle
        self.node = node
        self.steps = steps
        self.started = started
        self.party = party
        self.writers: list[ClaimWriter | VolumeWriter] = []  # of all claims and volumes, in order
        self.followed: dict[str, None] = {}  # claims and volumes that it is to be told about


@dataclass(slots=True, eq=False)
class Party:
    """The members of a gang that are bound together. ``open`` once the minimum is ready: from then on they are bound."""

    gang: Gang
    members: dict[str, Binding] = field(default_factory=dict)
    bound: dict[str, PodInfo] = field(default_factory=dict)  # those that were, also if they are gone since
    open: bool = False
    broken: str = ""  # why the minimum cannot be reached any more; it is given up
    evicts: bool = False  # and what is bound of it is not to stay
