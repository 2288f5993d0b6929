"""Who is asking, and what they ask for: the two halves of every question to an authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as Kubernetes knows them: a name and groups, whatever proved it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
ADMINISTRATOR = Identity("system:admin", ("system:masters", "system:authenticated"))


class Attributes(msgspec.Struct, frozen=True):
    """One request as authorization sees it. ``verb`` is Kubernetes' (get, list, watch, create, update, patch, delete,
    deletecollection, or a special one as ``bind``); for paths that are no resource, ``path`` is set and ``resource`` empty."""

    identity: Identity
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    # of list and watch: what the field selector asks of metadata.name, if it asks for one name
    name: str = ""
    path: str = ""
    fields: tuple[tuple[str, str], ...] = ()  # of list and watch: the selector's field=value requirements


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """``reason`` says which rule allowed it, or what is missing. It must not name objects the caller may not see."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides at once, from state in memory."""

    def decide(self, attributes: Attributes) -> AccessDecision: ...
