"""Priority classes: names for the importance of pods. Two belong to the system and always exist."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import flag, number, text
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import StrategyRules
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

HIGHEST = 1_000_000_000  # that users may give
RESERVED_PREFIX = "system-"
_POLICIES = ("Never", "PreemptLowerPriority")


def _initial(name: str, value: int, description: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    }


INITIAL = (
    _initial(
        "system-cluster-critical",
        2 * HIGHEST,
        "For pods without which the cluster does not work; they may run on any node.",
    ),
    _initial(
        "system-node-critical",
        2 * HIGHEST + 1000,
        "For pods without which their node does not work; they stay where they are.",
    ),
)
_SYSTEM = {known["metadata"]["name"]: known["value"] for known in INITIAL}


def _complete(priority: Obj) -> None:
    priority.setdefault("value", 0)
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


class _PriorityRules(StrategyRules):
    """The generation is always 1."""

    def prepare_create(self, obj: Obj, write: Write) -> None:
        super().prepare_create(obj, write)
        obj["metadata"]["generation"] = 1


def _check(priority: Obj) -> Iterator[FieldError]:
    name, value = priority["metadata"].get("name") or "", priority["value"]
    if name.startswith(RESERVED_PREFIX):
        if _SYSTEM.get(name) != value or priority.get("globalDefault"):
            yield FieldPath("metadata", "name").forbidden(
                f"priority class names with '{RESERVED_PREFIX}' prefix are reserved for system use only. "
                f"error: {_mismatch(name, priority)}"
            )
    elif value > HIGHEST:
        yield FieldPath("value").forbidden(f"maximum allowed value of a user defined priority is {HIGHEST}")
    if (policy := priority["preemptionPolicy"]) not in _POLICIES:
        yield FieldPath("preemptionPolicy").not_supported(policy, _POLICIES)


def _mismatch(name: str, priority: Obj) -> str:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if priority["value"] != _SYSTEM[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false"


def _check_change(priority: Obj, old: Obj) -> Iterator[FieldError]:
    if priority["value"] != old["value"]:
        yield FieldPath("value").forbidden("may not be changed in an update.")


RESOURCES = (
    Resource(
        group="scheduling.k8s.io",
        version="v1",
        kind="PriorityClass",
        plural="priorityclasses",
        namespaced=False,
        short_names=("pc",),
        columns=(
            number("Value", "value", "The priority of its pods."),
            flag("Global-Default", "globalDefault", "Whether pods without a class get it."),
            AGE,
            text("PreemptionPolicy", "preemptionPolicy", "Whether its pods displace others."),
        ),
        initial=INITIAL,
        strategy=_PriorityRules(
            complete=_complete,
            check=_check,
            check_change=_check_change,
            immutable=("preemptionPolicy",),
        ),
        doc="A name for how important pods are.",
    ),
)
