"""Rules for parts of a status that several kinds share: numbers of pods, conditions, addresses of load balancers.

Controllers write a status, but so can anybody else with the right to. Like Kubernetes, we refuse what makes no sense;
readers must cope with whatever passes, however odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from allotment.api.codec import decode
from allotment.api.fields import FieldError, FieldPath
from allotment.api.meta import Condition
from allotment.api.names import dns_subdomain_problem
from allotment.api.validation.metadata import check_conditions
from allotment.apiserver.registry.strategies import Comparison, at
from allotment.apiserver.store.record import Obj

STATUS = FieldPath("status")
_NEGATIVE = "must be greater than or equal to 0"
_MODES = ("Proxy", "VIP")
_MOST_CONDITIONS = 1000


def counts(*names: str, replicas: tuple[str, ...] = ()) -> Comparison:
    """The rule for numbers that are not negative; those of ``replicas`` are no more than all replicas, and what is available
    is ready. How often names collided never falls."""

    def check(obj: Obj, old: Obj) -> Iterator[FieldError]:
        status: Obj = obj.get("status") or {}
        yield from not_negative(status, "replicas", *names, *replicas, "observedGeneration", "collisionCount")
        whole, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
        for name in replicas:
            if (number := status.get(name) or 0) > whole:
                yield STATUS.child(name).invalid("cannot be greater than status.replicas", number)
        if replicas and (available := status.get("availableReplicas") or 0) > ready:
            yield STATUS.child("availableReplicas").invalid("cannot be greater than readyReplicas", available)
        collisions = status.get("collisionCount") or 0
        if collisions < (at(old, "status", "collisionCount") or 0):
            yield STATUS.child("collisionCount").invalid("cannot be decremented", collisions)

    return check


def not_negative(status: Obj, *names: str) -> Iterator[FieldError]:
    for name in names:
        if (number := status.get(name) or 0) < 0:
            yield STATUS.child(name).invalid(_NEGATIVE, number)


def strict_conditions(obj: Obj) -> Iterator[FieldError]:
    """The rules of conditions of the newer form: complete, of known status, one of a type."""
    found = tuple(decode(Condition, each) for each in at(obj, "status", "conditions") or ())
    return check_conditions(found, STATUS.child("conditions"), _MOST_CONDITIONS)


def balancer_errors(obj: Obj, *, has_mode: bool) -> Iterator[FieldError]:
    """What is wrong with the outer addresses that a load balancer gave; ``has_mode`` tells that they say how they are reached."""
    for index, each in enumerate(at(obj, "status", "loadBalancer", "ingress") or ()):
        here = STATUS.child("loadBalancer", "ingress").index(index)
        address, name, mode = each.get("ip") or "", each.get("hostname") or "", each.get("ipMode")
        if address and (problem := address_problem(address)):
            yield here.child("ip").invalid(problem, address)
        if has_mode and mode is not None:
            if not address:
                yield here.child("ipMode").forbidden("may not be specified when `ip` is not set")
            elif mode not in _MODES:
                yield here.child("ipMode").not_supported(mode, _MODES)
        if name and address_problem(name) is None:
            yield here.child("hostname").invalid("must be a DNS name, not an IP address", name)
        elif name and (problem := dns_subdomain_problem(name)):
            yield here.child("hostname").invalid(problem, name)


def address_problem(text: str) -> str | None:
    try:
        ip_address(text)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7)"
    return None
