"""A step of a scenario in words: ``drain node n1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allotment.api.core import Node, Pod
from allotment.api.text import few, plural

if TYPE_CHECKING:
    from allotment.autoscaler.scenario.scenario import ScenarioStep

_NAMED = 3


def titled(step: ScenarioStep) -> str:
    """The step in one line."""
    wish: Any = step.wish
    match step.verb:
        case "addNodes":
            return _added(step)
        case "removeNode":
            return f"remove node {wish.name}{' by force' if wish.force else ''}"
        case "drainNode":
            return f"drain node {wish.name}"
        case "submit":
            return f"submit {_submitted(step)}"
        case "delete":
            return f"delete {_object(wish)}"
        case "scale":
            return f"scale {_object(wish)} to {wish.replicas}"
        case "taintDevice":
            return _tainted(step)
        case "resizePool":
            return f"resize pool {wish.driver}/{wish.pool} to {wish.devices} devices"
        case _:
            return "look"


def _object(wish: Any) -> str:
    return f"{wish.kind} {wish.namespace or 'default'}/{wish.name}"


def _added(step: ScenarioStep) -> str:
    wish: Any = step.wish
    names = [each.metadata.name for each in step.objects if isinstance(each, Node)]
    if names:
        return f"add node{'s' if len(names) > 1 else ''} {few(names, _NAMED)}"
    count = wish.count or 1
    what = f"type {wish.type}" if wish.type else ""
    start = f"add {plural(count, 'node')} {f'of {what}' if what else f'like {wish.like}'}"
    return f"{start} in {wish.zone}" if wish.zone else start


def _submitted(step: ScenarioStep) -> str:
    pods = [
        f"pod {each.metadata.namespace}/{each.metadata.name}"
        for each in step.objects
        if isinstance(each, Pod)
    ]
    names = [*(f"{each.id} ({each.replicas})" for each in step.workloads), *pods]
    others = [getattr(each, "kind", "") for each in step.objects if not isinstance(each, Pod)]
    return few(names or sorted(set(others)), _NAMED) or "nothing"


def _tainted(step: ScenarioStep) -> str:
    wish: Any = step.wish
    if wish.rule is not None:
        return "taint devices by a DeviceTaintRule"
    where = "/".join(each or "*" for each in (wish.driver, wish.pool, wish.device))
    return f"taint {where} with {wish.effect}"
