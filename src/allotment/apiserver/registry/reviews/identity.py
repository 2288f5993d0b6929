"""authentication.k8s.io: questions about the sender's identity and about the user of a token."""

from __future__ import annotations

from functools import partial

from allotment.api.status import BadRequest
from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.auth.jwt import TokenRefused
from allotment.apiserver.registry.review import Review, ReviewCall
from allotment.apiserver.registry.reviews.body import mapping, strings, text
from allotment.apiserver.store.record import Obj

_VERSION = "authentication.k8s.io/v1"


def identity_reviews(authentication: Authentication) -> tuple[Review, ...]:
    """The two kinds, answered by this authentication."""
    return (
        Review(
            _VERSION,
            "SelfSubjectReview",
            "selfsubjectreviews",
            False,
            _self,
            "Asks who the server takes its sender for.",
        ),
        Review(
            _VERSION,
            "TokenReview",
            "tokenreviews",
            False,
            partial(_token, authentication),
            "Asks whose a bearer token is, and whether it is good.",
        ),
    )


def _self(body: Obj, call: ReviewCall) -> Obj:
    metadata = {"creationTimestamp": call.now}
    return {**body, "metadata": metadata, "status": {"userInfo": _user(call.identity)}}


def _token(authentication: Authentication, body: Obj, call: ReviewCall) -> Obj:
    spec = mapping(body.get("spec"))
    token = text(spec.get("token"))
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        identity, audiences = authentication.of_token(token, strings(spec.get("audiences")))
    except TokenRefused as exc:
        return {**body, "status": {"user": {}, "error": _error(str(exc))}}
    return {**body, "status": {"authenticated": True, "user": _user(identity), "audiences": list(audiences)}}


def _error(why: str) -> str:
    """The error of a token review: details only for a token that might be ours."""
    return (
        "invalid bearer token" if why.startswith("invalid bearer token") else f"[invalid bearer token, {why}]"
    )


def _user(identity: Identity) -> Obj:
    user: Obj = {"username": identity.name}
    if identity.uid:
        user["uid"] = identity.uid
    user["groups"] = list(identity.groups)
    if identity.extra:
        user["extra"] = {key: list(values) for key, values in identity.extra.items()}
    return user
