"""Prunes and defaults the body of a custom object before validation.

In this order: unknown fields are left out and reported, ``null`` is left out where it may not stand and no default
replaces it, metadata (also that of objects inside the object) is read as metadata, and on the way into the store
defaults are filled in. Values of the wrong type pass: validation reports them all at once.

Pruning builds new containers and never changes what it was given; :func:`fill` changes its argument.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from allotment.api.schema.conform import MAX_REPORTED, Conformed, conform
from allotment.api.schema.schema import definition
from allotment.api.status import BadRequest, TooLarge
from allotment.api.text import shortened
from allotment.api.trail import LONGEST_TRAIL, Trail, dotted
from allotment.apiserver.allowance import spend
from allotment.apiserver.registry.custom.structural import META_FIELDS, Structural
from allotment.apiserver.store.record import Obj
from allotment.apiserver.store.store import MAX_OBJECT

_META = definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def pruned(structural: Structural, obj: Obj) -> Conformed:
    """The object in the form of its schema, without defaults. Raises BadRequest for metadata of the wrong type."""
    walk, head = _Walk(), _Walk()
    try:
        whole = head.whole(obj, None)
        content = {name: value for name, value in whole.items() if name not in META_FIELDS}
        made = walk.object(structural, content, None, structural.preserve)
    except Misshapen as exc:
        kind, version = obj.get("kind"), str(obj.get("apiVersion")).rpartition("/")[2]
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {exc}') from exc
    unknown = (head.unknown + sorted(walk.unknown))[:MAX_REPORTED]
    meta = {name: whole[name] for name in whole if name in META_FIELDS}
    return Conformed({**meta, **made}, [f'unknown field "{path}"' for path in unknown])


def pruned_value(structural: Structural, value: Any) -> Any:
    """A value inside an object, in the form of its schema."""
    return _Walk().value(structural, value, None)


MOST_FILLED: Final = MAX_OBJECT
"""The most bytes of defaults for one object: a large default may be filled into each element of a list."""


MOST_VALUES_FILLED: Final = 100_000
"""The most defaults for one object, which a read may have to fill in too."""
_FILLING: Final = 0.1
"""Microseconds for each byte of a default that is filled in, and then checked and stored."""


_AROUND: Final = 4
"""Bytes of the quotation marks, the colon and the comma of a value with a name."""


def fill(structural: Structural | None, value: Any) -> None:
    """Fills in defaults for absent values, and for null where null is not allowed. Raises TooLarge."""
    _Filling().fill(structural, value)


class _Filling:
    """Fills in one object's defaults, and counts how many more bytes they may take."""

    def __init__(self) -> None:
        self._left = MOST_FILLED
        self._values_left = MOST_VALUES_FILLED

    def fill(self, structural: Structural | None, value: Any) -> None:
        if structural is None:
            return
        if isinstance(value, dict):
            for name, field in structural.properties.items():
                if field.default is not None and (
                    name not in value or (value[name] is None and not field.nullable)
                ):
                    value[name] = self._copied(field, name)
            for name, item in value.items():
                field_ = structural.field(name)
                if item is None and field_ is not None and not field_.nullable:
                    item = value[name] = self._copied(field_, name)
                self.fill(field_, item)
        elif isinstance(value, list):
            items = structural.items
            for index, item in enumerate(value):
                if item is None and items is not None and not items.nullable:
                    item = value[index] = self._copied(items)
                self.fill(items, item)

    def _copied(self, structural: Structural, name: str = "") -> Any:
        default = structural.default
        size = structural.default_size + len(name) + _AROUND
        self._left -= size
        self._values_left -= 1
        if self._values_left < 0:
            raise TooLarge(
                f"Request entity too large: the object would get more than {MOST_VALUES_FILLED} defaults of this kind"
            )
        if self._left < 0:
            raise TooLarge(
                f"Request entity too large: the defaults of this kind would add more than {MOST_FILLED} bytes to the object"
            )
        spend(size * _FILLING)
        return copied(default)


def copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, dict | list) else value


class Misshapen(ValueError):
    """The head of an embedded object is unreadable."""

    def __init__(self, path: Trail, name: str, value: Any, why: str) -> None:
        given = shortened(msgspec.json.encode(value).decode(), LONGEST_TRAIL)
        where = f"{dotted((path, name))}: Invalid value: {given}: " if path else ""
        super().__init__(f"{where}{why}")


class _Walk:
    """One walk over an object. ``keep`` is true where an ancestor preserves unknown fields."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def object(self, structural: Structural, value: Obj, path: Trail, keep: bool) -> Obj:
        if structural.embedded:
            value = self.whole(value, path)
        made = {}
        for name, item in value.items():
            here = (path, name)
            if structural.embedded and name in META_FIELDS:
                made[name] = item
                continue
            field = structural.properties.get(name)
            if field is None and not structural.open:
                if keep:
                    made[name] = item
                else:
                    self._report(here)
                continue
            known = field or structural.additional
            if item is None and known is not None and not known.nullable and known.default is None:
                continue
            made[name] = self.value(known, item, here)
        return made

    def value(self, structural: Structural | None, value: Any, path: Trail, keep: bool = False) -> Any:
        if isinstance(value, dict):
            if structural is not None:
                return self.object(structural, value, path, keep or structural.preserve)
            for name in value:
                self._report((path, name))
            return {}
        if isinstance(value, list):
            items = structural.items if structural is not None else None
            keep = keep or (structural is not None and structural.preserve)
            if keep and items is None:
                return value
            return [self.value(items, item, (path, index), keep) for index, item in enumerate(value)]
        return value

    def whole(self, value: Obj, path: Trail) -> Obj:
        """A whole object: its metadata is read as metadata."""
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                raise Misshapen(path, name, value[name], "must be a string")
        if "metadata" not in value:
            return value
        try:
            metadata = conform(_META, value["metadata"])
        except BadRequest as exc:
            why = exc.message[max(exc.message.find("json: "), 0) :]
            raise Misshapen(path, "metadata", value["metadata"], why) from exc
        for told in metadata.unknown:
            self._report(((path, "metadata"), told[len("unknown field ") + 1 : -1]))
        return {**value, "metadata": metadata.obj}

    def _report(self, path: Trail) -> None:
        if len(self.unknown) < MAX_REPORTED:
            self.unknown.append(dotted(path))
