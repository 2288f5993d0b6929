"""Resource quotas and limit ranges: how much a namespace may use, and how much each pod in it.

Both are stored here; an admission check enforces quotas.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem
from allotment.api.quantity import Quantity, QuantityError
from allotment.api.validation.container import check_amount
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import CREATED_AT
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

_STANDARD = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "storage",
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ]
)
_OBJECTS = frozenset(  # counted in whole numbers
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_PREFIXES = ("hugepages-", "requests.hugepages-", "count/")
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
MOST_AMOUNTS, MOST_SCOPES, MOST_SCOPE_VALUES = 1000, 20, 1000
"""Every object that is made is compared with all of a quota."""


def _check(quota: Obj) -> Iterator[FieldError]:
    spec, path = quota["spec"], FieldPath("spec")
    if too_many := list(_check_size(spec, path)):
        yield from too_many
        return
    for name, amount in (spec.get("hard") or {}).items():
        here = path.child("hard").key(name)
        yield from _check_counted(name, here)
        yield from _check_hard(name, amount, here)
    if any(scope not in _SCOPES for scope in spec.get("scopes") or ()):
        yield path.child("scopes").invalid("unsupported scope", spec["scopes"])


def _check_size(spec: Obj, path: FieldPath) -> Iterator[FieldError]:
    at_scopes = path.child("scopeSelector", "matchExpressions")
    scopes = at({"spec": spec}, "spec", "scopeSelector", "matchExpressions") or ()
    values = [value for scope in scopes for value in scope.get("values") or ()]
    for where, count, most in (
        (path.child("hard"), len(spec.get("hard") or ()), MOST_AMOUNTS),
        (path.child("scopes"), len(spec.get("scopes") or ()), MOST_SCOPES),
        (at_scopes, len(scopes), MOST_SCOPES),
        (at_scopes.child("values"), len(values), MOST_SCOPE_VALUES),
    ):
        if count > most:
            yield where.too_many(count, most)


def _check_hard(name: str, amount: object, path: FieldPath) -> Iterator[FieldError]:
    quantity = yield from check_amount(name, amount, path)
    if quantity is not None and name in _OBJECTS and quantity.milli_value() % 1000:
        yield path.invalid("must be an integer", str(quantity))


def _check_counted(name: str, path: FieldPath) -> Iterator[FieldError]:
    if name.startswith("count/"):
        return
    if problem := label_key_problem(name):
        yield path.invalid(problem, name)
    elif "/" not in name and name not in _STANDARD and not name.startswith(_PREFIXES):
        yield path.invalid("must be a standard resource type or fully qualified", name)


def _check_status(quota: Obj, old: Obj) -> Iterator[FieldError]:
    for part in ("hard", "used"):
        amounts = at(quota, "status", part) or {}
        if len(amounts) > MOST_AMOUNTS:
            yield FieldPath("status", part).too_many(len(amounts), MOST_AMOUNTS)
            return
        for name, amount in amounts.items():
            here = FieldPath("status", part).key(name)
            yield from _check_counted(name, here)
            yield from check_amount(name, amount, here)


def _shown(quota: Obj, limits: bool) -> str:
    hard, used = at(quota, "status", "hard") or {}, at(quota, "status", "used") or {}
    return ", ".join(
        f"{name}: {_amount(used.get(name, '0'))}/{_amount(amount)}"
        for name, amount in sorted(hard.items())
        if name.startswith("limits.") == limits
    )


def _amount(value: object) -> str:
    try:
        return str(Quantity.from_json(value))
    except QuantityError:
        return str(value)


def _complete_range(limits: Obj) -> None:
    """Of containers: what is missing in one list comes from the next stricter or looser one."""
    for item in limits["spec"].setdefault("limits", []):
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        if default:
            item["default"] = default
        if request:
            item["defaultRequest"] = request


def _check_range(limits: Obj) -> Iterator[FieldError]:
    seen = set()
    for index, item in enumerate(limits["spec"]["limits"]):
        here, type_ = FieldPath("spec", "limits").index(index), item.get("type") or ""
        if not type_:
            yield here.child("type").required("")
        elif type_ not in _LIMIT_TYPES and "/" not in type_:
            yield here.child("type").invalid("must be a standard limit type or fully qualified", type_)
        if type_ in seen:
            yield here.child("type").duplicate(type_)
        seen.add(type_)
        for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            for name, amount in (item.get(part) or {}).items():
                yield from check_amount(name, amount, here.child(part).key(name))


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="ResourceQuota",
        plural="resourcequotas",
        namespaced=True,
        short_names=("quota",),
        columns=(
            PrinterColumn(
                "Request", "string", lambda obj, now: _shown(obj, limits=False), "Used and allowed."
            ),
            PrinterColumn(
                "Limit", "string", lambda obj, now: _shown(obj, limits=True), "The same of limits."
            ),
            AGE,
        ),
        status=True,
        strategy=StrategyRules(
            stated=("spec", "status"),
            status={},
            check=_check,
            check_status=_check_status,
            immutable=("spec.scopes", "spec.scopeSelector"),
        ),
        doc="How much a namespace may have.",
    ),
    Resource(
        group="",
        version="v1",
        kind="LimitRange",
        plural="limitranges",
        namespaced=True,
        short_names=("limits",),
        columns=(CREATED_AT,),
        create_on_update=True,
        strategy=StrategyRules(stated=("spec",), complete=_complete_range, check=_check_range),
        doc="How much a pod or container in a namespace may ask for; kept, not enforced.",
    ),
)
