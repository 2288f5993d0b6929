"""Why pods wait, as the cluster changes, for somebody who may not see all claims."""

from __future__ import annotations

from datetime import UTC, datetime

from allotment.api.codec import decode
from allotment.api.core import Node, Pod
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.insight.explain.explanation import Outlook
from allotment.insight.snapshot import Snapshot
from allotment.insight.waiting_pods import WaitingPods
from tests.cli.test_explain import waiting
from tests.insight.fleet import gpu_class, pool_counts, reporting_node, slice_of, team_claim

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def world(*claims: ResourceClaim) -> Snapshot:
    """A node with two devices, both of them in use as its ResourcePool says, seen by somebody who sees these claims."""
    return Snapshot(
        {
            Node: [decode(Node, reporting_node("node-1"))],
            ResourceSlice: [decode(ResourceSlice, slice_of("node-1", "gpu-0", "gpu-1"))],
            DeviceClass: [decode(DeviceClass, gpu_class())],
            ResourcePool: [decode(ResourcePool, pool_counts("node-1", 2, 2, 0))],
            ResourceClaim: list(claims),
            Pod: [decode(Pod, waiting("waits", "one"))],
        },
        namespaces=("team-a",),
    )


def test_a_device_that_passes_from_a_hidden_claim_to_one_that_can_be_seen() -> None:
    one, mine = decode(ResourceClaim, team_claim("one")), decode(ResourceClaim, team_claim("mine", "gpu-0"))
    seen = world(one)
    waits = WaitingPods(seen)
    assert [each.state for each in waits.told(NOW, lambda: True)] == [
        Outlook.NOWHERE
    ]  # both are hidden claims'
    seen.objects[ResourceClaim].append(mine)
    seen.usage.change(None, mine)
    waits.change(None, mine)
    assert [each.state for each in waits.told(NOW, lambda: True)] == [Outlook.NOWHERE]
    seen.objects[ResourceClaim].remove(mine)
    seen.usage.change(mine, None)
    waits.change(mine, None)
    assert [each.state for each in waits.told(NOW, lambda: True)] == [Outlook.NOWHERE]


def test_without_time_the_pods_own_condition_is_told_and_it_is_known_to_be_behind() -> None:
    seen = world(decode(ResourceClaim, team_claim("one")))
    seen.objects[Pod] = [decode(Pod, waiting("waits", "one", says="0/1 nodes: somebody said so"))]
    waits = WaitingPods(seen)
    [told] = waits.told(NOW, lambda: False)
    assert (told.state, told.sentence, waits.behind) == (None, "0/1 nodes: somebody said so", True)
    [told] = waits.told(NOW, lambda: True)
    assert (told.state, waits.behind) == (Outlook.NOWHERE, False)
