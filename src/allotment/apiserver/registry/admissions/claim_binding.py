"""Who may write which part of a claim's status, beyond the right to write ``resourceclaims/status`` at all.

* *allocation and reservedFor*, the scheduler's part, need the request's verb on ``resourceclaims/binding``, in the whole
cluster: a user who may allocate devices in one namespace takes them from all.
* *devices*, the drivers' part, needs for each driver whose entries changed the verb ``arbitrary-node:VERB`` on
  ``resourceclaims/driver`` with the driver's name; a service account whose token is bound to the node of the allocation
  may have ``associated-node:VERB`` instead. There is no check when the claim is deallocated, as that drops the entries.

Both are subresources that exist for authorization only. Messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem
from allotment.api.resource import AllocationResult, ResourceClaimStatus
from allotment.api.status import invalid
from allotment.apiserver.auth.authorization import refusal
from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.registry.view import view
from allotment.apiserver.store.record import Obj

CLAIMS = "resourceclaims.resource.k8s.io"
NODE_NAME = "authentication.kubernetes.io/node-name"
_STATUS = FieldPath("status")


class ClaimBinding:
    judged = frozenset({CLAIMS})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is not Operation.UPDATE or write.subresource != "status":
            return
        if old is None:
            return
        status, stored = obj.get("status") or {}, old.get("status") or {}
        refused = self._refused(_attributes(write.identity, write.verb, "binding"))
        if refused is None and status.get("devices") == stored.get("devices"):
            return  # as in every write of a scheduler: it may write everything that the checks below compare
        new, before = view(ResourceClaimStatus, status), view(ResourceClaimStatus, stored)
        errors = self._binding_errors(new, before, write, refused)
        if new.allocation is not None:
            errors += self._device_errors(new, before, obj["metadata"]["namespace"], write)
        if errors:
            raise invalid(resource.kind, obj["metadata"]["name"], errors, resource.group)

    def _binding_errors(
        self, new: ResourceClaimStatus, old: ResourceClaimStatus, write: Write, refused: str | None
    ) -> list[FieldError]:
        if refused is None or (new.allocation == old.allocation and new.reserved_for == old.reserved_for):
            return []
        needed = f'resource="resourceclaims/binding", verb="{write.verb}" permission'
        why = f"changing status.allocation or status.reservedFor requires {needed}: {refused}"
        return [_STATUS.child("allocation").forbidden(why)]

    def _device_errors(
        self, new: ResourceClaimStatus, old: ResourceClaimStatus, namespace: str, write: Write
    ) -> list[FieldError]:
        drivers = _changed_drivers(new, old)
        if not drivers:
            return []
        verbs = [f"arbitrary-node:{write.verb}"]
        if _associated(write.identity, _node_of(new.allocation)):
            verbs.insert(0, f"associated-node:{write.verb}")
        errors = []
        for driver in drivers:
            refused = self._first_refusal(write.identity, verbs, namespace, driver)
            if refused is not None:
                needed = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
                why = f"changing status.devices requires {needed}: {refused}"
                errors.append(_STATUS.child("devices").forbidden(why))
        return errors

    def _first_refusal(
        self, identity: Identity, verbs: Sequence[str], namespace: str, driver: str
    ) -> str | None:
        """The refusal of the first verb, or None if any of the verbs is allowed."""
        refusals = [
            self._refused(_attributes(identity, verb, "driver", namespace=namespace, name=driver))
            for verb in verbs
        ]
        return None if None in refusals else refusals[0]

    def _refused(self, attributes: Attributes) -> str | None:
        decision = self._authorizer.decide(attributes)
        return None if decision.allowed else refusal(attributes, decision.reason).message


def _attributes(
    identity: Identity, verb: str, subresource: str, namespace: str = "", name: str = ""
) -> Attributes:
    return Attributes(identity, verb, "resource.k8s.io", "v1", "resourceclaims", subresource, namespace, name)


def _changed_drivers(new: ResourceClaimStatus, old: ResourceClaimStatus) -> list[str]:
    """The drivers with an entry that was added, removed or changed."""
    if new.devices == old.devices:
        return []
    before = {(each.driver, each.pool, each.device, each.share_id or ""): each for each in old.devices}
    after = {(each.driver, each.pool, each.device, each.share_id or ""): each for each in new.devices}
    return sorted({key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


def _node_of(allocation: AllocationResult | None) -> str:
    """The only node on which an allocation can be used, if its node selector names just one."""
    selector = allocation.node_selector if allocation is not None else None
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    single = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if single else ""


def _associated(identity: Identity, node: str) -> bool:
    """Whether this is a service account that runs on the node."""
    nodes = identity.extra.get(NODE_NAME, ())
    return (
        bool(node)
        and identity.name.startswith("system:serviceaccount:")
        and tuple(nodes) == (node,)
        and dns_subdomain_problem(node) is None
    )
