"""Pods."""

from __future__ import annotations

from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.podspec import complete_pod
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import Rules, at
from allotment.apiserver.store.record import Obj


class _PodRules(Rules):
    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        spec, phase = obj["spec"], at(obj, "status", "phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return None
        wish = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return (1 if wish < 0 else wish) or None


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        namespaced=True,
        short_names=("po",),
        categories=("all",),
        columns=(AGE,),
        status=True,
        strategy=_PodRules(complete=complete_pod, status={"phase": "Pending"}, generation=True),
        doc="Containers that run together on one node.",
    ),
)
