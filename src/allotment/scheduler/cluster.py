"""Everything the scheduler knows: nodes and what is on them, devices and who holds them, pods, groups, budgets.

Objects from the server come in through ``change``. Decisions that are not written yet lie over them: pods that are *assumed* on a
node, and claims in flight (``claims``). A pod stays assumed until the server shows it bound or the scheduler takes the decision
back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from allotment.allocator.features import ALL, Features
from allotment.allocator.fleet import Fleet
from allotment.allocator.taint import tainted
from allotment.api import semantic
from allotment.api.batch import PodDisruptionBudget, PodGroup, PriorityClass, Queue, VolcanoPodGroup
from allotment.api.core import Namespace, Node, Pod, ResourceQuota
from allotment.api.meta import ApiStruct, key_of
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.api.storage import KINDS as STORAGE
from allotment.scheduler.change_log import ChangeLog
from allotment.scheduler.devices.claims import Claims
from allotment.scheduler.devices.node_allocatable import costs_told
from allotment.scheduler.devices.scoring import DeviceSizes
from allotment.scheduler.devices.semantic_fleet import SemanticFleet
from allotment.scheduler.gangs.queue_tree import QueueTree
from allotment.scheduler.neighbours import Neighbours, has_wishes
from allotment.scheduler.node import NodeInfo
from allotment.scheduler.pod import FINISHED, VOLCANO, PodInfo, claims_named, group_key
from allotment.scheduler.volumes import storage

if TYPE_CHECKING:
    from allotment.scheduler.devices.scoring import Sizes
    from allotment.scheduler.resource_requests import Amounts

Template = ResourceClaimTemplate | semantic.ResourceClaimTemplate
DEVICE_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""The prefix of the resource name under which pods can request any class as an extended resource."""


class Cluster:
    """The scheduler's view of the cluster: the objects that the server shows, and its own decisions over them."""

    def __init__(self, features: Features = ALL) -> None:
        self.fleet = Fleet(features=features)
        self.sizes = DeviceSizes()
        self.log = ChangeLog()
        self.semantic = SemanticFleet(self.fleet.ledger, self.log.note, self.fleet.effort)
        self.claims = Claims(self.fleet.ledger, self.semantic.holdings)
        self.storage = storage.Storage()
        self.nodes: dict[str, NodeInfo] = {}
        self.known = 0  # the number of nodes that have an object
        self.pods: dict[str, PodInfo] = {}  # those that are not finished
        self.priorities: dict[int, int] = {}  # priority → number of pods
        self.assumed: dict[str, str] = {}  # pod → node
        self.members: dict[str, dict[str, PodInfo]] = {}  # group → its pods
        # group → those of its pods that ended, with their phase
        self.finished: dict[str, dict[str, str]] = {}
        self.users: dict[str, set[str]] = {}  # claim → pods that name it, in their spec or status
        self.classes: dict[str, DeviceClass] = {}
        self.epoch = 0  # changes when remembered verdicts become void: by classes or device sizes
        self.supply = 0  # changes when the supply does: amounts of nodes, devices, classes
        self.extended: dict[str, str] = {}  # extended resource → class
        self.namespaces: dict[str, dict[str, str]] = {}  # name → labels
        self.ending: set[str] = set()  # namespaces that are being deleted
        # namespace/name, Volcano's with the prefix "volcano:"
        self.groups: dict[str, PodGroup | VolcanoPodGroup] = {}
        self.regrouped = 0  # changes when groups do, and with them the queues that their pods count for
        self.queues: dict[str, Queue] = {}
        self.queue_tree = QueueTree(self.queues)
        self.budgets: dict[str, PodDisruptionBudget] = {}
        # kinds that schedulers do not follow, but simulations and explanations do (``obstacles``)
        self.templates: dict[str, Template] = {}
        self.quotas: dict[str, dict[str, ResourceQuota]] = {}  # by namespace and name
        self.priority_classes: dict[str, PriorityClass] = {}
        self.nominated: dict[str, str] = {}  # pod → node that it waits for
        self.nominees: dict[str, set[str]] = {}  # and back
        self.neighbours = Neighbours(self)
        self._slices: dict[str, ResourceSlice] = {}  # as published, without the taints of rules
        self._rules: dict[str, DeviceTaintRule] = {}
        self._handlers: dict[type[ApiStruct], Callable[[Any, Any], object]] = {
            Pod: self._pod,
            Node: self._node,
            Namespace: self._namespace,
            ResourceClaim: self.claims.change,
            ResourceSlice: self._slice,
            DeviceClass: self._class,
            DeviceTaintRule: self._rule,
            PodGroup: self._group,
            VolcanoPodGroup: self._group,
            Queue: self._queue,
            PodDisruptionBudget: lambda old, new: _keep(self.budgets, old, new),
            ResourceClaimTemplate: lambda old, new: _keep(self.templates, old, new),
            semantic.ResourceClaimTemplate: lambda old, new: _keep(self.templates, old, new),
            ResourceQuota: self._quota,
            PriorityClass: lambda old, new: _keep(self.priority_classes, old, new),
            semantic.NodeResourceSlice: self._semantic,
            semantic.ResourceClass: self._semantic,
            semantic.ResourceClassParameters: self._semantic,
            semantic.ResourceClaimParameters: self._semantic,
            **dict.fromkeys(STORAGE, self.storage.change),
        }

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        """Takes an object that appeared, changed or was deleted. It ignores kinds that the scheduler does not read."""
        shown = new if new is not None else old
        if shown is not None and (handler := self._handlers.get(type(shown))) is not None:
            handler(old, new)

    # --- nodes and the pods on them ---

    def node(self, name: str) -> NodeInfo:
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = NodeInfo(name)
        return found

    def _node(self, old: Node | None, new: Node | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]  # one of the two is there
        info = self.node(name)
        if new is None:
            self.fleet.remove_node(name)
        elif old is None or info.node is None or _other_for_devices(info.node, new):
            self.fleet.set_node(new)
        if new is None or info.node is None or info.node.status.allocatable != new.status.allocatable:
            self.supply += 1
        self.known += (new is not None) - (info.node is not None)
        info.describe(new)
        if new is None and not info.pods:
            del self.nodes[name]
        self.log.note(name)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        self.change_pod(key_of(new if new is not None else old), old, new)

    def change_pod(self, key: str, old: Pod | None, new: Pod | None) -> PodInfo | None:
        """Like ``change``, for the pod with this key. Returns the pod as it is now; None if it is gone or has finished."""
        before = self.pods.get(key)
        if old is not None and self.finished:
            self._forget_end(key, old)
        if new is None or new.status.phase in FINISHED:
            self._pod_gone(key, before, new)
            return None
        info = PodInfo(new, before)
        if before is None or before.claims is not info.claims or before.volumes is not info.volumes:
            self._note_users(key, before, info)
        if before is None or before.priority != info.priority:
            self._count_priority(info.priority, 1)
            if before is not None:
                self._count_priority(before.priority, -1)
        if before is not None and before.group != info.group:
            self._leave_group(before)
        if info.group:
            self.members.setdefault(info.group, {})[key] = info
        if has_wishes(new):
            self.neighbours.wishful.add(key)
        if info.node:
            self.assumed.pop(key, None)
            self.nominate(key, "")
        else:
            info.node = self.assumed.get(key, "")
            if before is None and new.status.nominated_node_name:
                self.nominate(key, new.status.nominated_node_name)
        if before is not None and before.node == info.node and before.requests is info.requests:
            self.pods[key] = info
            if info.node:
                self.nodes[info.node].pods[key] = info
                if _other_for_neighbours(before.pod, new):
                    self.log.note(info.node)
            return info
        extra = self.nodes[before.node].extra.get(key) if before is not None and before.node else None
        if before is not None:
            self._leave(before)
        self.pods[key] = info
        if info.node:
            self.node(info.node).add(info, extra or costs_told(info))
            self.log.note(info.node)
        return info

    def _pod_gone(self, key: str, before: PodInfo | None, ended: Pod | None) -> None:
        """A pod was deleted, or has ended."""
        if ended is not None and (group := group_key(ended)):
            self.finished.setdefault(group, {})[key] = ended.status.phase or ""
        self._note_users(key, before, None)
        if before is not None:
            self._leave(before)
            del self.pods[key]
            self._leave_group(before)
            self._count_priority(before.priority, -1)
        self.assumed.pop(key, None)
        self.nominate(key, "")
        self.neighbours.wishful.discard(key)

    def _note_users(self, key: str, old: PodInfo | None, new: PodInfo | None) -> None:
        if (old is not None and old.volumes) or (new is not None and new.volumes):
            self.storage.note_users(key, _volume_claims(old), _volume_claims(new))
        before = old.claims if old is not None else ()
        after = new.claims if new is not None else ()
        if before == after:
            return
        for claim in before:
            users = self.users.get(claim, set())
            users.discard(key)
            if not users:
                self.users.pop(claim, None)
        for claim in after:
            self.users.setdefault(claim, set()).add(key)

    def _forget_end(self, key: str, old: Pod) -> None:
        group = group_key(old)
        ended = self.finished.get(group)
        if ended is not None:
            ended.pop(key, None)
            if not ended:
                del self.finished[group]

    def _count_priority(self, priority: int, sign: int) -> None:
        left = self.priorities.get(priority, 0) + sign
        if left:
            self.priorities[priority] = left
        else:
            del self.priorities[priority]

    def _leave(self, pod: PodInfo) -> None:
        if pod.node:
            info = self.nodes[pod.node]
            info.remove(pod.key)
            if info.node is None and not info.pods:
                del self.nodes[pod.node]
            self.log.note(pod.node)

    def _leave_group(self, pod: PodInfo) -> None:
        group = pod.group
        if group:
            members = self.members[group]
            del members[pod.key]
            if not members:
                del self.members[group]

    def assume(self, pod: PodInfo, node: str, extra: Amounts | None = None) -> None:
        """Records the decision to place a pod on a node. ``extra`` is what its devices cost there in addition."""
        assert not pod.node, f"{pod!r} is there already"
        pod.node = node
        self.assumed[pod.key] = node
        self.node(node).add(pod, extra)
        self.log.note(node)
        self._note_nominated(pod)

    def _note_nominated(self, pod: PodInfo) -> None:
        """Marks the pod's nominated node as changed: a placed pod keeps no other node."""
        if pod.key in self.nominated:
            self.log.note(self.nominated[pod.key])

    def forget(self, pod: PodInfo) -> None:
        """Takes the decision back, unless the server has shown the pod bound meanwhile."""
        if self.assumed.pop(pod.key, None) is None:
            return
        current = self.pods.get(pod.key, pod)
        self._leave(current)
        current.node = ""
        self._note_nominated(current)

    def nominate(self, pod: str, node: str) -> None:
        """Records that a pod waits for room on a node; ``""`` means that it no longer does."""
        before = self.nominated.pop(pod, "")
        if before == node == "":
            return
        if before:
            self.nominees[before].discard(pod)
            if not self.nominees[before]:
                del self.nominees[before]
        if node:
            self.nominated[pod] = node
            self.nominees.setdefault(node, set()).add(pod)
        for name in {before, node} - {""}:
            self.log.note(name)

    def used_by(self, pod: PodInfo) -> list[str]:
        """The claims that a pod names or that were made for it."""
        owned = self.claims.owned.get(pod.uid, ())
        return list(dict.fromkeys((*pod.claims, *owned)))

    # --- devices ---

    def _class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self.epoch += 1
        self.supply += 1
        if new is None:
            assert old is not None
            self.classes.pop(old.metadata.name, None)
            self.fleet.remove_class(old.metadata.name)
        else:
            self.classes[new.metadata.name] = new
            self.fleet.set_class(new)
        self.extended = {}
        classes = sorted(self.classes.values(), key=lambda each: each.metadata.name, reverse=True)
        classes.sort(key=lambda each: each.metadata.creation_timestamp or "")
        for each in classes:  # the newest class of a resource serves it, then the first by name
            self.extended[DEVICE_CLASS_RESOURCE + each.metadata.name] = each.metadata.name
            if each.spec.extended_resource_name:
                self.extended[each.spec.extended_resource_name] = each.metadata.name

    def _slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.supply += 1
        if new is None:
            assert old is not None
            self._slices.pop(old.metadata.name, None)
            self.fleet.remove_slice(old.metadata.name)
        else:
            self._slices[new.metadata.name] = new
            if self.sizes.add(new):
                self.epoch += 1
            self.fleet.set_slice(self._tainted(new))

    def measure_by(self, sizes: Sizes) -> None:
        """Scores devices by these earlier largest sizes, as if no larger devices had appeared."""
        if self.sizes.largest is not sizes:
            self.sizes.largest = sizes
            self.epoch += 1

    def _rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        rule = new if new is not None else old
        assert rule is not None
        if new is None:
            self._rules.pop(rule.metadata.name, None)
        else:
            self._rules[rule.metadata.name] = new
        for each in (old, new):
            for slice in list(self._slices.values()) if each is not None else ():
                assert each is not None
                if _may_taint(each.spec.device_selector, slice):
                    self.fleet.set_slice(self._tainted(slice))

    def _tainted(self, slice: ResourceSlice) -> ResourceSlice:
        """A slice with the taints that rules add to its devices."""
        return tainted(slice, self._rules.values())

    def _semantic(self, old: Any, new: Any) -> None:
        for name in self.semantic.change(old, new):
            self.log.note(name)

    # --- the rest ---

    def _namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            assert old is not None
            self.namespaces.pop(old.metadata.name, None)
            self.ending.discard(old.metadata.name)
            return
        self.namespaces[new.metadata.name] = new.metadata.labels
        (self.ending.discard if new.metadata.deletion_timestamp is None else self.ending.add)(
            new.metadata.name
        )

    def _queue(self, old: Queue | None, new: Queue | None) -> None:
        _keep(self.queues, old, new)
        if old is None or new is None or old.spec.parent != new.spec.parent:
            self.queue_tree = QueueTree(self.queues)

    def _group(self, old: PodGroup | VolcanoPodGroup | None, new: PodGroup | VolcanoPodGroup | None) -> None:
        group = new if new is not None else old
        prefix = VOLCANO if isinstance(group, VolcanoPodGroup) else ""
        _keep(self.groups, old, new, prefix)
        self.regrouped += 1

    def _quota(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        meta = (new or old).metadata  # type: ignore[union-attr]  # one of the two is there
        in_namespace = self.quotas.setdefault(meta.namespace, {})
        _keep(in_namespace, old, new)
        if not in_namespace:
            del self.quotas[meta.namespace]

    def validate(self) -> None:
        """Re-derives sums, holdings and indexes from the objects. Raises AssertionError where they differ."""
        self.fleet.validate()
        self.claims.validate()
        self.storage.validate()
        self.semantic.validate()
        self.neighbours.validate()
        assert self.known == sum(info.node is not None for info in self.nodes.values()), (
            "nodes are miscounted"
        )
        for info in self.nodes.values():
            info.validate()
            assert info.node is not None or info.pods, f"node {info.name} is gone, and nobody is on it"
            for key, pod in info.pods.items():
                assert self.pods.get(key) is pod, f"{pod!r} is on node {info.name} but not among the pods"
                assert pod.node == info.name, f"{pod!r} is on node {info.name}"
        for pod in self.pods.values():
            assert not pod.node or pod.key in self.nodes[pod.node].pods, f"{pod!r} is not on its node"
        for key, node in self.nominated.items():
            assert key in self.nominees[node], f"pod {key} waits for node {node}, which does not know"
        assert sum(map(len, self.nominees.values())) == len(self.nominated), "nominees"
        priorities: dict[int, int] = {}
        for pod in self.pods.values():
            priorities[pod.priority] = priorities.get(pod.priority, 0) + 1
        assert priorities == self.priorities, "priorities"
        users: dict[str, set[str]] = {}
        for pod in self.pods.values():
            for claim in claims_named(pod.pod):
                users.setdefault(claim, set()).add(pod.key)
        assert users == self.users, "users of claims"
        users = {}
        for pod in self.pods.values():
            for claim in _volume_claims(pod):
                users.setdefault(claim, set()).add(pod.key)
        assert users == self.storage.users, "users of volumes' claims"
        members: dict[str, dict[str, PodInfo]] = {}
        for pod in self.pods.values():
            if group := pod.group:
                members.setdefault(group, {})[pod.key] = pod
        assert members == self.members, "members of groups"
        for key, node in self.assumed.items():
            assert self.pods[key].node == node, f"pod {key} is assumed elsewhere"


def _volume_claims(pod: PodInfo | None) -> frozenset[str]:
    return pod.volumes.named if pod is not None and pod.volumes is not None else frozenset()


def _other_for_devices(old: Node, new: Node) -> bool:
    """Whether a node changed in what the devices' node selectors and features read."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.status.declared_features != new.status.declared_features
    )


def _other_for_neighbours(old: Pod, new: Pod) -> bool:
    """Whether a pod on a node changed in what other pods' affinity and spreading rules read."""
    before, now = old.metadata, new.metadata
    return before.labels != now.labels or (before.deletion_timestamp is None) != (
        now.deletion_timestamp is None
    )


def _may_taint(selector: DeviceTaintSelector | None, slice: ResourceSlice) -> bool:
    return (
        selector is not None
        and selector.driver in (None, slice.spec.driver)
        and selector.pool in (None, slice.spec.pool.name)
        and (selector.device is None or any(each.name == selector.device for each in slice.spec.devices))
    )


def _keep(objects: dict[str, Any], old: Any, new: Any, prefix: str = "") -> None:
    key = prefix + key_of(new if new is not None else old)
    if new is None:
        objects.pop(key, None)
    else:
        objects[key] = new
