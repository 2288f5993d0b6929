"""The quota that one object uses, under Kubernetes' names: ``pods``, ``requests.cpu``, ``count/jobs.batch``,
``gpu.deviceclass.resource.k8s.io/devices``; and the scopes that a pod is in.

A finished pod counts as an object (``count/pods``) but no longer as a consumer. A claim counts the most devices of each
class that it may get, over all alternatives of a request; a request for all devices counts 32. A claim with KEP-4381
semantic parameters does not itself say how many instances it wants: it counts one and, once allocated, those it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from allotment.api.conversion.v1alpha2 import carries
from allotment.api.plain import Obj, at
from allotment.api.quantity import Quantity, QuantityError

Usage = dict[str, Quantity]

PODS = "pods"
CLAIMS = "resourceclaims.resource.k8s.io"
SERVICES = "services"
ALL_DEVICES = 32
"""The most devices that a request for all devices may get."""

DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_OF_CLASS_BY_NAME = "requests.deviceclass.resource.kubernetes.io/"
_BY_PLURAL = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    )
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_ONE = Quantity.of(1)
_NOTHING = Quantity.of(0)


def usage_of(resource: str, obj: Obj) -> Usage:
    """The quota that an object uses; ``resource`` is the id of its resource."""
    usage = {f"count/{resource}": _ONE}
    if resource == PODS:
        usage |= _of_pod(obj)
    elif resource == CLAIMS:
        usage |= _of_claim(obj)
    elif resource in _BY_PLURAL:
        usage[resource] = _ONE
        if resource == SERVICES:
            usage |= _of_service(obj)
    return usage


def counted_in(name: str, resource: str) -> bool:
    """Whether objects of a resource can count under a name at all; callers skip the others."""
    if name.startswith("count/"):
        return name == f"count/{resource}"
    if name.endswith(DEVICES_OF_CLASS) or name.startswith(_OF_CLASS_BY_NAME):
        return resource == CLAIMS
    if resource in _BY_PLURAL:
        return name == resource or (resource == SERVICES and name.startswith("services."))
    return resource == PODS and name not in _BY_PLURAL and not name.startswith("services.")


def missing_of(pod: Obj, names: Iterable[str]) -> str:
    """A complaint, in upstream's words, about containers that do not state a need that a quota counts; or nothing."""
    needed = sorted(
        name for name in names if name.rpartition(".")[2] in ("cpu", "memory") and "/" not in name
    )
    told = []
    for name in needed if not at(pod, "spec", "resources") else ():
        kind, _, resource = name.rpartition(".")
        lacking = sorted(
            str(container.get("name"))
            for container in _containers(pod, "containers", "initContainers")
            if resource not in (at(container, "resources", kind or "requests") or {})
        )
        if lacking:
            told.append(f"{name} for: {','.join(dict.fromkeys(lacking))}")
    return f"must specify {'; '.join(told)}" if told else ""


def in_scope(pod: Obj, scope: str, operator: str = "Exists", values: Iterable[str] = ()) -> bool:
    """Whether a pod is in a scope; operator and values apply to priority classes only."""
    match scope:
        case "Terminating" | "NotTerminating":
            return (at(pod, "spec", "activeDeadlineSeconds") is not None) == (scope == "Terminating")
        case "BestEffort" | "NotBestEffort":
            return _is_best_effort(pod) == (scope == "BestEffort")
        case "PriorityClass":
            name = at(pod, "spec", "priorityClassName") or ""
            if operator in ("Exists", "DoesNotExist"):
                return bool(name) == (operator == "Exists")
            return (name in set(values)) == (operator == "In")
        case "CrossNamespacePodAffinity":
            return any(
                term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(pod)
            )
    return False


def _of_pod(pod: Obj) -> Usage:
    if at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return {}
    usage = {"pods": _ONE}
    for name, amount in _needed(pod, "requests").items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
        usage[f"requests.{name}"] = amount
    for name, amount in _needed(pod, "limits").items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def _needed(pod: Obj, part: str) -> Usage:
    """What a pod requests as a whole: the sum of its containers, or more if starting it takes more."""
    running: Usage = {}
    for container in _containers(pod, "containers"):
        running = _sum(running, _amounts(at(container, "resources", part)))
    starting: Usage = {}
    beside: Usage = {}  # init containers so far that keep running
    for container in _containers(pod, "initContainers"):
        own = _amounts(at(container, "resources", part))
        if container.get("restartPolicy") == "Always":
            running, beside = _sum(running, own), _sum(beside, own)
            starting = _most(starting, beside)
        else:
            starting = _most(starting, _sum(own, beside))
    whole = _most(running, starting) | _amounts(at(pod, "spec", "resources", part))
    return _sum(whole, _amounts(at(pod, "spec", "overhead"))) if whole else whole


def _of_service(service: Obj) -> Usage:
    spec = service.get("spec") or {}
    type_, ports = spec.get("type"), len(spec.get("ports") or ())
    balanced = type_ == "LoadBalancer"
    on_nodes = type_ == "NodePort" or (balanced and spec.get("allocateLoadBalancerNodePorts") is not False)
    return {
        "services.loadbalancers": _ONE if balanced else _NOTHING,
        "services.nodeports": Quantity.of(ports) if on_nodes else _NOTHING,
    }


def _of_claim(claim: Obj) -> Usage:
    devices: dict[str, int] = {}
    for request in at(claim, "spec", "devices", "requests") or ():
        most: dict[str, int] = {}
        alternatives = request.get("firstAvailable") or ()
        for wish in alternatives or [request["exactly"]] if alternatives or request.get("exactly") else ():
            name = wish.get("deviceClassName", "")
            count = ALL_DEVICES if wish.get("allocationMode") == "All" else wish.get("count", 1)
            most[name] = max(most.get(name, 0), count)
        for name, count in most.items():
            devices[name] = devices.get(name, 0) + count
    instances = len(at(claim, "status", "allocation", "devices", "results") or ())
    if instances > 1 and carries(claim):
        devices = {name: max(count, instances) for name, count in devices.items()}
    usage: Usage = {}
    for name, count in devices.items():
        usage[f"{name}{DEVICES_OF_CLASS}"] = usage[f"{_OF_CLASS_BY_NAME}{name}"] = Quantity.of(count)
    return usage


def _is_best_effort(pod: Obj) -> bool:
    amounts = [
        amount
        for owner in (pod.get("spec") or {}, *_containers(pod, "containers", "initContainers"))
        for part in ("requests", "limits")
        for name, amount in _amounts(at(owner, "resources", part)).items()
        if name in ("cpu", "memory")
    ]
    return not any(amount.sign > 0 for amount in amounts)


def _terms(pod: Obj) -> Iterable[Obj]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = at(pod, "spec", "affinity", kind) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _containers(pod: Obj, *lists: str) -> list[Obj]:
    return [container for name in lists for container in at(pod, "spec", name) or ()]


def _amounts(plain: Any) -> Usage:
    amounts: Usage = {}
    for name, value in plain.items() if isinstance(plain, dict) else ():
        try:
            amounts[name] = Quantity.from_json(value)
        except QuantityError:  # validation reported this value, or the object is older than the rule
            continue
    return amounts


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Usage:
    return {**one, **{name: one[name] + value if name in one else value for name, value in other.items()}}


def _most(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Usage:
    return {
        **one,
        **{name: max(one[name], value) if name in one else value for name, value in other.items()},
    }
