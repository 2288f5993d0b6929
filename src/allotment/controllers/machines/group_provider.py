"""Machines of NodeGroups, whose nodes an external fleet adds: the fleet follows a target number.

The number is ``status.target`` of the group: the nodes that exist and stay, plus those for which claims wait, but at least
``spec.min``. It is counted anew each time, so that repeating a launch changes nothing. Nodes join with the group's label,
under names of their own. Each node is assigned to the oldest waiting claim, by an annotation with the claim's uid. When a
claim is deleted, its node is marked for removal, and the fleet removes the marked nodes. A node that no claim waits for when
it joins stays as a spare for the next claim; it may belong to somebody, so this provider does not remove it.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.autoscaling import NODE_GROUP, NodeClaim, NodeGroup
from allotment.api.core import Node
from allotment.api.rights import READ
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, state_of
from allotment.client.client import Collection
from allotment.client.form import Typed
from allotment.client.work_queue import WorkQueue
from allotment.controllers.controller import Again, Reconciler
from allotment.controllers.machines.membership import CLAIMED_BY, follow_nodes
from allotment.controllers.machines.provider import LaunchFailed, OutOfStock, Running, Surroundings

PREFIX = "nodegroup://"
REMOVED = "allotment.dev/remove"
"""Annotation of a node: the fleet should remove this node, and not another one of its group."""
_BY_GROUP = "machines: group"
_WANTING = (ClaimProgress.LAUNCHING, ClaimProgress.LAUNCHED)


class _Fleets:
    """The nodes of groups, and the claims that wait for more: the oldest first."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.claims = surroundings.informers.at(surroundings.claims, NodeClaim)
        self.members = follow_nodes(surroundings.informers)
        self.claims.add_index(_BY_GROUP, _groups)
        self.members.informer.add_index(_BY_GROUP, _groups)

    def waiting(self, group: str) -> list[NodeClaim]:
        """Claims without a node that want one."""
        found = [each for each in self.claims.by(_BY_GROUP, group) if state_of(each) in _WANTING]
        return sorted((each for each in found if not self.members.of_claim(each)), key=_age)

    def staying(self, group: str) -> list[Node]:
        nodes = self.members.informer.by(_BY_GROUP, group)
        return sorted((each for each in nodes if REMOVED not in each.metadata.annotations), key=_age)

    def spare(self, group: str) -> list[Node]:
        """Nodes that stay and belong to no claim."""
        return [each for each in self.staying(group) if CLAIMED_BY not in each.metadata.annotations]


class GroupProvider:
    """The provider whose machines join NodeGroups by themselves."""

    name = "groups"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._fleets = _Fleets(surroundings)
        self._client_nodes = surroundings.client.of(Node)

    def reconcilers(self) -> Sequence[Reconciler[str]]:
        return [GroupMembers(self._surroundings)] if self._surroundings.groups is not None else []

    async def launch(self, claim: NodeClaim, machine: Machine) -> Running:
        if machine.group is None:
            raise LaunchFailed(
                f"{machine.name} does not belong to a NodeGroup, and this provider has only those"
            )
        group, most = machine.group.metadata.name, machine.group.spec.max
        taken = len(self._fleets.staying(group)) - len(self._fleets.spare(group))
        before = [each for each in self._fleets.waiting(group) if _age(each) < _age(claim)]
        if taken + len(before) >= most:
            raise OutOfStock(f"group {group} already has its maximum of {most} nodes")
        return Running(f"{PREFIX}{group}/{claim.metadata.uid}", claim.metadata.uid)

    async def terminate(self, claim: str) -> bool:
        nodes = self._fleets.members.of(claim)
        for node in nodes:
            if REMOVED not in node.metadata.annotations:
                await self._client_nodes.change(node, {"metadata": {"annotations": {REMOVED: "true"}}})
        return not nodes

    async def machines(self) -> Sequence[Running]:
        found = {
            each.metadata.uid: each.status.provider_id
            for each in self._fleets.claims.all()
            if (each.status.provider_id or "").startswith(PREFIX)
            and state_of(each) is not ClaimProgress.GOING
        }
        for node in self._fleets.members.all():
            uid = node.metadata.annotations.get(CLAIMED_BY)
            if uid:
                found.setdefault(uid, f"{PREFIX}{node.metadata.labels.get(NODE_GROUP, '')}/{uid}")
        return [Running(id or "", uid) for uid, id in sorted(found.items())]


class GroupMembers:
    """Reconciles groups: assigns nodes that have joined to claims, and sets the target number for the fleet."""

    name = "group-members"
    rights = (
        f"{READ}: karpenter.sh: nodeclaims",
        f"{READ}: allotment.dev: nodegroups",
        f"patch,{READ}: core: nodes",
        "patch: allotment.dev: nodegroups/status",
    )

    def __init__(self, surroundings: Surroundings) -> None:
        assert surroundings.groups is not None, "a server without groups has no members of them"
        self.queue: WorkQueue[str] = WorkQueue()
        self._fleets = _Fleets(surroundings)
        self._client_nodes = surroundings.client.of(Node)
        self._client_groups = Collection(surroundings.client, surroundings.groups, Typed(NodeGroup))
        self._groups = surroundings.informers.at(surroundings.groups, NodeGroup)
        self._groups.on_change(lambda _, new: self.queue.add(new.metadata.name) if new is not None else None)
        self._fleets.claims.on_change(self._changed)
        self._fleets.members.informer.on_change(self._changed)

    def _changed(self, old: NodeClaim | Node | None, new: NodeClaim | Node | None) -> None:
        for each in (old, new):
            for group in _groups(each) if each is not None else ():
                self.queue.add(group)

    async def reconcile(self, key: str) -> Again | None:
        group = self._groups.get(key)
        if group is None:
            return None
        launched = [each for each in self._fleets.waiting(key) if each.status.provider_id]
        spare, staying = self._fleets.spare(key), self._fleets.staying(key)
        for claim, node in zip(launched, spare, strict=False):
            given = {"metadata": {"annotations": {CLAIMED_BY: claim.metadata.uid}}}
            await self._client_nodes.change(node, given)
        target = max(group.spec.min, len(staying) + max(len(launched) - len(spare), 0))
        if group.status.target != target:
            await self._client_groups.change(group, {"status": {"target": target}}, subresource="status")
        return None


def _groups(obj: NodeClaim | Node) -> tuple[str, ...]:
    group = obj.metadata.labels.get(NODE_GROUP)
    return (group,) if group else ()


def _age(obj: NodeClaim | Node) -> tuple[str, str]:
    return obj.metadata.creation_timestamp or "", obj.metadata.name
