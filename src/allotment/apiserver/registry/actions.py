"""Subresources other than /status: actions, which do something, and views, which show an object in another form."""

from __future__ import annotations

from typing import Any

from allotment.api.patch_type import PatchType
from allotment.api.schema.schema import Schema, schema_of
from allotment.api.status import BadRequest, not_found
from allotment.apiserver.patch.json_patch import json_patch
from allotment.apiserver.patch.merge_patch import merge_patch
from allotment.apiserver.patch.strategic import strategic_merge
from allotment.apiserver.registry.body import accepted_as
from allotment.apiserver.registry.call import WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion, delete_options
from allotment.apiserver.registry.patches import Patches
from allotment.apiserver.registry.resource import ActionCall, Services, SubresourceAction, SubresourceView
from allotment.apiserver.registry.strategy import Operation
from allotment.apiserver.registry.writes import Prepared, Writes, same, settled
from allotment.apiserver.store.record import Obj, Record

_OK: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class ResourceActions:
    """Runs actions and views of objects."""

    def __init__(self, writes: Writes, deletion: Deletion, patches: Patches, services: Services) -> None:
        self._writes = writes
        self._deletion = deletion
        self._patches = patches
        self._services = services

    def sent(self, name: str, action: SubresourceAction, body: Any, call: WriteContext) -> Obj:
        """The body of an action on the object of this name. Raises StatusError."""
        schema = schema_of(action.api_version, action.kind)
        sent = accepted_as(action.api_version, action.kind, schema, body, [], call)
        if (said := (sent.get("metadata") or {}).get("name")) and said != name:
            raise BadRequest(f"name in URL does not match name in {action.kind} object")
        return sent

    def run(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        subresource: str,
        action: SubresourceAction,
        sent: Obj,
        call: WriteContext,
    ) -> Written:
        """Does an action; its answer is in ``Written.reply``. Raises StatusError."""
        record = self._head(served, namespace, name)
        old = record.peek()
        result = action.run(old, sent, ActionCall(call.identity, call.now, call.dry_run, self._services))
        reply = result.reply if result.reply is not None else dict(_OK)
        if result.delete:
            options = delete_options(result.delete_options) if result.delete_options else DeleteOptions()
            last = record
            if result.changed is not None:
                last = settled(record.key, result.changed)
                last.at_hand = result.changed
            written = self._deletion.delete_record(served, last, options, call)
        elif result.changed is None:
            written = self._writes.unchanged(record)
        else:
            written = self._writes.store_changed(served, record, old, result.changed, call, subresource)
        outcome = written.outcome
        for key, obj in result.others:  # only after all checks; the last write becomes durable last
            outcome = self._writes.put(key, obj, call)
        return Written(outcome, created=True, reply=reply)

    def read(self, served: ServedResource, record: Record, view: SubresourceView) -> Obj:
        obj = served.from_hub(record.load()) if served.resource.readers else record.load()
        return (view.shown or view.read)(obj)

    def prepare_replace(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        subresource: str,
        view: SubresourceView,
        body: Any,
        call: WriteContext,
    ) -> Prepared:
        """The change of an object that gives its view the requested content."""
        record = self._head(served, namespace, name)
        sent = accepted_as(view.api_version, view.kind, _schema(view), body, [], call)
        return self._prepared(served, record, subresource, view, sent, call)

    def prepare_patch(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        subresource: str,
        view: SubresourceView,
        type_: PatchType,
        patch: Any,
        call: WriteContext,
    ) -> Prepared:
        """The change of an object by a patch of a view of it."""
        record = self._head(served, namespace, name)
        shown = view.read(record.load())
        if type_ is PatchType.JSON:
            wanted = json_patch(shown, patch)
        elif type_ is PatchType.STRATEGIC:
            wanted = strategic_merge(shown, patch, _schema(view))
        else:
            wanted = merge_patch(shown, patch)
        sent = accepted_as(view.api_version, view.kind, _schema(view), wanted, [], call)
        return self._prepared(served, record, subresource, view, sent, call)

    def _prepared(
        self,
        served: ServedResource,
        record: Record,
        subresource: str,
        view: SubresourceView,
        sent: Obj,
        call: WriteContext,
    ) -> Prepared:
        old, new = record.load(), record.load()
        view.write(new, sent)
        version = (sent.get("metadata") or {}).get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        if same(new, old):
            write = call.write(Operation.UPDATE, subresource)
            return Prepared(served, record.key, record, new, old, call, write, nothing=True)
        return self._writes.prepare_replace(served, record, old, new, call, subresource, check=view.check)

    def _head(self, served: ServedResource, namespace: str, name: str) -> Record:
        record = self._writes.store.head(served.key(namespace, name))
        if record is None:
            raise not_found(served.resource.plural, name, served.group)
        return record


def _schema(view: SubresourceView) -> Schema:
    return schema_of(view.api_version, view.kind)
