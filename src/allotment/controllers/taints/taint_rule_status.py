"""The status of a DeviceTaintRule: whether pods are being evicted for it, how many, and in how many namespaces.

Types and reasons are those of Kubernetes. The status has counts only, because a reader of rules may not be allowed to know
whose pods these are.
"""

from __future__ import annotations

from dataclasses import dataclass

from allotment.api.meta import Condition
from allotment.api.resource import DeviceTaintRule

TYPE = "EvictionInProgress"


@dataclass(frozen=True, slots=True)
class EvictionCounts:
    """What a rule will do, or would do if its effect were NoExecute; ``evicted`` is what it has done so far."""

    pods: int = 0
    namespaces: int = 0
    published: int = 0  # devices in slices that the rule selects
    allocated: int = 0  # devices in claims that the rule selects
    evicted: int = 0


def present(rule: DeviceTaintRule) -> Condition | None:
    return next((each for each in rule.status.conditions if each.type == TYPE), None)


def condition(rule: DeviceTaintRule, tally: EvictionCounts) -> Condition:
    """The condition as it should be now, without a time."""
    reason, words = _state(rule, tally)
    if tally.evicted:
        words += f" {_count(tally.evicted, 'pod')} evicted since the controller started."
    return Condition(
        type=TYPE,
        status="True" if reason == "PodsPendingEviction" else "False",
        reason=reason,
        message=words.strip(),
        observed_generation=rule.metadata.generation,
    )


def _state(rule: DeviceTaintRule, tally: EvictionCounts) -> tuple[str, str]:
    pods, namespaces = _count(tally.pods, "pod"), _count(tally.namespaces, "namespace")
    match rule.spec.taint.effect:
        case "NoExecute" if tally.pods:
            return "PodsPendingEviction", f"{pods} to be evicted in {namespaces}."
        case "NoExecute":
            return ("Completed" if tally.evicted or _was_at_work(rule) else "NotStarted"), ""
        case "None":
            devices = f"{_count(tally.published, 'device')} published and {tally.allocated} allocated"
            would = f"with the effect NoExecute {pods} would be evicted in {namespaces}"
            return (
                "NoEffect",
                f"Selects {devices}; {would}. This is counted once for each change of the rule.",
            )
        case _:
            return "OtherEffect", "Pods are evicted for the effect NoExecute only."


def _was_at_work(rule: DeviceTaintRule) -> bool:
    """Also true before this controller started, which does not know which pods were evicted then."""
    before = present(rule)
    return (
        before is not None
        and before.observed_generation == rule.metadata.generation
        and before.reason in ("PodsPendingEviction", "Completed")
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
