"""The pipeline of a write: from an object that a client sent to a change in the store.

Everything happens in one step on the head of the store: the old object is read; the new one is made, defaulted, tracked
(field ownership), mutated by admission, prepared by its strategy, validated, admitted and stored, without an await in
between. So nothing that was checked can change meanwhile, and nothing needs a retry (but see below for large objects). A
dry run omits the last step. The reply waits until the write is durable (``Written.record``).

A large object takes longer to make than a request may hold the event loop. So a write has two halves: ``prepare_…`` makes
the object and checks it by its kind's rules, ``commit`` admits and stores it. Preparing reads the head and changes
nothing, so a thread may do it; its caller then calls ``stands`` before the commit, and prepares again if the head has
moved.

Objects arrive in the version of the request and are first converted to the hub version. Field ownership is tracked in the
request's version, as its paths belong to that version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import (
    BadRequest,
    Forbidden,
    StatusError,
    already_exists,
    conflict,
    invalid,
    not_found,
)
from allotment.apiserver.registry.admission import Admission, Admissions
from allotment.apiserver.registry.call import WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.metadata import metadata_change_errors, metadata_errors
from allotment.apiserver.registry.ownership import track_fields
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.store.store import Store, check_size

_SUFFIX_LETTERS = (
    "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words; nothing that looks like another sign
)
_LONGEST_PREFIX = 63 - 5
_NAME_ATTEMPTS = 8

_RANDOM = Random(
    secrets.randbits(256)
)  # uids need to differ, not to be secret; asking the system each time is slow

Comparison = Callable[[Obj, Obj], Iterable[FieldError]]
"""What is wrong with a change: the new object, the old one."""

Change = Callable[[Obj], Obj]
"""From the stored object to the wanted one, another dict, both in the hub version. Leaves the first as it is, and may
share parts of it. Raises StatusError."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A write that is prepared and valid, but not admitted yet."""

    served: ServedResource
    key: Key
    record: Record | None  # the head from which it was made; None if there was none
    obj: Obj
    old: Obj | None
    call: WriteContext
    write: Write
    accounted: object = None
    nothing: bool = False  # whether it changes nothing


class Writes:
    """Creates, updates and removes objects. ``admissions`` are asked in their order."""

    def __init__(self, store: Store, admissions: Sequence[Admission] = ()) -> None:
        self.store = store
        self._admissions = Admissions(admissions)

    def stands(self, prepared: Prepared) -> bool:
        """Whether the head is still the one from which a write was made. Raises StatusError if the namespace is gone."""
        if prepared.record is None:
            self._check_namespace(prepared.served.resource, prepared.obj["metadata"])
        return self.store.head(prepared.key) is prepared.record

    def commit(self, prepared: Prepared) -> Written:
        """Admits and stores a prepared write. Raises StatusError."""
        resource, key, obj, call = prepared.served.resource, prepared.key, prepared.obj, prepared.call
        if prepared.record is None:
            if self.store.head(key) is not None:
                raise already_exists(resource.plural, key.name, prepared.served.group)
        elif prepared.nothing:
            return self.unchanged(prepared.record)
        self._admissions.admit(resource, obj, prepared.old, prepared.write)
        if prepared.record is None:
            return Written(self.put(key, obj, call, prepared.accounted), created=True)
        with prepared.record.decoded(prepared.old):  # for followers
            if may_go(resource, obj):
                return self.remove(key, obj, call)
            return Written(self.put(key, obj, call, prepared.accounted))

    # --- create ---

    def create(self, served: ServedResource, namespace: str, obj: Obj, call: WriteContext) -> Written:
        """Stores a new object, sent in the served version. Raises StatusError."""
        return self.commit(self.prepare_create(served, namespace, obj, call))

    def prepare_create(
        self, served: ServedResource, namespace: str, obj: Obj, call: WriteContext, tracked: bool = False
    ) -> Prepared:
        """A new object; ``tracked`` if field ownership is settled. Raises StatusError."""
        resource = served.resource
        hub = served.to_hub(obj)
        metadata = own_metadata(hub)
        match_namespace(resource, metadata, namespace)
        if _named_version(metadata):
            raise StatusError("resourceVersion should not be set on objects to be created")
        self._check_namespace(resource, metadata)
        _begin(metadata, call)
        write = call.write(Operation.CREATE)
        resource.strategy.default(hub, write)
        accounted = None
        if not tracked and track_fields(served, hub, None, call, ""):
            accounted = served.schema
        self._admissions.mutate(resource, hub, None, write)
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if generated:
            metadata["name"] = self._free_name(resource, metadata)
        resource.strategy.prepare_create(hub, write)
        metadata = hub["metadata"]
        errors = metadata_errors(resource, metadata) + resource.strategy.validate(hub)
        if errors:
            raise invalid(resource.kind, metadata.get("name") or "", errors, resource.group)
        for warning in resource.strategy.warnings(hub):
            call.warn(warning)
        key = Key(resource.id, metadata.get("namespace", ""), metadata["name"])
        return Prepared(served, key, None, hub, None, call, write, accounted)

    def _free_name(self, resource: Resource, metadata: Obj) -> str:
        stem = str(metadata["generateName"])[:_LONGEST_PREFIX]
        name = ""
        for _ in range(_NAME_ATTEMPTS):
            name = stem + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
            if self.store.head(Key(resource.id, metadata.get("namespace", ""), name)) is None:
                break
        return name

    def _check_namespace(self, resource: Resource, metadata: Obj) -> None:
        """New content needs a namespace that exists and is not being deleted."""
        if not resource.namespaced:
            return
        namespace = metadata["namespace"]
        record = self.store.head(Key("namespaces", "", namespace))
        if record is None:
            raise not_found("namespaces", namespace)
        if b'"deletionTimestamp"' in record.data and record.load()["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            name = metadata.get("name") or ""
            subject = f'{resource.id} "{name}"'
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {"name": name, "group": resource.group, "kind": resource.plural, "causes": [cause]}
            raise Forbidden(
                f"{subject} is forbidden: {why}", {key: value for key, value in details.items() if value}
            )

    # --- update ---

    def update(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        obj: Obj,
        call: WriteContext,
        subresource: str = "",
    ) -> Written:
        """Replaces an object by the one sent in the served version; /status replaces only the status. Raises StatusError."""
        return self.commit(self.prepare_update(served, namespace, name, obj, call, subresource))

    def prepare_update(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        obj: Obj,
        call: WriteContext,
        subresource: str = "",
    ) -> Prepared:
        check_name(obj, namespace, name)
        wanted = served.to_hub(obj)
        metadata = own_metadata(wanted)
        match_namespace(served.resource, metadata, namespace)
        key = served.key(namespace, name)
        record = self.store.head(key)
        if record is None:
            if not served.resource.create_on_update or subresource:
                raise not_found(served.resource.plural, name, served.group)
            metadata.pop("resourceVersion", None)
            return self.prepare_create(served, namespace, obj, call)
        old = record.load()
        _check_uid(served, key, metadata, old)
        return self.prepare_replace(served, record, old, wanted, call, subresource)

    def prepare_change(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        change: Change,
        call: WriteContext,
        subresource: str = "",
    ) -> Prepared:
        """Prepares the result of ``change`` on the existing object, for patches and views."""
        record = self.store.head(served.key(namespace, name))
        if record is None:
            raise not_found(served.resource.plural, name, served.group)
        old = record.load()
        apart = subresource == "status" and served.hub and served.resource.strategy.status_apart
        wanted = change(old if apart else record.load())
        own_metadata(wanted)
        if apart:
            for part in ("metadata", "status"):
                if wanted.get(part) is (there := old.get(part)) and isinstance(there, dict):
                    wanted[part] = there.copy()
        return self.prepare_replace(served, record, old, wanted, call, subresource)

    def replace(
        self,
        served: ServedResource,
        record: Record,
        old: Obj,
        new: Obj,
        call: WriteContext,
        subresource: str = "",
        check: Comparison | None = None,
    ) -> Written:
        """Stores ``new`` over ``old``, both in the hub version. Raises StatusError."""
        return self.commit(self.prepare_replace(served, record, old, new, call, subresource, check=check))

    def prepare_replace(
        self,
        served: ServedResource,
        record: Record,
        old: Obj,
        new: Obj,
        call: WriteContext,
        subresource: str = "",
        tracked: bool = False,
        check: Comparison | None = None,
    ) -> Prepared:
        """``new`` in place of ``old``, both in the hub version.

        ``tracked`` if field ownership is settled already; ``check`` judges in place of the strategy's validation.
        """
        resource, metadata = served.resource, new["metadata"]
        _check_version(served, record, metadata)
        _keep_system_fields(metadata, old["metadata"])
        write = call.write(Operation.UPDATE, subresource)
        strategy = resource.strategy
        if subresource == "status":
            strategy.default_status(new, write)
        else:
            strategy.default(new, write)
        accounted, known = None, record.accounted is served.schema
        if not tracked and track_fields(served, new, old, call, subresource, known):
            accounted = served.schema
        self._admissions.mutate(resource, new, old, write)
        if subresource == "status":
            strategy.prepare_status(new, old, write)
        else:
            strategy.prepare_update(new, old, write)
        metadata = new["metadata"]
        if same(new, old):
            return Prepared(served, record.key, record, new, old, call, write, nothing=True)
        errors = metadata_change_errors(resource, metadata, old["metadata"])
        if check is not None:
            errors += check(new, old)
        elif subresource == "status":
            errors += strategy.validate_status(new, old)
        else:
            errors += strategy.validate_update(new, old)
        if errors:
            raise invalid(resource.kind, record.key.name, errors, resource.group)
        for warning in strategy.warnings(new):
            call.warn(warning)
        return Prepared(served, record.key, record, new, old, call, write, accounted)

    def store_changed(
        self, served: ServedResource, record: Record, old: Obj, new: Obj, call: WriteContext, subresource: str
    ) -> Written:
        """Stores the result of an action, which prepared and checked the object itself."""
        write = call.write(Operation.UPDATE, subresource)
        self._admissions.admit(served.resource, new, old, write)
        return Written(self.put(record.key, new, call, record.accounted))

    # --- the last step ---

    def put(self, key: Key, obj: Obj, call: WriteContext, accounted: object = None) -> Record | Pending:
        """``accounted`` is the schema that the account of who owns which fields agrees with, where that is known."""
        obj = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj}  # first: see ``forms.Plain.many``
        if not call.dry_run:
            pending = self.store.put(key, obj)
            pending.record.accounted = accounted
            return pending
        record = settled(key, obj)
        check_size(record, self.store.head(key))
        return record

    def unchanged(self, record: Record) -> Written:
        """The result when there is nothing to store; the existing state may still be on its way to disk."""
        return Written(self.store.on_its_way(record.key) or record)

    def remove(self, key: Key, obj: Obj, call: WriteContext) -> Written:
        """Removes an object for good; ``obj`` is its last state."""
        if call.dry_run:
            return Written(settled(key, obj), gone=obj)
        return Written(self.store.delete(key, obj), gone=obj)

    def admit_delete(self, resource: Resource, obj: Obj, call: WriteContext) -> None:
        write = call.write(Operation.DELETE)
        self._admissions.admit(resource, obj, None, write)


def settled(key: Key, obj: Obj) -> Record:
    """A record of an object that is not stored."""
    version = obj["metadata"].get("resourceVersion") or "0"
    return Record(key, int(version), msgspec.json.encode(obj))


def own_metadata(obj: Obj) -> Obj:
    """The object's metadata, which is an object from now on."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def match_namespace(resource: Resource, metadata: Obj, namespace: str) -> None:
    """Requires the namespace of the request, and fills it in if the object omits it."""
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(obj: Obj, namespace: str, name: str) -> None:
    """Requires that an object sent to a path with a name has that name."""
    metadata = own_metadata(obj)
    sent = metadata.get("name")
    if not sent:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if sent != name:
        raise BadRequest(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    if namespace and metadata.get("namespace") and metadata["namespace"] != namespace:
        raise BadRequest(
            f"the namespace of the object ({metadata['namespace']}) does not match the namespace on the request ({namespace})"
        )


def same(new: Obj, old: Obj) -> bool:
    """Whether a write changes nothing; the time at which fields were last set does not count."""
    if new == old:
        return True
    entries, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if entries == before or not entries or not before or len(entries) != len(before):
        return False
    timeless = [{**entry, "time": None} for entry in entries]
    if timeless != [{**entry, "time": None} for entry in before]:
        return False
    return {**new, "metadata": {**new["metadata"], "managedFields": before}} == old


def may_go(resource: Resource, obj: Obj) -> bool:
    """Whether nothing holds an object that is being deleted any more."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not resource.strategy.held(obj)
    )


def _begin(metadata: Obj, call: WriteContext) -> None:
    """Sets the fields that the server decides for a new object."""
    for field in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
        "generation",
    ):
        metadata.pop(field, None)
    metadata["uid"] = _new_uid()
    metadata["creationTimestamp"] = call.now


def _new_uid() -> str:
    """A random UUID (version 4). The standard library takes three times as long."""
    digits = f"{_RANDOM.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _keep_system_fields(metadata: Obj, old: Obj) -> None:
    """Restores the fields that an update cannot change, whatever was sent."""
    metadata.pop("selfLink", None)
    if not metadata.get("uid"):
        metadata["uid"] = old["uid"]
    metadata["creationTimestamp"] = old["creationTimestamp"]
    if "generation" in old:
        metadata["generation"] = old["generation"]
    else:
        metadata.pop("generation", None)
    if old.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
        if metadata.get("deletionGracePeriodSeconds") is None:
            metadata["deletionGracePeriodSeconds"] = old.get("deletionGracePeriodSeconds")
    elif metadata.get("deletionTimestamp") is None:
        metadata.pop("deletionTimestamp", None)


def _check_uid(served: ServedResource, key: Key, metadata: Obj, old: Obj) -> None:
    uid, stored = metadata.get("uid"), old["metadata"]["uid"]
    if uid and uid != stored:
        place = "/".join(
            part for part in ("/registry", served.resource.plural, key.namespace, key.name) if part
        )
        why = (
            f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
        )
        raise conflict(served.resource.plural, key.name, served.group, why)


def _named_version(metadata: Obj) -> str:
    """The resourceVersion on which a client bases its write; empty or zero if it states none."""
    version: str = metadata.get("resourceVersion") or ""
    return version if version.strip("0") else ""


def _check_version(served: ServedResource, record: Record, metadata: Obj) -> None:
    """Requires that the resourceVersion of a write, the state on which it is based, is the stored one.

    Of most kinds a client may leave it open, and then replaces whatever there is."""
    resource, name = served.resource, record.key.name
    version = _named_version(metadata)
    if not version:
        if resource.unconditional_update:
            metadata["resourceVersion"] = str(record.revision)
            return
        path = FieldPath("metadata", "resourceVersion")
        raise invalid(
            resource.plural, name, [path.invalid("must be specified for an update", 0)], served.group
        )
    if version != str(record.revision):
        if not version.isdecimal():
            path = FieldPath("metadata", "resourceVersion")
            raise invalid(resource.kind, name, [path.invalid("must be a number", version)], served.group)
        raise conflict(resource.plural, name, served.group)
