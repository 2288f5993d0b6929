"""Every pod runs as a service account: ``default``, unless it names another one, which must exist.

No token is mounted: nodes of the embedded control plane run no programs that would read it. For the same reason the
account ``default`` need not exist.
"""

from __future__ import annotations

from allotment.api.status import forbidden
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Key, Obj
from allotment.apiserver.store.store import Store

DEFAULT = "default"
MIRROR = "kubernetes.io/config.mirror"  # a pod that a node made for itself


class ServiceAccounts:
    mutated = judged = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if old is not None or write.subresource:
            return
        if MIRROR in (obj["metadata"].get("annotations") or {}):
            return
        spec = obj.setdefault("spec", {})
        account = spec.get("serviceAccountName") or DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = account
        namespace = obj["metadata"]["namespace"]
        key = Key("serviceaccounts", namespace, account)
        if account != DEFAULT and self._store.head(key) is None:
            raise forbidden(
                "pods",
                obj["metadata"].get("name") or "",
                why=f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found',
            )

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if old is not None or write.subresource:
            return
        annotations = obj["metadata"].get("annotations") or {}
        if MIRROR in annotations and obj["spec"].get("serviceAccountName"):
            why = "a mirror pod may not reference service accounts"
            raise forbidden("pods", obj["metadata"]["name"], why=why)
