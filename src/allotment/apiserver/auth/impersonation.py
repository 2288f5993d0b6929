"""Impersonation: the ``Impersonate-…`` headers, and the rights that they require.

There are several modes, tried in this order. The first mode that allows the request decides; if none does, the answer is
the first refusal:

* constrained, with a mode for a node, a service account, or anybody else (``user-info``). It needs two rights: to make
*this request* while impersonating, verb ``impersonate-on:MODE:VERB`` on the requested resource; and to be that user,
verb verb ``impersonate:MODE`` on users, groups, uids and userextras in authentication.k8s.io;
* the old mode: verb ``impersonate`` on users, groups and serviceaccounts in the core group, and on uids and userextras in
authentication.k8s.io, for any request.

Constrained impersonation never gives ``system:masters``. A mode for nodes and service accounts takes the name only: the
groups follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec

from allotment.api.names import dns_subdomain_problem
from allotment.api.status import BadRequest, Forbidden
from allotment.apiserver.auth.authentication import Headers
from allotment.apiserver.auth.authorization import MASTERS, refusal
from allotment.apiserver.auth.identity import ANONYMOUS, Attributes, Authorizer, Identity
from allotment.apiserver.auth.node import NODES
from allotment.apiserver.auth.node import PREFIX as NODE_PREFIX
from allotment.apiserver.auth.service_account import account_groups, account_of

_PREFIX, _EXTRA = b"impersonate-", b"impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_MOST_VALUES = 64  # the most values in one request; each needs a decision


@dataclass(slots=True)
class ImpersonationHeaders:
    """The unverified content of the headers."""

    name: str = ""
    uid: str = ""
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name_only(self) -> bool:
        return not (self.uid or self.groups or self.extra)


def wanted(headers: Headers) -> ImpersonationHeaders | None:
    """The identity that the headers request; None if they request none, which is the usual case."""
    found = [(name, value) for name, value in headers if name.startswith(_PREFIX)]
    if not found:
        return None
    asked = ImpersonationHeaders()
    for name, raw in found:
        value = raw.decode("utf-8", "replace")
        if name == b"impersonate-user":
            asked.name = asked.name or value
        elif name == b"impersonate-uid":
            asked.uid = asked.uid or value
        elif name == b"impersonate-group":
            asked.groups.append(value)
        elif name.startswith(_EXTRA):
            key = unquote(name[len(_EXTRA) :].decode("latin-1").lower())
            asked.extra.setdefault(key, []).append(value)
    if not asked.name:
        if asked.name_only:
            return None
        raise BadRequest(f"requested {_told(asked)} without impersonating a user name")
    if len(asked.groups) + sum(map(len, asked.extra.values())) > _MOST_VALUES:
        raise BadRequest(f"requested to impersonate more than {_MOST_VALUES} groups and extra values")
    return asked


def impersonated(headers: Headers, attributes: Attributes, authorizer: Authorizer) -> Identity:
    """The effective identity: ``attributes.identity``, or the one that the headers request, if it is allowed.

    ``attributes`` describe the request with its sender's own identity. Raises BadRequest and Forbidden.
    """
    asked = wanted(headers)
    if asked is None:
        return attributes.identity
    first: Forbidden | None = None
    for mode in _MODES:
        if not mode.applies(asked, attributes.identity):
            continue
        try:
            for question in mode.questions(asked, attributes):
                _require(question, authorizer)
        except Forbidden as exc:
            first = first or exc
        else:
            return _identity(asked, constrained=mode.constrained)
    assert first is not None  # the last mode applies to everything
    raise first


def _require(question: Attributes, authorizer: Authorizer) -> None:
    decision = authorizer.decide(question)
    if not decision.allowed:
        raise refusal(question, decision.reason)


def _identity(asked: ImpersonationHeaders, *, constrained: bool) -> Identity:
    groups = list(asked.groups)
    account = account_of(asked.name)
    if not groups and account is not None:
        groups = list(account_groups(account[0]))
    elif constrained and _node_of(asked.name):
        groups = [NODES]
    if asked.name == ANONYMOUS.name:
        groups.append("system:unauthenticated")
    elif "system:unauthenticated" not in groups:
        groups.append("system:authenticated")
    extra = {key: tuple(values) for key, values in asked.extra.items()}
    return Identity(asked.name, tuple(dict.fromkeys(groups)), asked.uid, extra)


# --- the modes


@dataclass(frozen=True, slots=True)
class _Mode:
    name: str  # empty for the old mode
    applies: Callable[[ImpersonationHeaders, Identity], bool]

    @property
    def constrained(self) -> bool:
        return bool(self.name)

    def questions(self, asked: ImpersonationHeaders, attributes: Attributes) -> Iterator[Attributes]:
        """All rights that the sender needs. Raises Forbidden for an identity that nobody can have."""
        requester = attributes.identity
        verb, group = "impersonate", ""
        if self.constrained:
            yield msgspec.structs.replace(attributes, verb=f"impersonate-on:{self.name}:{attributes.verb}")
            verb, group = f"impersonate:{self.name}", _AUTHENTICATION
        yield self._user(asked, Attributes(requester, verb, group, "v1", "users", name=asked.name))
        if asked.uid:
            yield Attributes(requester, verb, _AUTHENTICATION, "v1", "uids", name=asked.uid)
        for name in asked.groups:
            question = Attributes(requester, verb, group, "v1", "groups", name=name)
            if self.constrained and name in ("", MASTERS):
                raise refusal(question, f"impersonating the {name or 'empty string'} group is not allowed")
            yield question
        for key, values in asked.extra.items():
            for value in values:
                question = Attributes(requester, verb, _AUTHENTICATION, "v1", "userextras", key, name=value)
                if self.constrained and not (key and value):
                    raise refusal(question, "impersonating empty values in extra is not allowed")
                yield question

    def _user(self, asked: ImpersonationHeaders, question: Attributes) -> Attributes:
        account, node = account_of(asked.name), _node_of(asked.name)
        if account is not None:
            return msgspec.structs.replace(
                question, resource="serviceaccounts", namespace=account[0], name=account[1]
            )
        if self.constrained and node:
            name = "*" if self.name == "associated-node" else node
            return msgspec.structs.replace(question, resource="nodes", name=name)
        return question


def _is_own_node(asked: ImpersonationHeaders, requester: Identity) -> bool:
    """Whether a service account with a pod-bound token requests to be the node of that pod."""
    node = _node_of(asked.name)
    runs_on = requester.extra.get("authentication.kubernetes.io/node-name")
    return bool(node) and asked.name_only and account_of(requester.name) is not None and runs_on == (node,)


_MODES = (
    _Mode("associated-node", _is_own_node),
    _Mode("arbitrary-node", lambda asked, _: asked.name_only and bool(_node_of(asked.name))),
    _Mode("serviceaccount", lambda asked, _: asked.name_only and account_of(asked.name) is not None),
    _Mode("user-info", lambda asked, _: not _node_of(asked.name) and account_of(asked.name) is None),
    _Mode("", lambda asked, _: True),
)


def _node_of(user: str) -> str:
    """The node, if a user name is that of one; empty otherwise."""
    name = user.removeprefix(NODE_PREFIX)
    return name if name != user and dns_subdomain_problem(name) is None else ""


def _told(asked: ImpersonationHeaders) -> str:
    """The request in Go's notation, which Kubernetes clients expect."""
    groups = _strings(asked.groups) if asked.groups else "[]string(nil)"
    extra = ", ".join(f'"{key}":{_strings(values)}' for key, values in asked.extra.items())
    told = f"map[string][]string{{{extra}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:"{asked.uid}", Groups:{groups}, Extra:{told}}}'


def _strings(values: Iterable[str]) -> str:
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"
