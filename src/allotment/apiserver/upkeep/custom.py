"""Serves the kinds that CustomResourceDefinitions define, from the moment their names are accepted until they are gone.

A definition that changes is served anew at once, on the head of the store; at start all that are there are. Its names
are settled in a turn of this job, as other definitions may have them. A definition that is being deleted has its objects
deleted first, finalizers respected, and then goes itself.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from allotment.api.status import StatusError
from allotment.apiserver.registry.catalogue import Catalogue, Served
from allotment.apiserver.registry.conditions import is_true, set_condition
from allotment.apiserver.registry.custom.kind import resource_of
from allotment.apiserver.registry.custom.naming import named
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.kinds.custom_resource_definition import CLEANUP, DEFINITIONS
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.upkeep.task import Clock, Upkeep, utc_now

log = logging.getLogger(__name__)

PER_TURN = 100
"""Objects deleted before requests get their turn."""


class CustomKinds(Upkeep[str]):
    """Follows definitions. ``changed`` is called when a kind came or went."""

    name = "crd-controller"

    def __init__(
        self,
        writes: Writes,
        catalogue: Catalogue,
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
        self._shown: dict[str, Any] = {}  # of each definition, what its kind was made of
        self._named: dict[str, dict[str, Obj]] = {}  # by group and name, what each definition calls its kind
        self._going: dict[str, str] = {}  # the kinds whose definition is being deleted, and its name
        self._due: OrderedDict[str, None] = OrderedDict()
        self._store.follow(DEFINITIONS, self._definition_changed)
        self._store.follow("", self._content_changed)

    def take(self) -> str | None:
        return self._due.popitem(last=False)[0] if self._due else None

    def do(self, due: str) -> None:
        record = self._store.head(Key(DEFINITIONS, "", due))
        if record is not None:
            self._look_after(record)

    def put_back(self, due: str) -> None:
        self._mark(due)

    # --- following ---

    def _definition_changed(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        assert record is not None  # one of the two is there
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
        crd = current.load()
        accepted = (crd.get("status") or {}).get("acceptedNames")
        known = {"metadata": {"name": name}, "status": {"acceptedNames": accepted}}
        self._named.setdefault(name.partition(".")[2], {})[name] = known
        if crd["metadata"].get("deletionTimestamp"):
            self._going[name] = name
        self._serve(name, crd)

    def _content_changed(self, previous: Record | None, current: Record | None) -> None:
        if current is None and previous is not None and previous.key.resource in self._going:
            self._mark(previous.key.resource)

    def _mark(self, name: str) -> None:
        self._due[name] = None
        self.wake()

    # --- serving ---

    def _serve(self, name: str, crd: Obj) -> None:
        """Serves a definition's kind as it is now. Its name is the plural with the group, which is the kind's id, too."""
        metadata, spec = crd["metadata"], crd["spec"]
        names = (crd.get("status") or {}).get("acceptedNames") or {}
        named = names.get("kind") and names.get("plural") == spec["names"].get("plural")
        if name in self._built_in or not named or not is_true(crd, "Established"):
            self._stop_serving(name)
            return
        made_of = (metadata["uid"], bool(metadata.get("deletionTimestamp")), spec, names)
        if self._shown.get(name) == made_of:
            return
        hidden = frozenset(version for group, version in self._versions_taken if group == spec["group"])
        try:
            self._catalogue.add(resource_of(crd, hidden))
        except Exception:
            log.exception("the kind of CustomResourceDefinition %s cannot be served", name)
            self._stop_serving(name)
            return
        self._shown[name] = made_of
        self._kinds_changed()

    def _stop_serving(self, name: str) -> None:
        if self._shown.pop(name, None) is not None:
            self._catalogue.remove(name)
            self._store.end_watches(name)
            self._kinds_changed()

    # --- what a turn does ---

    def _look_after(self, record: Record) -> None:
        crd = record.load()
        metadata = crd["metadata"]
        if not metadata.get("deletionTimestamp"):
            self._settle_names(record, crd)
        elif CLEANUP in (metadata.get("finalizers") or ()):
            self._empty(record, crd)

    def _settle_names(self, record: Record, crd: Obj) -> None:
        name, spec = record.key.name, crd["spec"]
        others = [each for each in self._in_group(spec["group"]) if each["metadata"]["name"] != name]
        naming = named(crd, others)
        old, now = record.load(), self.call().now
        had = (crd.get("status") or {}).get("acceptedNames")
        crd["status"]["acceptedNames"] = {"plural": "", "kind": "", **naming.accepted}
        set_condition(crd, "NamesAccepted", naming.status, naming.reason, naming.message, now)
        if not is_true(crd, "Established"):
            if naming.status == "True":
                told = ("True", "InitialNamesAccepted", "the initial names have been accepted")
            else:
                told = ("False", "NotAccepted", "not all names are accepted")
            set_condition(crd, "Established", *told, now)
        if crd == old:
            return
        self._writes.replace(self._served(), record, old, crd, self.call(), "status")
        if had != crd["status"]["acceptedNames"]:
            for other in others:
                self._mark(other["metadata"]["name"])

    def _empty(self, record: Record, crd: Obj) -> None:
        """Deletes some of the objects that are left; when there are none, lets the definition go."""
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
        if left:
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
        record = self._store.head(record.key) or record
        old, new = record.load(), record.load()
        set_condition(new, "Terminating", status, reason, message, self.call().now)
        if release:
            new["metadata"]["finalizers"] = [
                each for each in new["metadata"]["finalizers"] if each != CLEANUP
            ]
            if not new["metadata"]["finalizers"]:
                del new["metadata"]["finalizers"]
        if new != old:
            self._writes.replace(self._served(), record, old, new, self.call(), "status")

    def _in_group(self, group: str) -> list[Obj]:
        """The definitions of a group, as far as their names go: with their schemas, reading them all would take a while."""
        named = self._named.get(group, {})
        return [named[name] for name in sorted(named)]

    def _served(self) -> Served:
        resource = self._catalogue.resource(DEFINITIONS)
        assert resource is not None  # built in
        return self._catalogue.hub(resource)
