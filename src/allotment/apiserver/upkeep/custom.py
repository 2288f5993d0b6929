"""Serves the kinds that CustomResourceDefinitions define, from the moment their names are accepted until they are gone.

A changed definition takes effect at once, on the head of the store; at start, all existing ones do. A thread compiles a
large definition first, so it takes effect a little later. A turn of this job settles the names of a definition, as other
definitions may have them. When a definition is deleted, its objects are deleted first, respecting finalizers, and then the
definition itself.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from allotment.api.status import StatusError
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.conditions import is_true, set_condition
from allotment.apiserver.registry.custom.kind import resource_of
from allotment.apiserver.registry.custom.naming import named
from allotment.apiserver.registry.custom.strategy import CustomStrategy
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.kinds.custom_resource_definition import CLEANUP, DEFINITIONS
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.writes import Prepared, Writes
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.upkeep.task import LARGE_UPKEEP, Clock, Upkeep, utc_now

log = logging.getLogger(__name__)

PER_TURN = 100
"""The most objects deleted before requests get their turn."""


class _Shown(NamedTuple):
    """A served kind, and the parts of the definition from which it was made."""

    made_of: tuple[Any, ...]
    kind: Resource


class _Compiled(NamedTuple):
    """A stored definition, the kind that it defines if it can be served, and the write that settles its names."""

    record: Record
    crd: Obj
    kind: Resource | None
    names: Prepared | None = None


class _Ending(NamedTuple):
    """The next status of a definition that is being deleted; None if it is up to date. The last one releases it."""

    record: Record
    write: Prepared | None
    last: bool


def _made_of(crd: Obj) -> tuple[Any, ...]:
    metadata = crd["metadata"]
    return (
        metadata["uid"],
        bool(metadata.get("deletionTimestamp")),
        crd["spec"],
        crd["status"]["acceptedNames"],
    )


class CustomKinds(Upkeep[str]):
    """Follows definitions. ``changed`` is called when a kind is added or removed."""

    name = "crd-controller"

    def __init__(
        self,
        writes: Writes,
        catalogue: ResourceCatalogue,
        changed: Callable[[], None] = lambda: None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(writes, clock)
        self._catalogue = catalogue
        self._deletion = Deletion(writes)
        self._kinds_changed = changed
        self._built_in = {resource.id for resource in catalogue.resources}
        self._versions_taken = {
            (group, version) for group, versions in catalogue.groups().items() for version in versions
        }
        self._shown: dict[str, _Shown] = {}
        self._named: dict[str, dict[str, Obj]] = {}  # the names in each definition, by group and name
        self._compiled: dict[str, _Compiled] = {}  # large definitions
        self._endings: dict[str, _Ending] = {}  # likewise
        self._going: dict[str, str] = {}  # the kinds whose definition is being deleted, and its name
        self._due: OrderedDict[str, None] = OrderedDict()
        self._starting = True
        self._store.follow(DEFINITIONS, self._definition_changed)
        self._starting = False
        self._store.follow("", self._content_changed)

    def take(self) -> str | None:
        return self._due.popitem(last=False)[0] if self._due else None

    def do(self, due: str) -> None:
        record = self._store.head(Key(DEFINITIONS, "", due))
        compiled = self._compiled.pop(due, None)
        ending = self._endings.pop(due, None)
        if record is None:
            return
        if ending is not None and ending.record is record:
            self._commit_ending(ending)
        elif len(record.data) <= LARGE_UPKEEP:
            self._look_after(record, record.load())
        elif compiled is None or compiled.record is not record:
            self._mark(due)
            self.leave(lambda: self._compile(record))
        else:
            self._show(due, compiled)
            if compiled.names is not None:
                self._commit_names(compiled.names)
            elif compiled.crd["metadata"].get("deletionTimestamp"):
                self._look_after(record, compiled.crd)

    def put_back(self, due: str) -> None:
        self._mark(due)

    # --- following ---

    def _definition_changed(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        assert record is not None  # at least one of the two exists
        name = record.key.name
        self._mark(name)
        if current is None:
            self._stop_serving(name)
            self._going.pop(name, None)
            self._named.get(name.partition(".")[2], {}).pop(name, None)
            group = name.partition(".")[2]
            for other in self._in_group(group):
                self._mark(other["metadata"]["name"])
            return
        crd = current.peek()
        accepted = dict((crd.get("status") or {}).get("acceptedNames") or {})
        known = {"metadata": {"name": name}, "status": {"acceptedNames": accepted}}
        self._named.setdefault(name.partition(".")[2], {})[name] = known
        if crd["metadata"].get("deletionTimestamp"):
            self._going[name] = name
        if len(current.data) <= LARGE_UPKEEP or self._starting:
            crd = current.load()
            self._show(name, _Compiled(current, crd, self._kind_of(name, crd)))

    def _content_changed(self, previous: Record | None, current: Record | None) -> None:
        if current is None and previous is not None and previous.key.resource in self._going:
            self._mark(previous.key.resource)

    def _mark(self, name: str) -> None:
        self._due[name] = None
        self.wake()

    # --- serving ---

    def _kind_of(self, name: str, crd: Obj) -> Resource | None:
        """The kind that a definition defines, rebuilt if it has changed; None if it should not be served. Only reads.

        The definition's name is the plural with the group, which is also the kind's id.
        """
        names = (crd.get("status") or {}).get("acceptedNames") or {}
        is_named = names.get("kind") and names.get("plural") == crd["spec"]["names"].get("plural")
        if name in self._built_in or not is_named or not is_true(crd, "Established"):
            return None
        known = self._shown.get(name)
        if known is not None and known.made_of == _made_of(crd):
            return known.kind
        group = crd["spec"]["group"]
        try:
            return resource_of(crd, frozenset(version for of, version in self._versions_taken if of == group))
        except Exception:
            log.exception("the kind of CustomResourceDefinition %s cannot be served", name)
            return None

    def _show(self, name: str, compiled: _Compiled) -> None:
        """Serves a definition's kind in its present form."""
        known = self._shown.get(name)
        if compiled.kind is None:
            self._stop_serving(name)
        elif known is None or compiled.kind is not known.kind:
            self._catalogue.add(compiled.kind)
            self._shown[name] = _Shown(_made_of(compiled.crd), compiled.kind)
            self._kinds_changed()

    def _compile(self, record: Record) -> None:
        """Compiles a large definition and settles its names, for the next turn."""
        name, crd = record.key.name, record.load()
        kind = self._kind_of(name, crd)
        if kind is not None:
            for strategy in (kind.strategy, *(version.own.get("strategy") for version in kind.versions)):
                if isinstance(strategy, CustomStrategy):
                    strategy.compile()
        going = crd["metadata"].get("deletionTimestamp")
        names = None if going else self._settled_names(record, crd)
        self._compiled[name] = _Compiled(record, crd, kind, names)

    def _stop_serving(self, name: str) -> None:
        if self._shown.pop(name, None) is not None:
            self._catalogue.remove(name)
            self._store.end_watches(name)
            self._kinds_changed()

    # --- the work of a turn ---

    def _look_after(self, record: Record, crd: Obj) -> None:
        metadata = crd["metadata"]
        if not metadata.get("deletionTimestamp"):
            names = self._settled_names(record, crd)
            if names is not None:
                self._commit_names(names)
        elif CLEANUP in (metadata.get("finalizers") or ()):
            self._empty(record, crd)

    def _settled_names(self, record: Record, crd: Obj) -> Prepared | None:
        """The write that records a definition's names; None if they are up to date. It consumes ``crd``."""
        name, spec = record.key.name, crd["spec"]
        others = [each for each in self._in_group(spec["group"]) if each["metadata"]["name"] != name]
        naming = named(crd, others)
        old, now = record.load(), self.call().now
        crd = {**crd, "status": deepcopy(crd.get("status") or {})}
        crd["status"]["acceptedNames"] = {"plural": "", "kind": "", **naming.accepted}
        set_condition(crd, "NamesAccepted", naming.status, naming.reason, naming.message, now)
        if not is_true(crd, "Established"):
            if naming.status == "True":
                told = ("True", "InitialNamesAccepted", "the initial names have been accepted")
            else:
                told = ("False", "NotAccepted", "not all names are accepted")
            set_condition(crd, "Established", *told, now)
        if crd == old:
            return None
        return self._writes.prepare_replace(self._served(), record, old, crd, self.call(), "status")

    def _commit_names(self, names: Prepared) -> None:
        self._writes.commit(names)
        had = ((names.old or {}).get("status") or {}).get("acceptedNames")
        if had != names.obj["status"]["acceptedNames"]:
            for other in self._in_group(names.obj["spec"]["group"]):
                if other["metadata"]["name"] != names.key.name:
                    self._mark(other["metadata"]["name"])

    def _empty(self, record: Record, crd: Obj) -> None:
        """Deletes some of the remaining objects; when there are none, releases the definition."""
        name = record.key.name
        kind = self._catalogue.resource(name) if name in self._shown else None
        left = list(self._store.heads(name)) if kind is not None else []
        staying = [each for each in left if b'"deletionTimestamp"' not in each.data]
        failed = ""
        if kind is not None:
            served = self._catalogue.hub(kind)
            for each in staying[:PER_TURN]:
                try:
                    self._deletion.delete_record(served, each, DeleteOptions(), self.call())
                except StatusError as exc:
                    failed = exc.message
            left = list(self._store.heads(name))
        if len(staying) > PER_TURN and not failed:
            self._mark(name)
        elif left:
            reason, told = "InstanceDeletionInProgress", "CustomResource deletion is in progress"
            if failed:
                reason, told = "InstanceDeletionFailed", f"could not issue all deletes: {failed}"
            self._tell(record, "True", reason, told)
        else:
            done = ("InstanceDeletionCompleted", "removed all instances")
            if kind is None:
                done = ("NeverEstablished", "resource was never established")
            self._tell(record, "False", *done, release=True)

    def _tell(self, record: Record, status: str, reason: str, message: str, *, release: bool = False) -> None:
        condition = (status, reason, message)
        if len(record.data) <= LARGE_UPKEEP:
            self._commit_ending(self._ending(record, condition, release))
            return
        name = record.key.name

        def prepare() -> None:
            self._endings[name] = self._ending(record, condition, release)

        self._mark(name)
        self.leave(prepare)

    def _ending(self, record: Record, condition: tuple[str, str, str], release: bool) -> _Ending:
        old, new = record.load(), record.load()
        set_condition(new, "Terminating", *condition, self.call().now)
        if release:
            new["metadata"]["finalizers"] = [
                each for each in new["metadata"]["finalizers"] if each != CLEANUP
            ]
            if not new["metadata"]["finalizers"]:
                del new["metadata"]["finalizers"]
        write = None
        if new != old:
            try:
                write = self._writes.prepare_replace(self._served(), record, old, new, self.call(), "status")
            except StatusError as exc:
                log.info("%s: the status of %s: %s", self.name, record.key.name, exc)
        return _Ending(record, write, release)

    def _commit_ending(self, ending: _Ending) -> None:
        name = ending.record.key.name
        if ending.last and name in self._shown and any(True for _ in self._store.heads(name)):
            self._mark(name)  # another object was created meanwhile
        elif ending.write is not None:
            self._writes.commit(ending.write)

    def _in_group(self, group: str) -> list[Obj]:
        """The names in the definitions of a group, without their schemas, which would take a while to read."""
        named = self._named.get(group, {})
        return [named[name] for name in sorted(named)]

    def _served(self) -> ServedResource:
        resource = self._catalogue.resource(DEFINITIONS)
        assert resource is not None  # a built-in kind
        return self._catalogue.hub(resource)
