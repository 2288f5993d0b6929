"""Events: what happened to an object, for people to read. One store with two views.

The hub is core/v1's Event; events.k8s.io/v1 names some fields differently. Both are rules of old: an event without
``eventTime`` only has to be in the namespace of its object, one with it must say who reports what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem
from allotment.api.text import byte_length, trimmed
from allotment.apiserver.registry.age import UNKNOWN, since
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import PrinterColumn, Resource, ServedVersion
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}

# Where events of objects without a namespace may be; the second only if they say who reports them.
_HOMELESS = ("default", "kube-system")

# core/v1's names of fields, and events.k8s.io/v1's
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _renamed(event: Obj, names: Mapping[str, str], api_version: str) -> Obj:
    return {**{names.get(name, name): value for name, value in event.items()}, "apiVersion": api_version}


def _to_core(event: Obj) -> Obj:
    return _renamed(event, {new: old for old, new in _NAMES.items()}, "v1")


def _from_core(event: Obj) -> Obj:
    return _renamed(event, _NAMES, "events.k8s.io/v1")


def _complete(event: Obj) -> None:
    """Fills in fields that Go clients expect, even if they are empty."""
    for name in ("involvedObject", "source"):
        event.setdefault(name, {})
    for name in ("reportingComponent", "reportingInstance"):
        event.setdefault(name, "")
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)


def _check(event: Obj) -> Iterator[FieldError]:
    own, meant = event["metadata"].get("namespace") or "", at(event, "involvedObject", "namespace") or ""
    strict = bool(event.get("eventTime"))
    agrees = own == meant or (strict and meant) or (not meant and own in _HOMELESS[: 2 if strict else 1])
    if not agrees:
        yield FieldPath("involvedObject", "namespace").invalid("does not match event.namespace", meant)
    if not strict:
        return
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        if not event.get(name):
            yield FieldPath(name).required("")
    reporter = event.get("reportingComponent") or ""
    if problem := label_key_problem(reporter):
        yield FieldPath("reportingComponent").invalid(problem, reporter)
    for name, limit in _LONGEST.items():
        if byte_length(event.get(name) or "") > limit:
            yield FieldPath(name).invalid(f"can have at most {limit} characters", "")


def _first_seen(event: Obj, now: str) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Obj, now: str) -> str:
    series = event.get("series")
    if series is not None:
        return since(series.get("lastObservedTime"), now)
    last = since(event.get("lastTimestamp"), now)
    return _first_seen(event, now) if last == UNKNOWN else last


def _count(event: Obj, now: str) -> int:
    series = event.get("series")
    return (series.get("count") or 0) if series is not None else (event.get("count") or 1)


def _object(event: Obj, now: str) -> str:
    kind, name = (at(event, "involvedObject", field) or "" for field in ("kind", "name"))
    return f"{kind.lower()}/{name}" if name else kind.lower()


def _source(event: Obj, now: str) -> str:
    component = at(event, "source", "component") or event.get("reportingComponent") or ""
    instance = at(event, "source", "host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


COLUMNS = (
    PrinterColumn("Last Seen", "string", _last_seen, "When it happened last."),
    text("Type", "type", "Normal or Warning."),
    text("Reason", "reason", "What happened, in a word."),
    PrinterColumn("Object", "string", _object, "What it happened to."),
    text("Subobject", "involvedObject.fieldPath", "Which part of it.", wide=True),
    PrinterColumn("Source", "string", _source, "Who reports it.", priority=1),
    PrinterColumn("Message", "string", lambda obj, now: trimmed(obj.get("message") or ""), "What happened."),
    PrinterColumn("First Seen", "string", _first_seen, "When it happened first.", priority=1),
    PrinterColumn("Count", "string", _count, "How often it happened.", priority=1),
    PrinterColumn(
        "Name",
        "string",
        lambda obj, now: obj["metadata"]["name"],
        "The event's own name.",
        format="name",
        priority=1,
    ),
)


def _fields() -> dict[str, object]:
    fields: dict[str, object] = {}
    for part in _OBJECT_FIELDS:
        for prefix in ("involvedObject", "regarding"):  # the second is how the other view calls it
            fields[f"{prefix}.{part}"] = lambda obj, part=part: at(obj, "involvedObject", part) or ""
    for name in ("reason", "type", "reportingComponent"):
        fields[name] = lambda obj, name=name: obj.get(name) or ""
    fields["reportingController"] = fields["reportingComponent"]
    fields["source"] = lambda obj: at(obj, "source", "component") or obj.get("reportingComponent") or ""
    return fields


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Event",
        plural="events",
        namespaced=True,
        short_names=("ev",),
        columns=COLUMNS,
        name_first=False,
        fields=_fields(),  # type: ignore[arg-type]  # lambdas with a bound default are Reads
        versions=(ServedVersion("v1", to_hub=_to_core, from_hub=_from_core, group="events.k8s.io"),),
        create_on_update=True,
        strategy=StrategyRules(complete=_complete, check=_check),
        doc="What happened to an object, told for people.",
    ),
)
