"""Which concerns are asked about a write, and in which order."""

from __future__ import annotations

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.admission import Admission, Admissions, Kinds
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj

PODS = Resource("", "v1", "Pod", "pods", True)
CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True)
CREATE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-02T03:04:05Z")


class Mutating:
    """Notes in ``told`` that it was asked to change something."""

    def __init__(self, told: list[str], name: str, kinds: Kinds) -> None:
        self.told, self.name, self.mutated = told, name, kinds

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        self.told.append(f"{self.name} mutates {resource.id}")


class Judging:
    """Notes in ``told`` that it was asked to judge something."""

    def __init__(self, told: list[str], name: str, kinds: Kinds) -> None:
        self.told, self.name, self.judged = told, name, kinds

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        self.told.append(f"{self.name} judges {resource.id}")


class Both(Mutating, Judging):
    def __init__(self, told: list[str], name: str, mutated: Kinds, judged: Kinds) -> None:
        Mutating.__init__(self, told, name, mutated)
        self.judged = judged


def asked(resource: Resource, told: list[str], *concerns: Admission) -> list[str]:
    """What the concerns noted of a write, which is made twice: the second time is remembered."""
    admissions = Admissions(concerns)
    for _ in range(2):
        told.clear()
        admissions.mutate(resource, {}, None, CREATE)
        admissions.admit(resource, {}, None, CREATE)
    return told


def test_each_is_asked_about_its_own_kinds_in_its_turn() -> None:
    told: list[str] = []
    concerns = (
        Mutating(told, "account", frozenset({"pods"})),
        Judging(told, "books", frozenset({CLAIMS.id})),
        Both(told, "class", frozenset({"pods"}), frozenset({"classes"})),
        Judging(told, "node", None),
    )
    assert asked(PODS, told, *concerns) == ["account mutates pods", "class mutates pods", "node judges pods"]
    assert asked(CLAIMS, told, *concerns) == [f"books judges {CLAIMS.id}", f"node judges {CLAIMS.id}"]
