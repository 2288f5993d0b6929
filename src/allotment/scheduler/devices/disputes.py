"""Claims that were promised a device which another claim had first, and that their writer left behind.

A scheduler undoes its write to a claim when it sees such a conflict (``claim_writer``). If the scheduler was killed before that,
the claim is left over: its pod cannot use it, and the claim's other devices stay closed to other pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod_progress import PodProgress


class Disputes:
    """Finds such claims, each once."""

    def __init__(self, cluster: Cluster, progress: PodProgress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._found: dict[str, str] = {}  # claim → its version when found

    def left_over(self) -> Iterator[str]:
        """The claims to release now."""
        claims = self._cluster.claims
        if not claims.disputed:
            self._found.clear()
            return
        self._found = {key: version for key, version in self._found.items() if key in claims.disputed}
        for key in list(claims.disputed):
            claim = claims.objects.get(key)
            if claim is None or key in claims.flights:
                continue
            version = claim.metadata.resource_version
            if self._found.get(key) != version and self._nobody_has(claim):
                self._found[key] = version
                yield key

    def _nobody_has(self, claim: ResourceClaim) -> bool:
        """Whether all users of a claim still wait, so that releasing it breaks nothing."""
        users, namespace = claim.status.reserved_for, claim.metadata.namespace
        return bool(users) and all(self._only_waits(namespace, user) for user in users)

    def _only_waits(self, namespace: str, user: ResourceClaimConsumerReference) -> bool:
        key = f"{namespace}/{user.name}"
        if user.resource == "podgroups":
            members = self._cluster.members.get(key, {}).values()
            return bool(members) and all(self._progress.waits(pod) for pod in members)
        pod = self._cluster.pods.get(key)
        return pod is not None and pod.uid == user.uid and self._progress.waits(pod)
