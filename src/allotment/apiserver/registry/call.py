"""The circumstances of a write in the registry, and its result."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum

import msgspec

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj, Record

MAX_WARNINGS = 50
"""The most warnings sent with one reply; headers must stay small."""


class FieldValidation(Enum):
    """What to do with unknown and duplicate fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class WriteContext(msgspec.Struct, frozen=True):
    """The circumstances of a request that writes. ``warnings`` collects the Warning headers of the reply."""

    identity: Identity
    now: str  # RFC 3339, whole seconds
    manager: str = "unknown"  # the owner of the fields that this write sets
    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool = False  # for apply: whether to take over fields from others
    warnings: list[str] = []
    verb: str = "update"  # the verb of the request, as authorization names it

    def write(self, operation: Operation, subresource: str = "") -> Write:
        return Write(operation, self.identity, self.now, subresource, self.dry_run, self.verb)

    def warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Written(msgspec.Struct, frozen=True):
    """The result of a write. The reply may go out once ``record()`` has returned: then the write is durable."""

    outcome: Record | Awaitable[Record]  # a plain record if nothing had to be stored: dry runs, no-ops
    created: bool = False
    gone: Obj | None = None  # the last state of the object, if it was deleted for good
    reply: Obj | None = None  # the answer of an action, which replaces the object in the reply

    async def record(self) -> Record:
        return self.outcome if isinstance(self.outcome, Record) else await self.outcome
