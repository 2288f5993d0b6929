"""What the core hears. The same events in the same order lead to the same instructions.

Event
├── Changed   an object appeared, changed or went
├── Done      a write that the core asked for took effect
├── Failed    it did not, or nobody knows
├── Tick      what time it is
└── Turn      leave to decide about so many pods
"""

from __future__ import annotations

from enum import Enum

import msgspec

from allotment.api.meta import ApiStruct


class Changed(msgspec.Struct, frozen=True, gc=False):
    """An object as it was and is; ``old`` is None if it appeared, ``new`` if it went."""

    old: ApiStruct | None
    new: ApiStruct | None


class Done(msgspec.Struct, frozen=True, gc=False):
    """The write that instruction ``id`` asked for took effect."""

    id: int
    version: int = 0  # the object's resourceVersion afterwards; 0 where there is none
    uid: str = ""  # of an object that was made


class WriteFailure(Enum):
    """Why a write did not take effect, as far as it matters to what comes next."""

    CONFLICT = "conflict"  # the object is not in the state that was read
    TAKEN = "taken"  # a device of the allocation is promised to somebody else
    GONE = "gone"  # there is no such object
    REFUSED = "refused"  # it will be refused again: not valid, not allowed
    UNKNOWN = "unknown"  # no answer; it may have taken effect


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The write that instruction ``id`` asked for failed."""

    id: int
    why: WriteFailure
    message: str = ""


class Tick(msgspec.Struct, frozen=True, gc=False):
    """The time, in seconds since 1970. It never goes back."""

    now: float


class Turn(msgspec.Struct, frozen=True, gc=False):
    """Leave to decide about up to ``pods`` pods (a gang counts as its members)."""

    pods: int


Event = Changed | Done | Failed | Tick | Turn
