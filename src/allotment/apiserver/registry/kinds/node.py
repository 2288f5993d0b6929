"""Nodes: the machines that pods run on. They register themselves with a status, and report it through /status after."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem, label_value_problem
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def _complete(node: Obj) -> None:
    spec, status = node["spec"], node["status"]
    ranges = spec.get("podCIDRs") or []
    if (first := spec.get("podCIDR")) and first != (ranges[0] if ranges else ""):
        spec["podCIDRs"] = [first]
    elif ranges:
        spec["podCIDR"] = ranges[0]
    status["nodeInfo"] = {**dict.fromkeys(_INFO, ""), **(status.get("nodeInfo") or {})}
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _check(node: Obj) -> Iterator[FieldError]:
    path = FieldPath("metadata", "taints")  # so upstream reports them, though they are in the spec
    seen = set()
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        here, key, effect = path.index(index), taint.get("key") or "", taint.get("effect") or ""
        if problem := label_key_problem(key):
            yield here.child("key").invalid(problem, key)
        if problem := label_value_problem(taint.get("value") or ""):
            yield here.child("value").invalid(problem, taint.get("value"))
        if not effect:
            yield here.child("effect").required()
        elif effect not in _TAINT_EFFECTS:
            yield here.child("effect").not_supported(effect, _TAINT_EFFECTS)
        if (key, effect) in seen:
            yield here.duplicate(f"{key}:{effect}")
        seen.add((key, effect))

    yield from _range_errors(node["spec"].get("podCIDRs") or [])


def _range_errors(ranges: list[str]) -> Iterator[FieldError]:
    """At most one range for each family of addresses."""
    path, families = FieldPath("spec", "podCIDRs"), set()
    for index, text in enumerate(ranges[:3]):
        try:
            families.add(ip_network(text, strict=False).version)
        except ValueError:
            yield path.index(index).invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24)", text)
            return
    if len(ranges) != len(families):
        yield path.invalid("may specify no more than one CIDR for each IP family", ranges[:3])


def _check_change(node: Obj, old: Obj) -> Iterator[FieldError]:
    spec, before = node["spec"], old["spec"]
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        yield FieldPath("spec", "podCIDRs").forbidden(
            'node updates may not change podCIDR except from "" to valid'
        )
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield FieldPath("spec", "providerID").invalid("field cannot be modified once set")


def _status(node: Obj, now: str) -> str:
    ready = next(
        (
            condition.get("status")
            for condition in reversed(at(node, "status", "conditions") or ())
            if condition.get("type") == "Ready"
        ),
        None,
    )
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at(node, "spec", "unschedulable") else word


def _roles(node: Obj, now: str) -> str:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE and value:
            roles.add(value)
    return ",".join(sorted(roles)) or "<none>"


def _info(node: Obj, name: str) -> str:
    return at(node, "status", "nodeInfo", name) or ""


def _kernel(node: Obj, now: str) -> str:
    architecture = _info(node, "architecture")
    kernel = _info(node, "kernelVersion") or "<unknown>"
    return f"{kernel} ({architecture})" if architecture else kernel


def _address(node: Obj, type_: str) -> str:
    addresses = at(node, "status", "addresses") or ()
    return next((entry.get("address", "") for entry in addresses if entry.get("type") == type_), "<none>")


COLUMNS = (
    PrinterColumn("Status", "string", _status, "Whether the node is ready, and whether it takes new pods."),
    PrinterColumn("Roles", "string", _roles, "The roles that its labels give it."),
    AGE,
    PrinterColumn(
        "Version", "string", lambda obj, now: _info(obj, "kubeletVersion"), "The kubelet's version."
    ),
    PrinterColumn(
        "Internal-IP",
        "string",
        lambda obj, now: _address(obj, "InternalIP"),
        "Its inner address.",
        priority=1,
    ),
    PrinterColumn(
        "External-IP",
        "string",
        lambda obj, now: _address(obj, "ExternalIP"),
        "Its outer address.",
        priority=1,
    ),
    PrinterColumn(
        "OS-Image",
        "string",
        lambda obj, now: _info(obj, "osImage") or "<unknown>",
        "Its operating system.",
        priority=1,
    ),
    PrinterColumn("Kernel-Version", "string", _kernel, "Its kernel, with the architecture.", priority=1),
    PrinterColumn(
        "Container-Runtime",
        "string",
        lambda obj, now: _info(obj, "containerRuntimeVersion") or "<unknown>",
        "What runs its containers.",
        priority=1,
    ),
)

RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        namespaced=False,
        short_names=("no",),
        columns=COLUMNS,
        fields={
            "spec.unschedulable": lambda obj: "true" if at(obj, "spec", "unschedulable") else "false",
        },
        status=True,
        strategy=StrategyRules(
            stated=("spec", "status"),
            complete=_complete,
            status={},
            status_kept_on_create=True,
            check=_check,
            check_change=_check_change,
        ),
        doc="A machine that pods run on.",
    ),
)
