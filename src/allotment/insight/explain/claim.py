"""Explains a claim for ``allot explain``: what it has, or why it has nothing.

A claim gets devices together with a pod that uses it, so a claim alone is explained as if for a pod that needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod, PodResourceClaim, PodSpec, Toleration
from allotment.api.meta import ObjectMeta
from allotment.api.text import plural
from allotment.insight.claim_facts import facts_of
from allotment.insight.explain.explanation import Explanation, Outlook, told_of, well_or_not
from allotment.insight.explain.trial_scheduler import Examination
from allotment.insight.manifest_cluster import name_of
from allotment.insight.placement.needs import FINISHED
from allotment.scheduler.pod import claims_named

if TYPE_CHECKING:
    from allotment.insight.snapshot import Snapshot
    from allotment.usage.allocation import AnyClaim


_OF_NODES = "node.kubernetes.io/"  # the prefix of taints for nodes that are unhealthy or cordoned


def told_of_claim(
    claim: AnyClaim, snapshot: Snapshot, now: datetime, go_on: Callable[[], bool]
) -> Explanation:
    """The explanation of a claim."""
    meta = claim.metadata
    facts = facts_of(claim, snapshot, now)
    if claim.status.allocation is not None:
        nodes = sorted({device.node for device in facts.devices if device.node})
        where = f" on node {nodes[0]}" if len(nodes) == 1 else ""
        users = plural(len(claim.status.reserved_for), "consumer")
        reason = f"has {plural(len(facts.devices), 'device')}{where} and {users}"
        return told_of(
            "claim",
            meta,
            Outlook.PLACED,
            f"{reason}; {well_or_not(facts.problems)}",
            node=nodes[0] if len(nodes) == 1 else "",
            devices=facts.devices,
            problems=facts.problems,
        )
    key = "/".join(name_of(meta))
    waiting = sorted(
        "/".join(name_of(pod.metadata))
        for pod in snapshot.some(Pod)
        if key in claims_named(pod) and not pod.spec.node_name and pod.status.phase not in FINISHED
    )
    if waiting:
        snapshot.notes.append(
            f"{plural(len(waiting), 'pod')} with this claim wait{'s' * (len(waiting) == 1)} for a node: "
            f"allot explain pod {waiting[0]} explains what else they need"
        )
    return Examination(snapshot, _bare_pod(claim, snapshot), [], [], now, go_on).explain("claim", meta)


def _bare_pod(claim: AnyClaim, snapshot: Snapshot) -> Pod:
    """A pod that needs nothing but the claim, and tolerates the taints that operators put on nodes."""
    keys = {taint.key for node in snapshot.of(Node) for taint in node.spec.taints}
    namespace, name = name_of(claim.metadata)
    return Pod(
        metadata=ObjectMeta(name=f"(user of {name})", namespace=namespace, uid=f"user of {namespace}/{name}"),
        spec=PodSpec(
            resource_claims=(PodResourceClaim(name="claim", resource_claim_name=name),),
            tolerations=tuple(
                Toleration(key=key, operator="Exists")
                for key in sorted(keys)
                if not key.startswith(_OF_NODES)
            ),
        ),
    )
