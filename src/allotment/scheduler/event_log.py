"""A log of all events and instructions of a core, as lines of JSON, and its replay: the same events lead to the same
instructions.

The first line of a file is ``opening``, with the configuration. Each other line is an event or an instruction; the instructions
that an event led to follow it. The log writes an object when it changed, but not again as the old state of its next change: the
replay remembers it. ``Driver(hear=EventLog(write))`` records a run (``daemons.event_recording`` into a file). ``replay(lines,
Scheduler(…))`` feeds the events to a fresh core with the same profiles, and reports where its instructions first differ. A
developer can so repeat a puzzling decision in a debugger as often as needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import asdict

from allotment.api import semantic
from allotment.api.batch import PodDisruptionBudget, PodGroup, Queue, VolcanoPodGroup
from allotment.api.codec import DecodeError, decode, to_builtins
from allotment.api.core import Namespace, Node, Pod
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.storage import KINDS as STORAGE
from allotment.scheduler.config.configuration import Configuration
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.core import Scheduler
    from allotment.scheduler.instruction import Instruction

Json = dict[str, Any]

_READ: tuple[type[ApiStruct], ...] = (
    Node,
    Namespace,
    DeviceClass,
    ResourceSlice,
    DeviceTaintRule,
    ResourceClaim,
    Pod,
    PodGroup,
    PodDisruptionBudget,
    VolcanoPodGroup,
    Queue,
    semantic.NodeResourceSlice,
    semantic.ResourceClass,
    semantic.ResourceClassParameters,
    semantic.ResourceClaimParameters,
    *STORAGE,
    ResourcePool,  # the core receives but ignores them
)
_KINDS = {kind.__name__: kind for kind in _READ}


class BrokenLog(ValueError):
    """A line that is neither an event nor an instruction. The message names the line."""


class _Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a recorded file."""

    recording: Literal["allotment scheduler, 1"]
    configuration: Configuration


def opening(configuration: Configuration) -> str:
    """The first line of a recording by a scheduler of this configuration."""
    line = _Opening("allotment scheduler, 1", configuration)
    return msgspec.json.encode(line, order="deterministic").decode()


def configuration_of(line: str) -> Configuration:
    """The configuration that ``opening`` wrote. Raises BrokenLog."""
    try:
        return msgspec.json.decode(line, type=_Opening).configuration
    except msgspec.DecodeError as exc:
        raise BrokenLog(f"line 1 does not begin a scheduler's recording: {exc}") from exc


class EventLog:
    """Records the events and instructions that it is called with, line by line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def __call__(self, heard: Event | Instruction) -> None:
        self._write(record(heard) + "\n")


def record(heard: Event | Instruction) -> str:
    """The line of one event or instruction."""
    line: Json
    if isinstance(heard, Changed):
        shown = heard.new if heard.new is not None else heard.old
        assert shown is not None
        line = {"event": "Changed", "kind": type(shown).__name__, "object": to_builtins(shown)}
        line |= {"appeared": heard.old is None, "gone": heard.new is None}
    elif isinstance(heard, Failed):
        line = {"event": "Failed", "id": heard.id, "why": heard.why.value, "message": heard.message}
    elif isinstance(heard, Done | Tick | Turn):
        line = {"event": type(heard).__name__, **asdict(heard)}
    else:
        line = {"instruction": type(heard).__name__, **asdict(heard)}
    return msgspec.json.encode(line).decode()


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """The first place where a replay differs from its log. None means that the log, or the core, has nothing there."""

    line: int  # of the log, from 1
    logged: Json | None
    said: Json | None

    def __str__(self) -> str:
        return f"line {self.line}: the log has {self.logged}, and the core says {self.said}"


def replay(lines: Iterable[str], core: Scheduler, first: int = 1) -> ReplayDifference | None:
    """Replays a log on a fresh core and returns the first difference. ``first`` is the number of the first line. Raises
    BrokenLog."""
    objects: dict[tuple[str, str, str], ApiStruct] = {}
    said: list[Json] = []  # since the last event, and not in the log yet
    number = first - 1
    for number, text in enumerate(lines, first):
        line = _read(number, text)
        if "instruction" in line:
            mine = said.pop(0) if said else None
            if mine != line:
                return ReplayDifference(number, line, mine)
            continue
        if said:
            return ReplayDifference(number, None, said[0])
        try:
            event = _event(line, objects)
        except (KeyError, TypeError, ValueError, DecodeError) as exc:
            raise BrokenLog(f"line {number} of the log is no event: {exc}") from exc
        said = [msgspec.json.decode(record(each)) for each in core.handle(event)]
    return ReplayDifference(number + 1, None, said[0]) if said else None


def _read(number: int, text: str) -> Json:
    try:
        line = msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise BrokenLog(f"line {number} of the log is no JSON: {exc}") from exc
    if not isinstance(line, dict) or ("event" in line) == ("instruction" in line):
        raise BrokenLog(f"line {number} of the log is neither an event nor an instruction")
    return line


def _event(line: Json, objects: dict[tuple[str, str, str], ApiStruct]) -> Event:
    match line["event"]:
        case "Changed":
            return _changed(line, objects)
        case "Done":
            return Done(line["id"], line["version"], line["uid"])
        case "Failed":
            return Failed(line["id"], WriteFailure(line["why"]), line["message"])
        case "Tick":
            return Tick(line["now"])
        case "Turn":
            return Turn(line["pods"])
    raise ValueError(f"{line['event']!r} is not known")


def _changed(line: Json, objects: dict[tuple[str, str, str], ApiStruct]) -> Changed:
    shown = decode(_KINDS[line["kind"]], line["object"])
    meta = line["object"]["metadata"]
    key = line["kind"], meta.get("namespace", ""), meta["name"]
    old = None if line["appeared"] else objects[key]
    if line["gone"]:
        objects.pop(key, None)
        return Changed(old, None)
    objects[key] = shown
    return Changed(old, shown)
