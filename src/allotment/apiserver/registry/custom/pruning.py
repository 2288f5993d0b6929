"""What the body of a custom object becomes before anybody judges it.

In this order: unknown fields are left out and reported, ``null`` is left out where it may not stand and no default
replaces it, metadata (also that of objects inside the object) is read as metadata, and on the way into the store
defaults are filled in. Values of the wrong type pass: validation reports them all at once.

Pruning builds new containers and never changes what it was given; :func:`fill` changes its argument.
"""

from __future__ import annotations

from typing import Any

import msgspec

from allotment.api.conform import MAX_REPORTED, Conformed, conform
from allotment.api.schema import definition
from allotment.api.status import BadRequest
from allotment.apiserver.registry.custom.structural import META_FIELDS, Structural
from allotment.apiserver.store.record import Obj

_META = definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def pruned(structural: Structural, obj: Obj) -> Conformed:
    """The object as its schema has it, without defaults. Raises BadRequest for metadata of the wrong type."""
    walk, head = _Walk(), _Walk()
    try:
        whole = head.whole(obj, "")
        content = {name: value for name, value in whole.items() if name not in META_FIELDS}
        made = walk.object(structural, content, "", structural.preserve)
    except Misshapen as exc:
        kind, version = obj.get("kind"), str(obj.get("apiVersion")).rpartition("/")[2]
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {exc}') from exc
    unknown = (head.unknown + sorted(walk.unknown))[:MAX_REPORTED]
    meta = {name: whole[name] for name in whole if name in META_FIELDS}
    return Conformed({**meta, **made}, [f'unknown field "{path}"' for path in unknown])


def pruned_value(structural: Structural, value: Any) -> Any:
    """A value inside an object, as its schema has it."""
    return _Walk().value(structural, value, "")


def fill(structural: Structural | None, value: Any) -> None:
    """Fills in what is absent, or null where null may not stand, from the defaults."""
    if structural is None:
        return
    if isinstance(value, dict):
        for name, field in structural.properties.items():
            if field.default is not None and (
                name not in value or (value[name] is None and not field.nullable)
            ):
                value[name] = copied(field.default)
        for name, item in value.items():
            field_ = structural.field(name)
            if item is None and field_ is not None and not field_.nullable:
                item = value[name] = copied(field_.default)
            fill(field_, item)
    elif isinstance(value, list):
        items = structural.items
        for index, item in enumerate(value):
            if item is None and items is not None and not items.nullable:
                item = value[index] = copied(items.default)
            fill(items, item)


def copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, dict | list) else value


class Misshapen(ValueError):
    """The head of an object inside an object is not readable."""

    def __init__(self, path: str, name: str, value: Any, why: str) -> None:
        where = f"{path}.{name}: Invalid value: {msgspec.json.encode(value).decode()}: " if path else ""
        super().__init__(f"{where}{why}")


class _Walk:
    """One walk over an object. ``keep`` tells that what is unknown stays, as some ancestor asked."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def object(self, structural: Structural, value: Obj, path: str, keep: bool) -> Obj:
        if structural.embedded:
            value = self.whole(value, path)
        made = {}
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
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

    def value(self, structural: Structural | None, value: Any, path: str, keep: bool = False) -> Any:
        if isinstance(value, dict):
            if structural is not None:
                return self.object(structural, value, path, keep or structural.preserve)
            for name in value:
                self._report(f"{path}.{name}")
            return {}
        if isinstance(value, list):
            items = structural.items if structural is not None else None
            keep = keep or (structural is not None and structural.preserve)
            if keep and items is None:
                return value
            return [self.value(items, item, f"{path}[{index}]", keep) for index, item in enumerate(value)]
        return value

    def whole(self, value: Obj, path: str) -> Obj:
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
        where = f"{path}.metadata" if path else "metadata"
        for told in metadata.unknown:
            self._report(f"{where}.{told[len('unknown field ') + 1 : -1]}")
        return {**value, "metadata": metadata.obj}

    def _report(self, path: str) -> None:
        if len(self.unknown) < MAX_REPORTED:
            self.unknown.append(path)
