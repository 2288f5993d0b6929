"""The protobuf form of Kubernetes' kinds: the JSON field for each field number, and its type.

The tables come from the ``.wire`` files beside the schemas, which ``tools/schemas.py`` writes: a line with the Go
package, then a block of lines for each message::

    Volume
    1 name string                 number, JSON field, type; [T] is repeated, {T} a map from strings to T
    2 . VolumeSource              a message whose fields JSON puts directly into this one

    VolumeMount
    2 readOnly bool omit          always present in protobuf, left out of JSON when it is false, 0, "" or empty

    ExtraValue list               a message around a list; JSON has only the list
    1 items [string]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("documents")


@dataclass(slots=True)
class Field:
    """One field of a message. ``message`` is set iff ``type`` is ``message``."""

    name: str
    type: str  # string, int32, int64, bool, bytes, double, time, microtime, quantity, …, message
    message: Message | None = None
    repeated: bool = False
    mapped: bool = False
    inlined: bool = False
    omits_zero: bool = False


@dataclass(slots=True)
class Message:
    """One message. Immutable once built; a message may contain itself."""

    name: str  # the same name as in the schema: io.k8s.api.core.v1.Pod
    is_list: bool = False
    fields: dict[int, Field] = field(default_factory=dict, repr=False)


def message_of(name: str) -> Message:
    """The message of a named definition (see :attr:`allotment.api.schema.schema.Schema.name`). Raises KeyError."""
    home, _, own = name.rpartition(".")
    short = ".".join(home.split(".")[-2:])
    if short not in _shorts() or _package(short).name != home:
        raise KeyError(name)
    return _package(short).message(own)


@cache
def _shorts() -> frozenset[str]:
    return frozenset(path.stem for path in _FOLDER.glob("*.wire"))


@cache
def _package(short: str) -> _WirePackage:
    return _WirePackage((_FOLDER / f"{short}.wire").read_text(encoding="utf-8"))


class _WirePackage:
    """The messages of one file, built one by one."""

    def __init__(self, text: str) -> None:
        self.name, *blocks = text.strip().split("\n\n")
        self._blocks = {block.split(maxsplit=1)[0]: block for block in blocks}
        self._built: dict[str, Message] = {}

    def message(self, own: str) -> Message:
        if own in self._built:
            return self._built[own]
        heading, *lines = self._blocks[own].split("\n")
        built = Message(f"{self.name}.{own}", is_list=heading.endswith(" list"))
        self._built[own] = built  # stored before its fields are built, which may refer to it
        for line in lines:
            number, name, kind, *marks = line.split(" ")
            built.fields[int(number)] = self._field(name, kind, "omit" in marks)
        return built

    def _field(self, name: str, kind: str, omits_zero: bool) -> Field:
        bare = kind.strip("[]{}")
        made = Field(name, bare, omits_zero=omits_zero, inlined=name == ".")
        made.repeated, made.mapped = kind[0] == "[", kind[0] == "{"
        home, _, own = bare.rpartition(".")
        if own[0].isupper():
            made.type = "message"
            made.message = (_package(home) if home else self).message(own)
        return made
