"""What auth needs from the store: the head, to look up the objects behind a token, and a call for every change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from allotment.apiserver.store.record import Key, Record

Follower = Callable[[Record | None, Record | None], None]
"""Called with the record before and after a change; None means that there is none."""


class Follows(Protocol):
    def follow(self, resource: str, follower: Follower) -> None:
        """Calls the follower for every existing record, then for every change of the head, in order."""


class Heads(Protocol):
    def head(self, key: Key) -> Record | None:
        """The newest state of an object, writes on their way to disk included."""
