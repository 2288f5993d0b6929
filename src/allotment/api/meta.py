"""The parts that all Kubernetes objects share: metadata, conditions, label selectors.

All API structs derive from :class:`ApiStruct`. They are frozen views of JSON: attributes in snake_case, JSON
names in camelCase. The conventions, here and in the sibling modules:

* an optional scalar is ``None`` when absent; a list is ``()``; a map is ``{}``;
* an optional struct is ``None`` when its absence means something, else an empty struct, so that
  ``claim.status.allocation`` needs no check of ``status``;
* a field that the API requires has its type's zero value when the sender left it out (decoding never fails
  on it; validation does) and is always written, as Kubernetes itself does. :func:`stated` marks these;
* times stay RFC 3339 strings: nothing in ``api`` reads a clock.

Decoding and encoding are in ``codec``, because quantities need its hooks.
"""

from typing import Annotated, Any, ClassVar

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Whole numbers as Kubernetes has them: anything larger is refused when it is read."""
Int32 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int32"})]
Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""These types mark 32-bit numbers and RFC 3339 times in schemas that are made from structs. The server holds objects
to their schemas; reading them as structs is as lenient as for other fields."""


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """The ancestor of all API structs.

    ``gc=False`` is safe because decoded JSON has no cycles and frozen structs cannot gain one; it spares the garbage
    collector from tracking hundreds of thousands of devices.

    ``NOT_READ`` names JSON fields that the API has but the struct omits because none of our code reads them. They are
    known, so they are not reported as misspelt, but the typed view does not carry them.

    ``SHORT_FORM``, if set, allows a bare string in place of the struct and names the JSON field that it stands for.
    """

    NOT_READ: ClassVar[frozenset[str]] = frozenset()
    SHORT_FORM: ClassVar[str | None] = None


def stated(value: Any, *, name: str | None = None) -> Any:
    """A field default that is encoded even when nobody changed it. ``value`` must be immutable."""
    return msgspec.field(default_factory=lambda: value, name=name)


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """An object that owns this one. When all of its owners are gone, the garbage collector deletes this object."""

    api_version: str = stated("")  # the API version of the owner
    kind: str = stated("")  # the kind of the owner
    name: str = stated("")  # the name of the owner, which is in the same namespace or cluster-scoped
    uid: str = stated("")  # the uid of the owner
    controller: bool | None = None  # true: the owner manages this object
    # true: if the owner is deleted in the foreground, it stays until this object is gone
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """Identity and bookkeeping of an object.

    Name, namespace, uid and resource version are never meaningfully empty, so they read as ``""`` when absent instead
    of ``None``. ``managedFields``, which can be most of an object, is not read.
    """

    NOT_READ = frozenset({"managedFields"})

    name: str = ""  # unique within its kind and namespace
    # a prefix that the server completes to a unique name; used only if no name is given
    generate_name: str = ""
    namespace: str = ""  # the namespace of the object; empty for cluster-scoped kinds
    self_link: str | None = None  # no longer used
    uid: str = ""  # unique in time and space, set by the server
    resource_version: str = ""  # the version of the object, an opaque text that the server sets on each write
    generation: Int64 | None = None  # the number of changes to the spec, counted by the server
    creation_timestamp: str | None = None  # when the object was created; set by the server
    # if set, the object is being deleted and goes away once its finalizers are gone
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None  # how many seconds the object may take to go away
    # short key-value pairs that selectors can match
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    # any other key-value pairs that tools want to record
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()  # the owners of this object, which goes away with them
    # tasks to complete before the object goes away; the component that completes one removes its entry
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or just the name where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Any) -> str:
    """The key of a typed object, whatever its kind."""
    return str(obj.metadata.key)


class ShardInfo(ApiStruct, frozen=True, kw_only=True):
    """The part of a collection that a sharded list covers."""

    selector: str = stated("")


class ListMeta(ApiStruct, frozen=True, kw_only=True):
    """Bookkeeping of a list: the revision that it shows and how to fetch the rest of it."""

    resource_version: str = ""
    self_link: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: Int64 | None = None
    shard_info: ShardInfo | None = None


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One observed fact about an object: ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str = stated("")  # what the fact is about
    status: str = stated("")  # True, False or Unknown
    observed_generation: Int64 | None = None  # the generation of the object for which the status was observed
    last_transition_time: str | None = stated(None)  # when the status last changed
    reason: str = stated("")  # one word that programs can read
    message: str = stated("")  # a sentence that people can read


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One test of a label: ``operator`` is In, NotIn, Exists or DoesNotExist."""

    key: str = stated("")  # the label to test
    operator: str = stated("")  # In, NotIn, Exists or DoesNotExist
    values: tuple[str, ...] = ()  # the values to compare with, for In and NotIn


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """All of its tests must hold. An empty selector matches everything; an absent one matches nothing."""

    # labels and the values that they must have
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()  # further tests of labels
