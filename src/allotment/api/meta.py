"""What every Kubernetes object carries around its own content: metadata, conditions, label selectors.

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
"""Where a schema is made from the struct, it says which of the numbers are of 32 bits, and which texts are times in
RFC 3339. The server holds objects to their schemas; reading them as structs is as lenient as for other fields."""


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """The ancestor of all API structs.

    ``gc=False`` is safe because decoded JSON has no cycles and frozen structs cannot gain one; it keeps
    hundreds of thousands of devices out of the garbage collector's sight.

    ``NOT_READ`` names JSON fields that the API has and the struct leaves out, as nothing of ours reads
    them: they are known, so they are not reported as misspelt, but the typed view does not carry them.

    ``SHORT_FORM`` names the JSON field that a bare string in place of the struct stands for, if that is allowed.
    """

    NOT_READ: ClassVar[frozenset[str]] = frozenset()
    SHORT_FORM: ClassVar[str | None] = None


def stated(value: Any, *, name: str | None = None) -> Any:
    """A field default that is written out even when nobody changed it. ``value`` must be immutable."""
    return msgspec.field(default_factory=lambda: value, name=name)


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """The object that this one belongs to and is garbage-collected with."""

    api_version: str = stated("")  # of the owner
    kind: str = stated("")  # of the owner
    name: str = stated("")  # of the owner, in the same namespace or without one
    uid: str = stated("")  # of the owner
    controller: bool | None = None  # true: the owner manages this object
    # true: the owner stays until this object is gone, if it is deleted in the foreground
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """Identity and bookkeeping of an object.

    Name, namespace, uid and resource version are never meaningfully empty, so they read as ``""`` when
    absent instead of ``None``. Of ``managedFields``, which can be most of an object, nothing is read.
    """

    NOT_READ = frozenset({"managedFields"})

    name: str = ""  # unique within its kind and namespace
    generate_name: str = ""  # the beginning of a name that the server completes, used if there is no name
    namespace: str = ""  # where the object lives; empty for kinds without namespaces
    self_link: str | None = None  # not used any more
    uid: str = ""  # unique in time and space, set by the server
    resource_version: str = ""  # opaque, set by the server on each write
    generation: Int64 | None = None  # counts changes of the spec, set by the server
    creation_timestamp: str | None = None  # set by the server
    deletion_timestamp: str | None = None  # set: the object is going away once its finalizers are gone
    deletion_grace_period_seconds: Int64 | None = None  # how long the object may take to go away
    labels: dict[str, str] = msgspec.field(default_factory=dict)  # for selection
    # for everything else that tools want to note
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()  # the objects that this one goes away with
    # what must still happen before the object goes; each is removed by who does it
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
    """Bookkeeping of a list: the revision it shows and how to get the rest of it."""

    resource_version: str = ""
    self_link: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: Int64 | None = None
    shard_info: ShardInfo | None = None


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One observed fact about an object: ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str = stated("")  # what the fact is about
    status: str = stated("")  # True, False or Unknown
    observed_generation: Int64 | None = None  # the generation of the object that the fact is about
    last_transition_time: str | None = stated(None)  # when the status changed
    reason: str = stated("")  # one word for programs
    message: str = stated("")  # a sentence for people


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One test of a label: ``operator`` is In, NotIn, Exists or DoesNotExist."""

    key: str = stated("")  # the label
    operator: str = stated("")  # In, NotIn, Exists or DoesNotExist
    values: tuple[str, ...] = ()  # for In and NotIn


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """All of its tests must hold. An empty selector matches everything; an absent one matches nothing."""

    # labels with the values that they must have
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()  # tests of labels
