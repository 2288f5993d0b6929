"""Leases: which holder has a role or is alive, and until when."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import StrategyRules
from allotment.apiserver.store.record import Obj

_SPEC = FieldPath("spec")


def _check(lease: Obj) -> Iterator[FieldError]:
    spec = lease["spec"]
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield _SPEC.child("leaseDurationSeconds").invalid("must be greater than 0", seconds)
    if transitions is not None and transitions < 0:
        yield _SPEC.child("leaseTransitions").invalid("must be greater than or equal to 0", transitions)


RESOURCES = (
    Resource(
        group="coordination.k8s.io",
        version="v1",
        kind="Lease",
        plural="leases",
        namespaced=True,
        columns=(text("Holder", "spec.holderIdentity", "Who holds it."), AGE),
        create_on_update=True,
        unconditional_update=False,
        strategy=StrategyRules(stated=("spec",), check=_check),
        doc="A role that one process holds for a time and must renew.",
    ),
)
