"""Service accounts: identities for programs. POST to /token issues a token for one."""

from __future__ import annotations

from typing import cast

from allotment.api.fields import FieldPath
from allotment.api.status import invalid
from allotment.apiserver.registry.admissions.node_restriction import admit_token
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.resource import (
    ActionCall,
    ActionResult,
    Resource,
    Services,
    SubresourceAction,
)
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.store.record import Obj

SHORTEST = 10 * 60
LONGEST_EXPIRATION = 1 << 32
USUAL = 60 * 60


def _token(account: Obj, body: Obj, call: ActionCall) -> ActionResult:
    """Issues a token. The caller chooses its lifetime within limits; the default is an hour."""
    request = {**body, "spec": {"audiences": [], **(body.get("spec") or {})}}
    seconds = request["spec"].setdefault("expirationSeconds", USUAL)
    path = FieldPath("spec", "expirationSeconds")
    if seconds < SHORTEST:
        raise _refusal(path, "may not specify a duration less than 10 minutes", seconds)
    if seconds > LONGEST_EXPIRATION:
        raise _refusal(path, "may not specify a duration larger than 2^32 seconds", seconds)
    metadata = account["metadata"]
    server = cast(Services, call.server)
    admit_token(server, call.identity, account, request)
    reply = server.issue_token(metadata["namespace"], metadata["name"], metadata["uid"], request)
    reply["metadata"] = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "creationTimestamp": call.now,
        **(at(reply, "metadata") or {}),
    }
    return ActionResult(changed=None, reply=reply)


def _refusal(path: FieldPath, why: str, seconds: int) -> Exception:
    return invalid("TokenRequest", "", [path.invalid(why, seconds)], "authentication.k8s.io")


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="ServiceAccount",
        plural="serviceaccounts",
        namespaced=True,
        short_names=("sa",),
        columns=(AGE,),
        actions={"token": SubresourceAction("authentication.k8s.io/v1", "TokenRequest", _token)},
        doc="The identity under which a program in the cluster acts.",
    ),
)
