"""The events that the core handles. The same events in the same order lead to the same instructions.

Event
├── Changed   an object appeared, changed or went
├── Done      a write that the core asked for took effect
├── Failed    the write failed, or its outcome is unknown
├── Tick      the current time
└── Turn      permission to decide about so many pods
"""

from __future__ import annotations

from enum import Enum

import msgspec

from allotment.api.meta import ApiStruct


class Changed(msgspec.Struct, frozen=True, gc=False):
    """An object before and after a change. ``old`` is None if it appeared, ``new`` if it was deleted."""

    old: ApiStruct | None
    new: ApiStruct | None


class Done(msgspec.Struct, frozen=True, gc=False):
    """The write that instruction ``id`` asked for took effect."""

    id: int
    version: int = 0  # the object's resourceVersion afterwards; 0 where there is none
    uid: str = ""  # of an object that was created


class WriteFailure(Enum):
    """Why a write did not take effect, in the cases that the core treats differently."""

    CONFLICT = "conflict"  # the object is not in the state that was read
    TAKEN = "taken"  # a device of the allocation is promised to another claim
    GONE = "gone"  # there is no such object
    REFUSED = "refused"  # it would be refused again: not valid, or not allowed
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
    """Permission to decide about up to ``pods`` pods (a gang counts as its members)."""

    pods: int


Event = Changed | Done | Failed | Tick | Turn
