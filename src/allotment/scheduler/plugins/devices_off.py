"""Replaces DynamicResources while the feature gate DynamicResourceAllocation is off: pods that use claims wait.

A scheduler without the plugin would bind them to any node, where their containers could never start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.scheduler.framework import SUCCESS, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class DevicesOff:
    """The plugin that rejects every pod with claims. No event in the cluster can help such a pod."""

    name = "DevicesOff"
    wakes: Sequence[Wake] = ()

    def pre_enqueue(self, pod: PodInfo, cluster: Cluster) -> Status:
        if not pod.pod.spec.resource_claims:
            return SUCCESS
        words = "uses resource claims, and the feature gate DynamicResourceAllocation is off"
        return Status(StatusCode.UNRESOLVABLE, self.name, words)

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        return False

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return False
