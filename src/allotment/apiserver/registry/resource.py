"""What a kind is to the server: its names, versions, columns, selectable fields, subresources and strategy.

Adding a kind is one file in ``kinds/`` that defines ``RESOURCES``, a tuple of these. Everything else (routes, discovery,
OpenAPI, tables, patches) follows from it and from the kind's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.strategy import Strategy
from allotment.apiserver.store.record import Obj

Read = Callable[[Obj], Any]
"""What a column shows or a field selector compares, from an object in the hub version. Never raises."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; with ``priority`` above 0 only ``-o wide`` shows it. ``read`` gives a JSON scalar."""

    name: str
    type: str  # string, integer, number, boolean, date
    read: Callable[[Obj, str], Any]  # the object, and the time now as RFC 3339
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """A version other than the hub in which a kind is served, with the way there and back.

    Both ways return a new object; going there and back loses nothing. ``group`` is set where the other form lives in
    another group (events). ``None`` means the forms differ in apiVersion only.
    """

    version: str
    to_hub: Callable[[Obj], Obj] | None = None
    from_hub: Callable[[Obj], Obj] | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A subresource that is POSTed to and does something: ``pods/binding``, ``serviceaccounts/token``.

    ``run`` gets the target as stored (hub version, its own copy) and the body. It returns the target changed, to be
    stored, or None to leave it, and the reply's body (None: a Success status). It raises StatusError.
    """

    api_version: str  # of the body
    kind: str
    run: Callable[[Obj, Obj, ActionCall], ActionResult]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """What an action may know of its call. ``server`` offers what actions of built-in kinds need (token signing)."""

    identity: Identity
    now: str
    dry_run: bool
    server: Any


@dataclass(frozen=True, slots=True)
class ActionResult:
    changed: Obj | None
    reply: Obj | None
    delete: bool = False  # pods/eviction: delete the target in place of storing it


@dataclass(frozen=True)
class Resource:
    """A kind that the server stores."""

    group: str  # empty for core
    version: str  # the hub: what is stored, and what strategies see
    kind: str
    plural: str
    namespaced: bool
    strategy: Strategy = field(default_factory=Strategy)
    singular: str = ""  # default: the kind in lower case
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()  # "all" for what `kubectl get all` shows
    columns: tuple[Column, ...] = ()  # after Name; empty: Name and Age
    fields: Mapping[str, Read] = field(
        default_factory=dict
    )  # selectable besides metadata.name and metadata.namespace
    versions: tuple[Version, ...] = ()  # served besides the hub
    hub_served: bool = True
    status: bool = False  # has a /status subresource
    actions: Mapping[str, Action] = field(default_factory=dict)
    verbs: frozenset[str] = frozenset(
        {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    )
    doc: str = ""  # what the kind is, for `kubectl explain`, where no type in api/ says it

    @property
    def id(self) -> str:
        """The plural with its group, as RBAC and error messages have it, and the store's key."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
