"""Which pods a server would not create, because a ResourceQuota has too little left for them.

Pods in the cluster were admitted when they were created, and count. Pods from a file or a step of a scenario are checked in
their order, so the first ones get what a quota has left. The others do not exist: no claims are created for them, and no
machine is launched.

One rule is left out: a quota on cpu or memory refuses containers without requests. A LimitRange may supply these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.codec import to_builtins
from allotment.api.core import ScopedResourceSelectorRequirement
from allotment.api.meta import key_of
from allotment.api.quantity import Quantity
from allotment.api.quota_usage import PODS, Usage, counted_in, in_scope, usage_of
from allotment.scheduler.devices.claim_quotas import add
from allotment.scheduler.priority import default_class

if TYPE_CHECKING:
    from allotment.api.core import Pod, ResourceQuota
    from allotment.scheduler.cluster import Cluster

_NOTHING = Quantity.of(0)


def refusals(cluster: Cluster, asking: Sequence[Pod], there: Iterable[Pod]) -> dict[str, str]:
    """Why pods are not created, by ``namespace/name``; all others are created. ``there`` are all existing pods, including
    finished ones."""
    books = _books(cluster, {pod.metadata.namespace for pod in asking})
    if not any(books.values()):
        return {}
    for pod in there:
        for each in books.get(pod.metadata.namespace, ()):
            add(each.used, each.usage(pod))
    found = {}
    for pod in asking:
        created, mine = _with_class(pod, cluster), books[pod.metadata.namespace]
        why = next(filter(None, (each.refusal(created) for each in mine)), "")
        if why:
            found[key_of(pod)] = f"it cannot be created: {why}"
        else:
            for each in mine:
                add(each.used, each.usage(created))
    return found


def _books(cluster: Cluster, namespaces: Iterable[str]) -> dict[str, list[_QuotaUse]]:
    """The quotas of each namespace that count pods, by name."""
    return {
        namespace: [
            _QuotaUse(quota)
            for _, quota in sorted(cluster.quotas.get(namespace, {}).items())
            if any(counted_in(name, PODS) for name in quota.spec.hard)
        ]
        for namespace in namespaces
    }


class _QuotaUse:
    """A quota, and how much of it pods use."""

    def __init__(self, quota: ResourceQuota) -> None:
        self._name = quota.metadata.name
        self._hard: Mapping[str, Quantity] = dict(sorted(quota.spec.hard.items()))
        selected = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector else ()
        plain = [ScopedResourceSelectorRequirement(scope_name=name) for name in quota.spec.scopes]
        self._scopes = [
            (each.scope_name, each.operator or "Exists", each.values) for each in (*plain, *selected)
        ]
        self.used: Usage = {}

    def usage(self, pod: Pod) -> Usage:
        """What a pod uses of the quota; empty if it is not in scope."""
        document = to_builtins(pod)
        if not all(in_scope(document, *scope) for scope in self._scopes):
            return {}
        return {name: amount for name, amount in usage_of(PODS, document).items() if name in self._hard}

    def refusal(self, pod: Pod) -> str:
        """Why one more pod like this is not admitted; empty: it is admitted."""
        wanted = self.usage(pod)
        for name, most in self._hard.items():
            more, used = wanted.get(name, _NOTHING), self.used.get(name, _NOTHING)
            if more.sign > 0 and used + more > most:
                return f"quota {self._name} allows {most} of {name}, {used} are used, and it needs {more}"
        return ""


def _with_class(pod: Pod, cluster: Cluster) -> Pod:
    """The pod with the priority class that the server assigns if it names none, because some quotas apply to some classes
    only."""
    default = "" if pod.spec.priority_class_name else default_class(cluster.priority_classes)
    return replace(pod, spec=replace(pod.spec, priority_class_name=default)) if default else pod
