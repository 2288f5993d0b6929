"""What ResourceQuotas leave for future claims, by the rules that the server applies when a claim is created.

The count covers the claims in the cluster, including those that only a simulation made. A claim's usage follows from its spec, so
it is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.api import semantic
from allotment.api.codec import to_builtins
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.quantity import Quantity
from allotment.api.quota_usage import CLAIMS, Usage, counted_in, usage_of
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.api.core import ResourceQuota
    from allotment.scheduler.cluster import Cluster, Template

Claim = ResourceClaim | semantic.ResourceClaim
_NOTHING = Quantity.of(0)


class ClaimQuotas:
    """The quotas of a cluster and the claims that count against them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[ResourceClaim, Usage]] = {}

    def refusal(self, namespace: str, claim: Claim, used: Usage | None = None) -> str:
        """Names the quota that forbids one more such claim, with numbers; empty if none does. ``used`` is what other claims use,
        as returned by the method ``used``."""
        counting = self._counting(namespace)
        if not counting:
            return ""
        wanted, used = usage(claim), self.used(namespace) if used is None else used
        for quota in counting:
            for name, most in sorted(quota.spec.hard.items()):
                more, there = wanted.get(name, _NOTHING), used.get(name, _NOTHING)
                if more.sign > 0 and there + more > most:
                    return f"quota {quota.metadata.name} allows {most} of {name}, {there} are used, and it needs {more}"
        return ""

    def used(self, namespace: str) -> Usage:
        """What the claims of a namespace use, by the quotas' names for it."""
        total: Usage = {}
        for key, claim in self._cluster.claims.objects.items() if self._counting(namespace) else ():
            if claim.metadata.namespace == namespace:
                known = self._known.get(key)
                if known is None or known[0].spec != claim.spec:
                    known = self._known[key] = claim, usage(claim)
                add(total, known[1])
        return total

    def _counting(self, namespace: str) -> Sequence[ResourceQuota]:
        quotas = self._cluster.quotas.get(namespace, {})
        return [each for _, each in sorted(quotas.items()) if _counts_claims(each)]


def add(total: Usage, more: Usage) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, _NOTHING) + amount


def claim_like(template: Template) -> Claim:
    """A claim made from a template, as quotas see it: without a name."""
    if isinstance(template, ResourceClaimTemplate):
        return ResourceClaim(spec=template.spec.spec)
    return semantic.ResourceClaim(spec=template.spec.spec)


def _counts_claims(quota: ResourceQuota) -> bool:
    scoped = quota.spec.scopes or quota.spec.scope_selector
    return not scoped and any(counted_in(name, CLAIMS) for name in quota.spec.hard)


def usage(claim: Claim) -> Usage:
    """What a claim counts for in quotas."""
    document = to_builtins(claim)
    return usage_of(CLAIMS, to_v1(document) if isinstance(claim, semantic.ResourceClaim) else document)
