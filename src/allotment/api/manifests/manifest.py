"""Manifests: text with objects of any kinds, as people write them and kubectl prints them.

A manifest is YAML, with one or more documents, or JSON. Lists are unfolded. Each object comes back as a
:class:`Located`: typed if we know its kind, and able to give the line of any of its fields, so that later errors (from
validation, say) point into the text as well. Versions that we accept but do not hold, such as v1beta1, are converted.

Reading stops at the first error. Unknown fields are not errors here: :meth:`Located.unknown_fields` lists them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from allotment.api import kinds
from allotment.api.codec import ApiError, DecodeError, decode, unknown_fields
from allotment.api.manifests.document import line_finder, read_documents
from allotment.api.manifests.yaml_values import Document, Path, TextError
from allotment.api.meta import ApiStruct

__all__ = ["Located", "ManifestError", "read_manifest"]


class ManifestError(ApiError):
    """What is wrong in a manifest and where: ``slices.yaml:12: spec.devices[0].name: …``."""

    def __init__(self, source: str, line: int, field: str, message: str) -> None:
        super().__init__(f"{source}:{line}: {field}: {message}" if field else f"{source}:{line}: {message}")
        self.source = source
        self.line = line
        self.field = field
        self.message = message


@dataclass(frozen=True)
class _Text:
    """One document of a manifest, kept to find lines in it on demand."""

    source: str
    document: Document = field(repr=False)

    @cached_property
    def _find_line(self) -> Callable[[Path], int]:
        return line_finder(self.document)

    def line(self, path: Path) -> int:
        """The line of the field, or of the nearest part around it that the text has."""
        return self._find_line(path) if path else self.document.line


@dataclass(frozen=True)
class Located:
    """An object and the place where it was written.

    ``obj`` is None for a kind that we do not know. ``raw`` is the object as written; it may share parts with other
    objects, so do not change it. ``kind`` and ``api_version`` are as written too; a converted object's own
    ``api_version`` is that of its type.
    """

    obj: ApiStruct | None
    kind: str
    api_version: str
    raw: dict[str, Any] = field(repr=False)
    _text: _Text = field(repr=False)
    _place: Path = ()

    @property
    def source(self) -> str:
        """The name of the text, usually a file name."""
        return self._text.source

    @property
    def line(self) -> int:
        """The line where the object begins."""
        return self._text.line(self._place)

    def line_of(self, path: str) -> int:
        """The line of a field such as ``spec.devices[0].attributes[model]``, or of the nearest part around it."""
        return self._text.line((*self._place, *_steps(self.raw, path)))

    def error(self, path: str, message: str) -> ManifestError:
        """An error about one of the object's fields, to raise or to print."""
        return ManifestError(self.source, self.line_of(path), path, message)

    def inside(self, path: str) -> list["Located"]:
        """The object written in one of this object's fields, or several if the field holds a list. Raises ManifestError."""
        value: Any = self.raw
        steps = _steps(value, path)
        for step in steps:
            value = value[step]
        place = (*self._place, *steps)
        return [_locate(each, self._text, where) for each, where in _objects(value, self._text, place)]

    def unknown_fields(self) -> list[ManifestError]:
        """Errors about fields that the API does not have; none for kinds that we do not know."""
        known = kinds.find(self.api_version, self.kind)
        if known is None:
            return []
        data = known.to_type(self.raw) if known.to_type else self.raw
        complaints = []
        for entry in unknown_fields(known.type, data):
            path, _, guess = entry.partition(" (")
            complaints.append(self.error(path, f"unknown field ({guess}" if guess else "unknown field"))
        return complaints


def read_manifest(text: str, source: str) -> list[Located]:
    """All objects of a manifest, in order. Errors name the text as ``source``. Raises ManifestError."""
    try:
        documents = read_documents(text)
    except TextError as exc:
        raise ManifestError(source, exc.line, "", exc.message) from exc
    found: list[Located] = []
    for document in documents:
        origin = _Text(source, document)
        found.extend(_locate(value, origin, place) for value, place in _objects(document.value, origin, ()))
    return found


def _objects(value: Any, text: _Text, place: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The objects in a document: itself or, if it is a list, its items."""
    if isinstance(value, list):
        hint = 'wrap the objects as {"apiVersion": "v1", "kind": "List", "items": […]}'
        raise ManifestError(text.source, text.line(place), "", f"is a bare list, not an object; {hint}")
    if not isinstance(value, dict):
        raise ManifestError(text.source, text.line(place), "", "is not an object with apiVersion and kind")
    kind, items = value.get("kind"), value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield value, place
        return
    implied = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for i, item in enumerate(items):
        if isinstance(item, dict) and implied["kind"]:  # items of a typed list need not repeat their kind
            item = {**implied, **item}
        yield from _objects(item, text, (*place, "items", i))


def _locate(raw: dict[str, Any], text: _Text, place: Path) -> Located:
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    unread = Located(None, str(kind), str(api_version), raw, text, place)
    if not isinstance(kind, str) or not kind:
        raise unread.error("kind", "must be a string that says what the object is")
    if not isinstance(api_version, str) or not api_version:
        common = [known.api_version for known in kinds.KINDS.values() if known.kind == kind]
        raise unread.error("apiVersion", f"must be a string{f', such as {common[0]}' if common else ''}")
    known = kinds.find(api_version, kind)
    if known is None:
        others = kinds.versions(kinds.group_of(api_version), kind)
        if others:
            raise unread.error("apiVersion", f"{kind} is not known in {api_version}; use {_listed(others)}")
        return unread
    try:
        obj = decode(known.type, known.to_type(raw) if known.to_type else raw)
    except DecodeError as exc:
        raise unread.error(exc.path, exc.message) from exc
    return Located(obj, kind, api_version, raw, text, place)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _steps(value: Any, path: str) -> Path:
    """A written path as keys and indexes, up to where ``value`` ends.

    Map keys may hold dots and brackets (``attributes[gpu.example.com/model]``), so the keys in ``value`` decide.
    """
    steps: list[str | int] = []
    while path:
        step = _list_step(value, path) if isinstance(value, list) else _mapping_step(value, path)
        if step is None:
            break
        key, path = step
        value = value[key]
        steps.append(key)
    return tuple(steps)


def _list_step(value: list[Any], path: str) -> tuple[int, str] | None:
    digits, bracket, rest = path.removeprefix("[").partition("]")
    if not bracket or not digits.isdecimal() or int(digits) >= len(value):
        return None
    return int(digits), rest


def _mapping_step(value: Any, path: str) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    if path.startswith("["):
        keys = [key for key in value if path.startswith(f"[{key}]")]
        return (keys[0], path[len(keys[0]) + 2 :]) if keys else None
    path = path.removeprefix(".")
    ends = [end for end in (path.find("."), path.find("[")) if end >= 0]
    name = path[: min(ends)] if ends else path
    return (name, path[len(name) :]) if name in value else None
