"""The server's description of a kind: its names, versions, columns, selectable fields, subresources and strategy.

Adding a kind is one file in ``kinds/`` that defines ``RESOURCES``, a tuple of these. Everything else (routes, discovery,
OpenAPI, tables, patches) follows from it and from the kind's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from allotment.api.fields import FieldError
from allotment.api.names import dns_subdomain_problem
from allotment.api.schema.conform import Conformed
from allotment.api.schema.schema import Schema
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.strategy import Strategy
from allotment.apiserver.store.record import Key, Obj, Record

Read = Callable[[Obj], Any]
"""What a column shows or a field selector compares, from an object in the hub version. Never raises."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of ``kubectl get``; with ``priority`` above 0 only ``-o wide`` shows it. ``read`` gives a JSON scalar."""

    name: str
    type: str  # string, integer, number, boolean, date
    read: Callable[[Obj, str], Any]  # the object, and the time now as RFC 3339
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version other than the hub in which a kind is served, with the way there and back.

    Both ways return a new object; going there and back loses nothing. ``group`` is set where the other form lives in
    another group (events). ``None`` means the forms differ in apiVersion only. ``own`` are the fields of the resource
    that differ in this version (of custom kinds: strategy, columns, subresources).
    """

    version: str
    to_hub: Callable[[Obj], Obj] | None = None
    from_hub: Callable[[Obj], Obj] | None = None
    group: str | None = None
    # the warning for users of this version: "deprecated in v1.35+, unavailable in v1.38+"
    deprecated: str = ""
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubresourceAction:
    """A subresource that performs an action on POST: ``pods/binding``, ``serviceaccounts/token``.

    ``run`` gets the target as stored (hub version) and the body, and leaves both as they are. It returns the target
    changed, which may share parts of it, to be stored, or None to leave it, and the reply's body (None: a Success status). It raises StatusError.
    """

    api_version: str  # of the body
    kind: str
    run: Callable[[Obj, Obj, ActionCall], ActionResult]


@dataclass(frozen=True, slots=True)
class SubresourceView:
    """A subresource that is read and written: ``deployments/scale``, ``pods/resize``, ``namespaces/finalize``.

    ``read`` gives what GET answers, unless ``shown`` is there to do so. ``write`` gets the target as stored (its own copy) and a body in the form of
    ``read``, and changes the target; what comes of it passes ``prepare_update`` and ``validate_update`` with
    ``Write.subresource`` set, as any update does. ``write`` raises StatusError. ``check``, if given, judges the change in
    place of ``validate_update``.
    """

    api_version: str  # of the body
    kind: str
    read: Callable[[Obj], Obj]
    write: Callable[[Obj, Obj], None]
    check: Callable[[Obj, Obj], Iterable[FieldError]] | None = None  # the new object, the old one
    verbs: frozenset[str] = frozenset({"get", "patch", "update"})
    shown: Callable[[Obj], Obj] | None = None


class Services(Protocol):
    """What the server offers to actions. Reads are of the head, so what an action decides on is still true when it is stored."""

    def head(self, key: Key) -> Record | None: ...

    def heads(self, resource: str, namespace: str = "") -> Iterable[Record]: ...

    def issue_token(self, namespace: str, name: str, uid: str, request: Obj) -> Obj:
        """The TokenRequest answered: ``status.token`` and ``status.expirationTimestamp`` set."""


@dataclass(frozen=True, slots=True)
class ActionCall:
    """The circumstances of an action. ``server`` is a :class:`Services`."""

    identity: Identity
    now: str
    dry_run: bool
    server: Any


@dataclass(frozen=True, slots=True)
class ActionResult:
    changed: Obj | None
    reply: Obj | None
    delete: bool = False  # pods/eviction: delete the target instead of storing it
    delete_options: Obj | None = None  # if ``delete``: options as in the body of a DELETE
    # further objects to store, such as the budget that an eviction uses
    others: tuple[tuple[Key, Obj], ...] = ()


@dataclass(frozen=True)
class Resource:
    """A kind that the server stores."""

    group: str  # empty for core
    version: str  # the hub: the version that is stored and that strategies see
    kind: str
    plural: str
    namespaced: bool
    strategy: Strategy = field(default_factory=Strategy)
    singular: str = ""  # default: the kind in lower case
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()  # "all" for what `kubectl get all` shows
    columns: tuple[PrinterColumn, ...] = ()  # after Name; empty: Name and Age
    fields: Mapping[str, Read] = field(
        default_factory=dict
    )  # selectable besides metadata.name and metadata.namespace
    versions: tuple[ServedVersion, ...] = ()  # served besides the hub
    hub_served: bool = True
    status: bool = False  # has a /status subresource
    actions: Mapping[str, SubresourceAction] = field(default_factory=dict)
    views: Mapping[str, SubresourceView] = field(default_factory=dict)
    name_problem: Callable[[str], str | None] = dns_subdomain_problem  # what is wrong with metadata.name
    create_on_update: bool = False  # PUT to a name that does not exist creates it
    unconditional_update: bool = True  # False: PUT must carry a resourceVersion
    schemas: Mapping[str, Schema] = field(default_factory=dict)  # of custom kinds, by version
    readers: Mapping[str, Callable[[Obj], Conformed]] = field(
        default_factory=dict
    )  # of custom kinds, by version: what a body becomes
    list_kind: str = ""  # default: the kind and List
    # False: definitions and custom kinds may have finalizers without a path
    finalizers_qualified: bool = True
    initial: tuple[Obj, ...] = ()  # objects that exist from the first start on
    name_first: bool = True  # False: ``columns`` has its own Name somewhere (events)
    row_conditions: Callable[[Obj], list[Obj]] | None = None  # of a table's row: pods that have ended
    verbs: frozenset[str] = frozenset(
        {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    )
    doc: str = ""  # what the kind is, for `kubectl explain`, where no type in api/ says it

    @cached_property
    def id(self) -> str:
        """The plural with its group, as RBAC and error messages have it, and the store's key."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
