"""Which pods a server would not create, because a ResourceQuota has too little left for them.

Pods that are in the cluster were let in when they came, and count. Those that a file or a step of a scenario brings are asked about
in the order in which they come, so the first ones get what a quota has left. The others exist for nobody: no claims are made for them, and
no machine is bought.

Left out is that a quota on cpu or memory refuses containers which do not say how much they need: a LimitRange may say it for them.
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
    """Why pods are not created, by ``namespace/name``; those that are not named here are. ``there`` are all pods that exist, those
    that have ended included."""
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


def _books(cluster: Cluster, namespaces: Iterable[str]) -> dict[str, list[_Book]]:
    """The quotas of each namespace that count pods, by name."""
    return {
        namespace: [
            _Book(quota)
            for _, quota in sorted(cluster.quotas.get(namespace, {}).items())
            if any(counted_in(name, PODS) for name in quota.spec.hard)
        ]
        for namespace in namespaces
    }


class _Book:
    """A quota, and what pods use of it."""

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
        """What a pod uses of the quota; nothing if it is not in scope."""
        document = to_builtins(pod)
        if not all(in_scope(document, *scope) for scope in self._scopes):
            return {}
        return {name: amount for name, amount in usage_of(PODS, document).items() if name in self._hard}

    def refusal(self, pod: Pod) -> str:
        """Why one more pod such as this is not let in; empty: it is."""
        wanted = self.usage(pod)
        for name, most in self._hard.items():
            more, used = wanted.get(name, _NOTHING), self.used.get(name, _NOTHING)
            if more.sign > 0 and used + more > most:
                return f"quota {self._name} allows {most} of {name}, {used} are used, and it needs {more}"
        return ""


def _with_class(pod: Pod, cluster: Cluster) -> Pod:
    """The pod with the priority class that the server gives it if it names none, as some quotas are for some classes only."""
    default = "" if pod.spec.priority_class_name else default_class(cluster.priority_classes)
    return replace(pod, spec=replace(pod.spec, priority_class_name=default)) if default else pod
