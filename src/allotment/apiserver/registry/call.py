"""A write as the registry sees it: who wants it and how, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum

import msgspec

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj, Record

MAX_WARNINGS = 50
"""Warnings sent with one reply; headers must stay small."""


class FieldValidation(Enum):
    """What becomes of fields that are unknown or written twice."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class WriteContext(msgspec.Struct, frozen=True):
    """The circumstances of a request that writes. ``warnings`` collects what goes out as Warning headers."""

    identity: Identity
    now: str  # RFC 3339, whole seconds
    manager: str = "unknown"  # who owns the fields that this write sets
    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool = False  # of apply: take fields over from others
    warnings: list[str] = []
    verb: str = "update"  # of the request, as authorization names it

    def write(self, operation: Operation, subresource: str = "") -> Write:
        return Write(operation, self.identity, self.now, subresource, self.dry_run, self.verb)

    def warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Written(msgspec.Struct, frozen=True):
    """What a write came to. The reply may go out once ``record()`` is there: then it is durable."""

    outcome: Record | Awaitable[Record]  # a record at once where nothing had to be stored: dry runs, no-ops
    created: bool = False
    gone: Obj | None = None  # the object as it was last, if it was deleted for good
    reply: Obj | None = None  # what an action answers in place of the object

    async def record(self) -> Record:
        return self.outcome if isinstance(self.outcome, Record) else await self.outcome
