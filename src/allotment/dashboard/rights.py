"""Where a person may read: every kind that they may both list and watch; claims and pods perhaps only in some namespaces.

The answers come from the server's own authorizer. They only determine what to read; the reading is done with the person's
identity (``person_view``), and authorised once more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity

MOST_NAMESPACES = 100
"""In how many namespaces a kind is read one by one; of more, the first by name."""
_NAMESPACES_NAMED = 5
_RESOURCE = "resource.k8s.io"
_KARPENTER = "karpenter.sh"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces in which a person may read a kind; ``names`` has no meaning if they may read it in all."""

    everywhere: bool = False
    names: frozenset[str] = frozenset()

    def each(self) -> list[str]:
        """The namespaces to read one by one; the empty name stands for all at once."""
        return [""] if self.everywhere else sorted(self.names)


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything that determines what a person sees."""

    slices: bool = False
    node_slices: bool = False
    rules: bool = False
    pools: bool = False  # counts, which reveal how much hidden claims hold
    claims: Namespaces = Namespaces()
    pods: Namespaces = Namespaces()
    node_pools: bool = False
    node_groups: bool = False
    node_claims: bool = False
    overlays: bool = False


def rights_of(identity: Identity, authorizer: Authorizer, namespaces: Collection[str]) -> Rights:
    """``namespaces`` are all that exist. The person only learns of those in which they may read."""

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
        found = [name for name in sorted(namespaces) if may(group, "v1", resource, name)]
        return Namespaces(names=frozenset(found[:MOST_NAMESPACES]))

    return Rights(
        slices=may(_RESOURCE, "v1", "resourceslices"),
        node_slices=may(_RESOURCE, "v1alpha2", "noderesourceslices"),
        rules=may(_RESOURCE, "v1", "devicetaintrules"),
        pools=may(_RESOURCE, "v1beta2", "resourcepools"),
        claims=where(_RESOURCE, "resourceclaims"),
        pods=where("", "pods"),
        node_pools=may(_KARPENTER, "v1", "nodepools"),
        node_groups=may("allotment.dev", "v1", "nodegroups"),
        node_claims=may(_KARPENTER, "v1", "nodeclaims"),
        overlays=may(_KARPENTER, "v1alpha1", "nodeoverlays"),
    )


def some(names: frozenset[str]) -> str:
    """Some names of namespaces, for people."""
    told = sorted(names)[:_NAMESPACES_NAMED]
    more = f" and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return f"{'namespace' if len(names) == 1 else 'namespaces'} {', '.join(told)}{more}"
