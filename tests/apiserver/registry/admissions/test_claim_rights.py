"""Who may write a claim's status, part by part, and where admin access may be asked for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allotment.api.status import Invalid
from allotment.apiserver.auth.identity import AccessDecision, Attributes, Identity
from allotment.apiserver.registry.admissions.admin_access import LABEL, AdminAccess
from allotment.apiserver.registry.admissions.claim_binding import NODE_NAME, ClaimBinding
from allotment.apiserver.registry.kinds import resource_claim, resource_claim_template
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key
from tests.api.validation.examples import CLAIM, STATUS, TEMPLATE
from tests.apiserver.registry.admissions.shelf import Shelf

Json = dict[str, Any]
(CLAIMS,) = resource_claim.RESOURCES
(TEMPLATES,) = resource_claim_template.RESOURCES
ALICE = Identity("alice")
BINDING = ("update", "binding", "", "")
NIC = ("arbitrary-node:update", "driver", "default", "nic.example.com")
NIC_HERE = ("associated-node:update", "driver", "default", "nic.example.com")


class Rights:
    """An authorizer that allows what is in a list."""

    def __init__(self, *allowed: tuple[str, str, str, str]) -> None:
        self._allowed = allowed

    def decide(self, attributes: Attributes) -> AccessDecision:
        asked = (attributes.verb, attributes.subresource, attributes.namespace, attributes.name)
        return AccessDecision(asked in self._allowed)


def status_write(identity: Identity = ALICE, verb: str = "update") -> Write:
    return Write(Operation.UPDATE, identity, "2026-01-01T00:00:00Z", "status", verb=verb)


def refusals(rights: Rights, new: Json, old: Json, write: Write | None = None) -> list[Json]:
    try:
        ClaimBinding(rights).admit(
            CLAIMS, {**CLAIM, "status": new}, {**CLAIM, "status": old}, write or status_write()
        )
    except Invalid as exc:
        causes: list[Json] = exc.details["causes"]
        return causes
    return []


ALLOCATED = {name: STATUS[name] for name in ("allocation", "reservedFor")}


def test_allocating_needs_the_right_to_bind_in_the_whole_cluster() -> None:
    assert refusals(Rights(BINDING), ALLOCATED, {}) == []
    assert refusals(Rights(("update", "binding", "default", "")), ALLOCATED, {}) == [
        {
            "reason": "FieldValueForbidden",
            "field": "status.allocation",
            "message": "Forbidden: changing status.allocation or status.reservedFor requires "
            'resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is '
            'forbidden: User "alice" cannot update resource "resourceclaims/binding" in API group '
            '"resource.k8s.io" at the cluster scope',
        }
    ]


def test_the_verb_is_that_of_the_request() -> None:
    assert refusals(Rights(BINDING), ALLOCATED, {}, status_write(verb="patch"))
    assert not refusals(Rights(("patch", "binding", "", "")), ALLOCATED, {}, status_write(verb="patch"))


@pytest.mark.parametrize("part", ["allocation", "reservedFor"])
def test_giving_back_and_reserving_need_it_too(part: str) -> None:
    changed = {name: value for name, value in ALLOCATED.items() if name != part}
    assert [each["field"] for each in refusals(Rights(NIC), changed, ALLOCATED)] == ["status.allocation"]


def test_a_driver_writes_about_its_own_devices_only() -> None:
    assert refusals(Rights(NIC), STATUS, ALLOCATED) == []
    (cause,) = refusals(Rights(BINDING), STATUS, ALLOCATED)
    assert cause["field"] == "status.devices"
    assert (
        'requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission'
        in cause["message"]
    )
    assert 'resourceclaims.resource.k8s.io "nic.example.com" is forbidden' in cause["message"]


def test_a_driver_on_the_node_of_the_allocation_needs_less() -> None:
    agent = Identity("system:serviceaccount:kube-system:nic", extra={NODE_NAME: ("node-1",)})
    here = copy.deepcopy(STATUS)
    term = here["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]
    del term["matchExpressions"]
    before = {"allocation": here["allocation"], "reservedFor": here["reservedFor"]}
    assert refusals(Rights(NIC_HERE), here, before, status_write(agent)) == []
    term["matchFields"][0]["values"] = ["node-2"]
    (cause,) = refusals(Rights(NIC_HERE), here, before, status_write(agent))
    assert 'verb="[arbitrary-node:update]"' in cause["message"]


def test_giving_a_claim_back_drops_device_statuses_without_their_drivers_right() -> None:
    assert refusals(Rights(BINDING), {}, STATUS) == []


def test_writing_the_same_again_needs_nothing_more() -> None:
    assert refusals(Rights(), copy.deepcopy(STATUS), STATUS) == []


# --- admin access ---


def admin(obj: Json) -> Json:
    obj = copy.deepcopy(obj)
    spec = obj["spec"]["spec"] if "spec" in obj["spec"] else obj["spec"]
    spec["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return obj


def admission(label: str | None = None) -> AdminAccess:
    shelf = Shelf()
    key = Key("namespaces", "", "default")
    labels = {LABEL: label} if label is not None else {}
    shelf.put(key, {"metadata": {"name": "default", "labels": labels}})
    return AdminAccess(shelf.as_store())


CREATE = Write(Operation.CREATE, ALICE, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(("kind", "obj"), [(CLAIMS, CLAIM), (TEMPLATES, TEMPLATE)])
def test_admin_access_is_for_labelled_namespaces(kind: Any, obj: Json) -> None:
    admission().admit(kind, obj, None, CREATE)
    admission("true").admit(kind, admin(obj), None, CREATE)
    for refusing in (admission(), admission("yes")):
        with pytest.raises(Invalid) as caught:
            refusing.admit(kind, admin(obj), None, CREATE)
        assert caught.value.details["causes"] == [
            {
                "reason": "FieldValueForbidden",
                "field": "spec.devices.requests[0].adminAccess",
                "message": "Forbidden: admin access to devices requires the "
                "`resource.kubernetes.io/admin-access: true` label on the containing namespace",
            }
        ]


def test_an_allocation_grants_admin_access_only_there() -> None:
    status = copy.deepcopy(STATUS)
    status["allocation"]["devices"]["results"][1]["adminAccess"] = True
    granted = {**CLAIM, "status": status}
    with pytest.raises(Invalid) as caught:
        admission().admit(CLAIMS, granted, CLAIM, status_write())
    assert caught.value.details["causes"][0]["field"] == "status.allocation.devices.results[1].adminAccess"
    admission().admit(CLAIMS, granted, granted, status_write())
