"""The sender of a request, and the request: the two parts of every question to an authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Identity:
    """A user in Kubernetes' sense: a name and groups, however they were authenticated."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
ADMINISTRATOR = Identity("system:admin", ("system:masters", "system:authenticated"))


class Attributes(msgspec.Struct, frozen=True):
    """One request as authorization sees it.

    ``verb`` is Kubernetes' (get, list, watch, create, update, patch, delete, deletecollection, or a special one such as
    ``bind``). For paths that are not resources, ``path`` is set and ``resource`` is empty.
    """

    identity: Identity
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    # for list and watch: the name that the field selector requires, if it requires one
    name: str = ""
    path: str = ""
    fields: tuple[tuple[str, str], ...] = ()  # for list and watch: the selector's field=value requirements


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The result of an authorization.

    ``reason`` says which rule allowed the request, or what is missing. It must not name objects that the caller may not
    see.
    """

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides about requests without waiting, from state in memory."""

    def decide(self, attributes: Attributes) -> AccessDecision: ...
