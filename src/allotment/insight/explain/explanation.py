"""The explanation of a pod or a claim: its state, the reason, and what would help.

A caller who does not see all claims does not know everything that is in use. Then "does not fit" is certain, and "fits" is
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allotment.api.meta import ObjectMeta
from allotment.api.text import plural
from allotment.insight.manifest_cluster import name_of
from allotment.insight.placement.rejections import Rejection
from allotment.usage.remedies import Remedies

if TYPE_CHECKING:
    from allotment.insight.placement.rejections import Rejection

if TYPE_CHECKING:
    from allotment.insight.claim_facts import HeldDevice
    from allotment.insight.findings import Finding


HIDDEN_HOLDER = "claims you may not see"


class Outlook(StrEnum):
    """The state of the pod or claim."""

    PLACED = "Placed"  # it has everything that it requests
    ENDED = "Ended"
    FITS = "Fits"  # nothing stands in the way
    MAY_FIT = "MayFit"  # according to what the caller sees
    WAITS = "Waits"  # for something other than a node
    NOWHERE = "FitsNowhere"


@dataclass(frozen=True, slots=True)
class HiddenDevices:
    """How many of the devices that look free to the caller are held by claims that the caller may not see; None: unknown."""

    held: int | None
    free: int

    def __str__(self) -> str:
        these = f"the {plural(self.free, 'device')} that no claim you may see holds"
        if self.held is None:
            return f"how many of {these} are held by claims you may not see is unknown"
        return f"{self.held} of {these} {'is' if self.held == 1 else 'are'} held by {HIDDEN_HOLDER}"


@dataclass(slots=True)
class Explanation:
    """The whole explanation. ``reason`` is one sentence."""

    what: str  # ``pod`` or ``claim``
    namespace: str
    name: str
    state: Outlook
    reason: str
    said: str = ""  # the message of the pod's own condition
    node: str = ""  # where it runs, or would be placed
    devices: Sequence[HeldDevice] = ()
    problems: Sequence[Finding] = ()
    rejections: Sequence[Rejection] = ()
    short: bool = False  # nodes were tried, and ``remedies`` were searched for
    remedies: Remedies = field(default_factory=Remedies)
    hints: Sequence[str] = ()  # what may be misspelt or missing
    hidden: HiddenDevices | None = None
    guessed: bool = False  # the caller could not see nodes

    @property
    def certain(self) -> bool:
        """Whether the answer is true whatever the hidden claims hold. Hidden claims never make room."""
        return not self.guessed and (self.hidden is None or self.state is Outlook.NOWHERE)

    @property
    def well(self) -> bool:
        """Whether there is nothing to wait for and nothing to repair, according to what the caller sees."""
        fits = self.state in (Outlook.PLACED, Outlook.ENDED, Outlook.FITS, Outlook.MAY_FIT)
        return fits and not self.problems and not (self.state is Outlook.MAY_FIT and self.said)


def well_or_not(problems: Sequence[Finding]) -> str:
    """The number of problems, in words."""
    if not problems:
        return "nothing is wrong"
    return f"{plural(len(problems), 'thing')} {'is' if len(problems) == 1 else 'are'} wrong"


def told_of(what: str, meta: ObjectMeta, state: Outlook, reason: str, **more: Any) -> Explanation:
    return Explanation(what, *name_of(meta), state, reason, **more)


BEGINNINGS = {Outlook.WAITS: "waits: ", Outlook.NOWHERE: "does not fit: "}
