"""By default, pods tolerate for five minutes that their node is not ready or unreachable."""

from __future__ import annotations

from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

SECONDS = 300
TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodTolerations:
    mutated = frozenset({"pods"})

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.subresource:
            return
        spec = obj.setdefault("spec", {})
        tolerations = list(spec.get("tolerations") or ())
        for taint in TAINTS:
            if not tolerations or not any(_covers(toleration, taint) for toleration in tolerations):
                tolerations.append(
                    {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
                )
        spec["tolerations"] = tolerations


def _covers(toleration: Obj, taint: str) -> bool:
    return toleration.get("key") in (taint, "", None) and toleration.get("effect") in ("NoExecute", "", None)
