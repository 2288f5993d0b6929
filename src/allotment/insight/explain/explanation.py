"""What ``allot explain`` tells of a pod or a claim: how it stands, why, and what would help.

Whoever does not see all claims does not know all that is taken: that something does not fit is sure then, that it fits is not.
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
    """How things stand."""

    PLACED = "Placed"  # it has all that it wants
    ENDED = "Ended"
    FITS = "Fits"  # nothing stands in the way
    MAY_FIT = "MayFit"  # as far as the caller sees
    WAITS = "Waits"  # for something else than a node
    NOWHERE = "FitsNowhere"


@dataclass(frozen=True, slots=True)
class Hidden:
    """So many of the devices that look free to the caller are held by claims that it may not see; None: nobody knows."""

    held: int | None
    free: int

    def __str__(self) -> str:
        these = f"the {plural(self.free, 'device')} that no claim you may see holds"
        if self.held is None:
            return f"how many of {these} are held by claims you may not see is unknown"
        return f"{self.held} of {these} {'is' if self.held == 1 else 'are'} held by {HIDDEN_HOLDER}"


@dataclass(slots=True)
class Explanation:
    """All that is told. ``reason`` is one sentence."""

    what: str  # ``pod`` or ``claim``
    namespace: str
    name: str
    state: Outlook
    reason: str
    said: str = ""  # what the pod's own condition says
    node: str = ""  # where it is, or would go
    devices: Sequence[HeldDevice] = ()
    problems: Sequence[Finding] = ()
    rejections: Sequence[Rejection] = ()
    short: bool = False  # nodes were asked, so that ``remedies`` were looked for
    remedies: Remedies = field(default_factory=Remedies)
    hints: Sequence[str] = ()  # what may be misspelt or missing
    hidden: Hidden | None = None
    guessed: bool = False  # nodes could not be seen

    @property
    def certain(self) -> bool:
        """Whether it is true whatever the caller may not see. Claims that are hidden make no room."""
        return not self.guessed and (self.hidden is None or self.state is Outlook.NOWHERE)

    @property
    def well(self) -> bool:
        """Whether there is nothing to wait for or to repair, as far as one can see."""
        fits = self.state in (Outlook.PLACED, Outlook.ENDED, Outlook.FITS, Outlook.MAY_FIT)
        return fits and not self.problems and not (self.state is Outlook.MAY_FIT and self.said)


def well_or_not(problems: Sequence[Finding]) -> str:
    """How many things are wrong, in words."""
    if not problems:
        return "nothing is wrong"
    return f"{plural(len(problems), 'thing')} {'is' if len(problems) == 1 else 'are'} wrong"


def told_of(what: str, meta: ObjectMeta, state: Outlook, reason: str, **more: Any) -> Explanation:
    return Explanation(what, *name_of(meta), state, reason, **more)


BEGINNINGS = {Outlook.WAITS: "waits: ", Outlook.NOWHERE: "does not fit: "}
