"""Which node belongs to a claim, and what is written on the node when it joins.

A node belongs to the claim with its ``spec.providerID``. If a provider cannot know that id beforehand (a group whose nodes
join by themselves), an annotation with the claim's uid decides. A node joins with a taint that keeps pods off it. Registering
removes this taint and writes the claim's labels and taints in one patch, so no pod sees a node that is only half labelled.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.api.autoscaling import NodeClaim
from allotment.api.codec import to_builtins
from allotment.api.core import Node, Taint
from allotment.autoscaler.catalogue.node_claims import DISRUPTED
from allotment.client.form import Obj
from allotment.client.informer import Informer
from allotment.client.shared_informers import Informers

CLAIMED_BY = "allotment.dev/nodeclaim"
"""Annotation of a node: the uid of its claim, where the provider's id cannot decide."""
REGISTERED_LABEL, INITIALIZED_LABEL = "karpenter.sh/registered", "karpenter.sh/initialized"
UNREGISTERED = Taint(key="karpenter.sh/unregistered", effect="NoExecute")

_INDEX = "machines: claim"


class Members:
    """The existing nodes, by claim."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self.informer = nodes
        nodes.add_index(_INDEX, marks_of)

    def of(self, mark: str) -> list[Node]:
        """The nodes with this provider's id, or with the uid of this claim."""
        return self.informer.by(_INDEX, mark)

    def of_claim(self, claim: NodeClaim) -> list[Node]:
        """The nodes of a claim; once one is registered, only that one counts."""
        found = {each.metadata.name: each for each in self.of(claim.metadata.uid)}
        if claim.status.provider_id:
            found |= {each.metadata.name: each for each in self.of(claim.status.provider_id)}
        known = claim.status.node_name
        return [found[name] for name in sorted(found) if known is None or name == known]

    def all(self) -> list[Node]:
        return self.informer.all()


def follow_nodes(informers: Informers) -> Members:
    return Members(informers.of(Node))


def marks_of(node: Node) -> tuple[str, ...]:
    """The ids by which claims may know the node."""
    marks = (node.spec.provider_id, node.metadata.annotations.get(CLAIMED_BY))
    return tuple(each for each in marks if each)


def registration(claim: NodeClaim, node: Node) -> Obj | None:
    """The change that registers the node for the claim; None if it is already registered."""
    if node.metadata.labels.get(REGISTERED_LABEL) == "true":
        return None
    owner = {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }
    taints = _united(node.spec.taints, (*claim.spec.taints, *claim.spec.startup_taints))
    kept = [each for each in taints if each.key != UNREGISTERED.key]
    return {
        "metadata": {
            "labels": {**claim.metadata.labels, REGISTERED_LABEL: "true"},
            "ownerReferences": [*map(to_builtins, node.metadata.owner_references), owner],
        },
        "spec": {"taints": plain_taints(kept)},
    }


def cordon(node: Node) -> Obj | None:
    """The change that keeps new pods off the node; None if it was made before."""
    taints = _united(node.spec.taints, (DISRUPTED,))
    return {"spec": {"taints": plain_taints(taints)}} if len(taints) > len(node.spec.taints) else None


def plain_taints(taints: Iterable[Taint]) -> list[Obj]:
    fields = (
        {"key": each.key, "value": each.value, "effect": each.effect, "timeAdded": each.time_added}
        for each in taints
    )
    return [{name: value for name, value in each.items() if value is not None} for each in fields]


def _united(taints: Iterable[Taint], more: Iterable[Taint]) -> list[Taint]:
    """Taints with the same key and effect are the same."""
    found = {(each.key, each.effect): each for each in taints}
    for each in more:
        found.setdefault((each.key, each.effect), each)
    return list(found.values())
