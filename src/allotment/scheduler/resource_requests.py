"""How much of a node's resources a pod takes, in billionths: what its containers ask for, as the kubelet will count it.

Init containers run one after another before the others, so the largest counts; those with restartPolicy Always
(sidecars) keep running beside everything that starts after them. A pod-level request replaces the sum of its
containers, resource by resource; overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.core import Container, PodSpec
    from allotment.api.quantity import Quantity

Amounts = dict[str, int]


def requests_of(spec: PodSpec) -> Amounts:
    """What a pod takes of each resource."""
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources):
        return amounts(_asked(spec.containers[0]))
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _asked(container))
    _fold_init_containers(total, spec)
    if spec.resources is not None:
        for name, amount in (spec.resources.requests or spec.resources.limits).items():
            total[name] = amount.nanos
    _add(total, spec.overhead)
    return total


def _asked(container: Container) -> Mapping[str, Quantity]:
    """A container's requests; a limit without a request stands for one (the server fills that in for most clients)."""
    resources = container.resources
    if not resources.limits:
        return resources.requests
    return {**resources.limits, **resources.requests}


def _fold_init_containers(total: Amounts, spec: PodSpec) -> None:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        asked = _asked(container)
        if container.restart_policy == "Always":
            _add(sidecars, asked)
            _raise(peak, sidecars)
        else:
            _raise(peak, {name: sidecars.get(name, 0) + amount.nanos for name, amount in asked.items()})
    for name, amount in sidecars.items():
        total[name] = total.get(name, 0) + amount
    _raise(total, peak)


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Quantities as billionths."""
    return {name: quantity.nanos for name, quantity in quantities.items()}


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount.nanos


def _raise(total: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        if amount > total.get(name, 0):
            total[name] = amount
