"""What a person may see: every kind that they may both list and watch, of claims and pods perhaps only in some namespaces.

Asked of the server's own authorizer, so that the page never shows what ``kubectl get --watch`` would not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity

_RESOURCE = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Those in which a kind may be seen; ``names`` has no meaning if it may be in all."""

    everywhere: bool = False
    names: frozenset[str] = frozenset()

    def __contains__(self, namespace: str) -> bool:
        return self.everywhere or namespace in self.names


@dataclass(frozen=True, slots=True)
class FleetRights:
    """What bears on the picture of devices. People for whom it is equal see the same."""

    slices: bool = False
    node_slices: bool = False
    rules: bool = False
    pools: bool = False  # counts, which tell of claims that may not be seen how many they hold
    claims: Namespaces = Namespaces()

    @property
    def counts(self) -> bool:
        """Whether they may know how much is in use altogether."""
        return self.pools or (self.slices and self.claims.everywhere)


@dataclass(frozen=True, slots=True)
class Rights:
    """All that a person may see on the page."""

    fleet: FleetRights
    pods: Namespaces


EVERYTHING = FleetRights(True, True, True, True, Namespaces(everywhere=True))


def rights_of(identity: Identity, authorizer: Authorizer, namespaces: Collection[str]) -> Rights:
    """``namespaces`` are all that there are."""

    def may(group: str, version: str, resource: str, namespace: str = "") -> bool:
        return all(
            authorizer.decide(
                Attributes(identity, verb, group, version, resource, namespace=namespace)
            ).allowed
            for verb in ("list", "watch")
        )

    def where(group: str, resource: str) -> Namespaces:
        if may(group, "v1", resource):
            return Namespaces(everywhere=True)
        return Namespaces(names=frozenset(name for name in namespaces if may(group, "v1", resource, name)))

    return Rights(
        FleetRights(
            slices=may(_RESOURCE, "v1", "resourceslices"),
            node_slices=may(_RESOURCE, "v1alpha2", "noderesourceslices"),
            rules=may(_RESOURCE, "v1", "devicetaintrules"),
            pools=may(_RESOURCE, "v1beta2", "resourcepools"),
            claims=where(_RESOURCE, "resourceclaims"),
        ),
        pods=where("", "pods"),
    )
