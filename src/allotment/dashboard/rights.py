"""Where a person may read: every kind that they may both list and watch, of claims and pods perhaps only in some namespaces.

Asked of the server's own authorizer. It only says what to read; the reading is done as the person (``view``), and authorised once more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity

NAMESPACES = 100
"""In how many a kind is read one by one; of more, the first by name."""
_NAMED = 5
_RESOURCE = "resource.k8s.io"
_KARPENTER = "karpenter.sh"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Those in which a kind may be read; ``names`` has no meaning if it may be in all."""

    everywhere: bool = False
    names: frozenset[str] = frozenset()

    def each(self) -> list[str]:
        """What to read one by one; the empty name is all of them at once."""
        return [""] if self.everywhere else sorted(self.names)


@dataclass(frozen=True, slots=True)
class Rights:
    """All that bears on what a person is shown."""

    slices: bool = False
    node_slices: bool = False
    rules: bool = False
    pools: bool = False  # counts, which tell of claims that may not be seen how many they hold
    claims: Namespaces = Namespaces()
    pods: Namespaces = Namespaces()
    node_pools: bool = False
    node_groups: bool = False
    node_claims: bool = False
    overlays: bool = False


def rights_of(identity: Identity, authorizer: Authorizer, namespaces: Collection[str]) -> Rights:
    """``namespaces`` are all that there are. The person learns of those only in which they may read."""

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
        return Namespaces(names=frozenset(found[:NAMESPACES]))

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
    """Names of namespaces, for people."""
    told = sorted(names)[:_NAMED]
    more = f" and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return f"{'namespace' if len(names) == 1 else 'namespaces'} {', '.join(told)}{more}"
