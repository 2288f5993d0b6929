"""What Kubernetes fills in when a user leaves it out, each default once, for typed objects and for plain JSON.

A table says where the defaults of each kind are, and two functions walk it. ``with_defaults`` returns a typed object
complete, the same one if it is complete already. ``fill_in`` completes plain JSON in place, as an API server does before it
validates: a server must not lose fields that the types do not know, so it cannot go by way of them. Plain input may be of
any shape; what is not what it should be is left alone, for validation to report.

Only the kinds below have defaults. The time at which a taint was added comes in as an argument, an RFC 3339 string in
whole seconds, as nothing here reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice

Obj = dict[str, Any]
T = TypeVar("T")

_NOW: Final = "now"


@dataclass(frozen=True, slots=True)
class _Default:
    """The value of a field that is absent or empty; with ``among``, only where another field has a certain value."""

    field: str
    value: str | int
    among: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """Those of an object: of its own fields, then of the objects below it. Fields are named as in JSON."""

    own: tuple[_Default, ...] = ()
    objects: tuple[tuple[str, Defaults], ...] = ()
    lists: tuple[tuple[str, Defaults], ...] = ()


def _at(path: str, below: Defaults) -> Defaults:
    """Those of an object at a path."""
    for name in reversed(path.split(".")):
        below = Defaults(objects=((name, below),))
    return below


_TOLERATION = Defaults((_Default("operator", "Equal"),))
_TAINT = Defaults((_Default("timeAdded", _NOW),))
_WISH = Defaults(
    (
        _Default("allocationMode", "ExactCount"),
        # Kubernetes cannot tell a count of 0 from an absent one.
        _Default("count", 1, among=("allocationMode", "ExactCount")),
    ),
    lists=(("tolerations", _TOLERATION),),
)
_REQUEST = Defaults(objects=(("exactly", _WISH),), lists=(("firstAvailable", _WISH),))
_REQUESTS = Defaults(lists=(("requests", _REQUEST),))
_RESULT = Defaults(lists=(("tolerations", _TOLERATION),))
_DEVICE = Defaults(lists=(("taints", _TAINT),))
_SEMANTIC = Defaults((_Default("allocationMode", "WaitForFirstConsumer"),))

CLAIM_STATUS: Final = _at("status.allocation.devices", Defaults(lists=(("results", _RESULT),)))
CLAIM: Final = Defaults(objects=(*_at("spec.devices", _REQUESTS).objects, *CLAIM_STATUS.objects))
TEMPLATE: Final = _at("spec.spec.devices", _REQUESTS)
SLICE: Final = _at("spec", Defaults(lists=(("devices", _DEVICE),)))
TAINT_RULE: Final = _at("spec.taint", _TAINT)

_OF_TYPES: Final[dict[type, Defaults]] = {
    ResourceClaim: CLAIM,
    ResourceClaimTemplate: TEMPLATE,
    ResourceSlice: SLICE,
    DeviceTaintRule: TAINT_RULE,
    semantic.ResourceClaim: _at("spec", _SEMANTIC),
    semantic.ResourceClaimTemplate: _at("spec.spec", _SEMANTIC),
}


def fill_in(obj: Obj, defaults: Defaults, now: str = "") -> None:
    """Completes plain JSON in place. ``now`` is needed where there are taints."""
    for each in defaults.own:
        if each.among is None or obj.get(each.among[0]) == each.among[1]:
            obj[each.field] = obj.get(each.field) or (now if each.value is _NOW else each.value)
    for name, below in defaults.objects:
        part = obj.get(name)
        if isinstance(part, dict):
            fill_in(part, below, now)
    for name, below in defaults.lists:
        entries = obj.get(name)
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict):
                    fill_in(entry, below, now)


def with_defaults(obj: T, *, now: str) -> T:
    """The typed object complete, whatever its kind."""
    defaults = _OF_TYPES.get(type(obj))
    return obj if defaults is None else _completed(obj, defaults, now)


def _completed(struct: Any, defaults: Defaults, now: str) -> Any:
    """The struct complete, or itself if it is."""
    names = {
        key: name for name, key in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    }
    changed: dict[str, Any] = {}

    def change(name: str, value: Any) -> None:
        if value is not getattr(struct, name):
            changed[name] = value

    def present(name: str) -> Any:
        return changed[name] if name in changed else getattr(struct, name)

    for each in defaults.own:
        if each.among is None or present(names[each.among[0]]) == each.among[1]:
            name = names[each.field]
            change(name, getattr(struct, name) or (now if each.value is _NOW else each.value))
    for key, below in defaults.objects:
        part = getattr(struct, names[key])
        if part is not None:
            change(names[key], _completed(part, below, now))
    for key, below in defaults.lists:
        entries = getattr(struct, names[key])
        complete = tuple(_completed(entry, below, now) for entry in entries)
        if any(after is not before for after, before in zip(complete, entries, strict=True)):
            changed[names[key]] = complete
    return replace(struct, **changed) if changed else struct
