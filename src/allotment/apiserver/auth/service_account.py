"""Tokens of service accounts, which are valid as long as the account and the object that the token is bound to exist.

A token names the uid of the account and, if it is bound, of a pod, secret or node. Every use checks that these objects
are still the same. The store replaces a record at each write, so usually "the same record as last time" is enough; only a
changed record is decoded again.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from allotment.api.fields import FieldPath
from allotment.api.status import BadRequest, conflict, invalid, not_found
from allotment.api.timestamps import timestamp
from allotment.apiserver.auth.follow import Heads
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.auth.jwt import SigningKey, TokenRefused
from allotment.apiserver.store.record import Key, Obj, Record

ISSUER = "https://kubernetes.default.svc.cluster.local"
SHORTEST, LONGEST, USUAL = 600, 1 << 32, 3600
PREFIX = "system:serviceaccount:"
_LEEWAY = 60  # seconds by which clocks may differ when "not before" is checked
_EXTRA = "authentication.kubernetes.io/"
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def account_groups(namespace: str) -> tuple[str, ...]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account, if the user name is that of one."""
    namespace, colon, name = user.removeprefix(PREFIX).partition(":")
    if not user.startswith(PREFIX) or not colon or not namespace or not name or ":" in name:
        return None
    return namespace, name


class _Life(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    deletion_timestamp: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Life


_OBJECT = msgspec.json.Decoder(_Object)


@dataclass(slots=True)
class _Dependence:
    """An object that a token depends on, and the record in which it was last seen."""

    key: Key
    uid: str
    told: str  # its name in a refusal
    seen: Record | None = None


class AccountToken:
    """A token with a valid signature. ``check`` must pass at each use."""

    def __init__(self, claims: Mapping[str, Any], issuer: str) -> None:
        ours = _mapping(claims.get("kubernetes.io"))
        namespace, account = _text(ours.get("namespace")), _mapping(ours.get("serviceaccount"))
        name, uid = _text(account.get("name")), _text(account.get("uid"))
        if claims.get("iss") != issuer:
            raise TokenRefused(f'token issuer "{claims.get("iss")}" is invalid')
        if claims.get("sub") != f"{PREFIX}{namespace}:{name}" or not name or not uid:
            raise TokenRefused("token subject does not match its service account")
        self.audiences = _audiences(claims.get("aud"))
        self.expiry, self._from = _moment(claims.get("exp")), _moment(claims.get("nbf"))
        self._depends = [_Dependence(Key("serviceaccounts", namespace, name), uid, "service account")]
        self._depends.extend(_bound_to(ours, namespace))
        self.identity = Identity(
            f"{PREFIX}{namespace}:{name}",
            (*account_groups(namespace), "system:authenticated"),
            uid,
            _extra(claims, ours),
        )

    def check(self, store: Heads, now: float) -> None:
        """Raises TokenRefused if the token has expired, is not valid yet, or an object that it depends on is gone."""
        if now > self.expiry + _LEEWAY:
            raise TokenRefused("service account token has expired")
        if now < self._from - _LEEWAY:
            raise TokenRefused("service account token is not valid yet")
        for dependence in self._depends:
            record = store.head(dependence.key)
            if record is None or record is not dependence.seen:
                _look(dependence, record, now)


def _look(dependence: _Dependence, record: Record | None, now: float) -> None:
    if record is None:
        if dependence.told == "service account":
            raise TokenRefused(f'serviceaccounts "{dependence.key.name}" not found')
        raise TokenRefused("service account token has been invalidated")
    life = _OBJECT.decode(record.data).metadata
    if life.uid != dependence.uid:
        raise TokenRefused(f"{dependence.told} UID ({life.uid}) does not match claim ({dependence.uid})")
    if not life.deletion_timestamp:
        dependence.seen = record
    elif _seconds(life.deletion_timestamp) < now - _LEEWAY:
        raise TokenRefused("service account token has been invalidated")


class ServiceAccountTokens:
    """Issues and verifies tokens."""

    def __init__(
        self, key: SigningKey, store: Heads, issuer: str = ISSUER, audiences: Sequence[str] = ()
    ) -> None:
        self.key = key
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._store = store

    def verify(self, token: str) -> AccountToken:
        """The token, if we signed it. Raises TokenRefused. The result may be cached; see ``AccountToken.check``."""
        return AccountToken(self.key.verify(token), self.issuer)

    def check(self, token: AccountToken, audiences: Sequence[str], now: float) -> tuple[str, ...]:
        """Checks a verified token now; returns those of ``audiences`` that it is for."""
        token.check(self._store, now)
        meant = tuple(audience for audience in audiences if audience in token.audiences)
        if not meant:
            raise TokenRefused(
                f"token audiences {_quoted(token.audiences)} is invalid for the target audiences {_quoted(audiences)}"
            )
        return meant

    def issue(self, namespace: str, name: str, uid: str, request: Obj, now: float) -> Obj:
        """The TokenRequest with ``status`` filled in, for a service account that exists with this uid."""
        metadata = _own_metadata(_mapping(request.get("metadata")), namespace, name, uid)
        spec = dict(request.get("spec") or {})
        spec["audiences"] = audiences = list(spec.get("audiences") or self.audiences)
        seconds = spec.setdefault("expirationSeconds", USUAL)
        _valid(spec, audiences, seconds)
        ours: Obj = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        reference = spec.setdefault("boundObjectRef", None)
        if reference:
            ours.update(self._bind(reference, namespace, name))
        begin = int(now)
        claims = {
            "aud": audiences,
            "exp": begin + seconds,
            "iat": begin,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": ours,
            "nbf": begin,
            "sub": f"{PREFIX}{namespace}:{name}",
        }
        status = {"token": self.key.sign(claims), "expirationTimestamp": timestamp(begin + seconds)}
        metadata["creationTimestamp"] = timestamp(begin)
        return {**request, "metadata": metadata, "spec": spec, "status": status}

    def _bind(self, reference: Obj, namespace: str, account: str) -> Obj:
        """The claims that bind a token to an object. The object must exist; a pod must also run as the account."""
        kind, name = _text(reference.get("kind")), _text(reference.get("name"))
        resource = _BOUND.get(kind)
        if resource is None or reference.get("apiVersion") != "v1":
            group, _, version = _text(reference.get("apiVersion")).rpartition("/")
            raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        record = self._store.head(Key(resource, "" if kind == "Node" else namespace, name))
        if record is None:
            raise not_found(resource, name)
        obj = record.load()
        uid = obj["metadata"]["uid"]
        if kind == "Pod" and _mapping(obj.get("spec")).get("serviceAccountName") != account:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        if reference.get("uid") not in (None, "", uid):
            raise conflict(
                kind,
                name,
                why=f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        claims: Obj = {kind.lower(): {"name": name, "uid": uid}}
        node = _mapping(obj.get("spec")).get("nodeName") if kind == "Pod" else None
        if node:
            record = self._store.head(Key("nodes", "", node))
            claims["node"] = {"name": node, **({"uid": record.load()["metadata"]["uid"]} if record else {})}
        return claims


def _own_metadata(sent: Mapping[str, Any], namespace: str, name: str, uid: str) -> Obj:
    """Checks the metadata: a request may name its account, but then the name must be right."""
    path, errors = FieldPath("metadata"), []
    if sent.get("name") not in (None, "", name):
        errors.append(
            path.child("name").invalid("must match the service account name if specified", sent["name"])
        )
    elif sent.get("namespace") not in (None, "", namespace):
        told = "must match the service account namespace if specified"
        errors.append(path.child("namespace").invalid(told, sent["namespace"]))
    if errors:
        raise invalid("TokenRequest", name, errors, "authentication.k8s.io")
    if sent.get("uid") not in (None, "", uid):
        why = f"the UID in the token request ({sent['uid']}) does not match the UID of the service account ({uid})"
        raise conflict("TokenRequest", name, "authentication.k8s.io", why)
    return {**sent, "name": name, "namespace": namespace, "uid": uid}


def _valid(spec: Obj, audiences: Any, seconds: Any) -> None:
    path, errors = FieldPath("spec"), []
    if not isinstance(seconds, int) or seconds < SHORTEST:
        errors.append(
            path.child("expirationSeconds").invalid(
                "may not specify a duration less than 10 minutes", seconds
            )
        )
    elif seconds > LONGEST:
        errors.append(
            path.child("expirationSeconds").invalid(
                "may not specify a duration larger than 2^32 seconds", seconds
            )
        )
    if not all(isinstance(audience, str) for audience in audiences):
        errors.append(path.child("audiences").invalid("must be strings", audiences))
    if errors:
        raise invalid("TokenRequest", "", errors, "authentication.k8s.io")


def _bound_to(ours: Mapping[str, Any], namespace: str) -> list[_Dependence]:
    """The objects that a token depends on. A pod-bound token names the node too, but does not depend on it."""
    for kind, resource in (("pod", "pods"), ("secret", "secrets"), ("node", "nodes")):
        if kind in ours:
            reference = _mapping(ours[kind])
            key = Key(resource, "" if kind == "node" else namespace, _text(reference.get("name")))
            return [_Dependence(key, _text(reference.get("uid")), kind)]
    return []


def _extra(claims: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    if isinstance(claims.get("jti"), str):
        extra[f"{_EXTRA}credential-id"] = (f"JTI={claims['jti']}",)
    for kind in ("pod", "node"):
        reference = _mapping(ours.get(kind))
        if reference.get("name"):
            extra[f"{_EXTRA}{kind}-name"] = (_text(reference["name"]),)
            if reference.get("uid"):
                extra[f"{_EXTRA}{kind}-uid"] = (_text(reference["uid"]),)
    return extra


def _audiences(claim: Any) -> tuple[str, ...]:
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return tuple(value for value in values if isinstance(value, str))


def _moment(claim: Any) -> float:
    """A time in a token. Every token of ours has a beginning and an end."""
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        raise TokenRefused("token does not say when it begins or ends")
    return claim


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _quoted(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _seconds(timestamp: str) -> float:
    return datetime.datetime.fromisoformat(timestamp).timestamp()
