"""The rules of a kind for objects on their way into the store.

For each write the pipeline (``writes.py``) calls, in this order: ``default``, ``prepare_…`` (which settles what the
client may not decide: it keeps or drops status, counts the generation), then ``validate_…``, which reports all
errors at once; then the admission checks that need other objects. A kind overrides what it needs; this one, as it is,
suits a kind without status, defaults or rules. All of it works on plain JSON in the hub version, in place, without I/O.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from allotment.api.fields import FieldError
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.store.record import Obj


class Operation(Enum):
    """The operation, in the terms of admission."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Write(msgspec.Struct, frozen=True):
    """The circumstances of a write."""

    operation: Operation
    identity: Identity
    now: str  # RFC 3339, whole seconds
    subresource: str = ""
    dry_run: bool = False
    # of the request, as authorization names it: for rights that depend on what is written
    verb: str = "update"


class Strategy:
    """The rules of a kind without any of its own; other kinds override some of them."""

    status_apart = False
    """Whether ``default_status`` and ``prepare_status`` change nothing of an object but its metadata and status.

    What else there is may then be shared with the old object, which saves reading that twice."""

    def default(self, obj: Obj, write: Write) -> None:
        """Fills in defaults. Also called on updates, with the new object."""

    def default_status(self, obj: Obj, write: Write) -> None:
        """Fills in what a write to /status left out; the rest of the object will be the old one's."""
        self.default(obj, write)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        """Settles a new object before it is validated: a kind with a status subresource drops ``status`` here."""

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        """Settles a changed object: keeps ``status`` of the old one, counts ``generation`` on a change of the spec."""

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        """Settles a write to /status: everything but ``status`` (and what metadata allows) is the old object's."""

    def validate(self, obj: Obj) -> list[FieldError]:
        """Everything that is wrong with a new object, except metadata."""
        return []

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        """Everything that is wrong with a changed object: the rules for new ones, and what must not change."""
        return self.validate(obj)

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        """Everything that is wrong with a status written."""
        return []

    def warnings(self, obj: Obj) -> list[str]:
        """Warnings about an accepted write, sent as Warning headers."""
        return []

    def hold(self, obj: Obj) -> None:
        """Adds finalizers, in a new list, that should keep an object when its deletion is requested."""

    def prepare_delete(self, obj: Obj, write: Write) -> None:
        """Marks an object whose deletion begins and that will linger, once ``deletionTimestamp`` is set.

        It may set members of the object and of its parts; what is deeper belongs to the stored state too.
        """

    def held(self, obj: Obj) -> bool:
        """Whether an object being deleted must stay, whatever ``metadata.finalizers`` says.

        Namespaces are held by ``spec.finalizers``: /finalize takes them away, and the write that ends the last hold deletes.
        """
        return False

    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        """How long a deleted object lingers with a deletionTimestamp before it goes; None: it goes at once.

        Pods that run on a node have it (the node deletes them for good); ``asked`` is the caller's wish.
        """
        return None
