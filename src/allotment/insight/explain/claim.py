"""A claim, as ``allot explain`` tells of it: what it has, or why it has nothing.

A claim gets devices with a pod that uses it, so one by itself is explained as for a pod that wants nothing else.
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


_OF_NODES = "node.kubernetes.io/"  # the prefix of taints that say that a node is not well, or cordoned


def told_of_claim(claim: AnyClaim, seen: Snapshot, now: datetime, go_on: Callable[[], bool]) -> Explanation:
    """What there is to tell of a claim."""
    meta = claim.metadata
    facts = facts_of(claim, seen, now)
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
        for pod in seen.some(Pod)
        if key in claims_named(pod) and not pod.spec.node_name and pod.status.phase not in FINISHED
    )
    if waiting:
        seen.notes.append(
            f"{plural(len(waiting), 'pod')} with this claim wait{'s' * (len(waiting) == 1)} for a node: "
            f"allot explain pod {waiting[0]} tells what else is needed"
        )
    return Examination(seen, _bare_pod(claim, seen), [], [], now, go_on).explain("claim", meta)


def _bare_pod(claim: AnyClaim, seen: Snapshot) -> Pod:
    """A pod that wants a claim and nothing else, and puts up with what operators say about nodes."""
    keys = {taint.key for node in seen.of(Node) for taint in node.spec.taints}
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
