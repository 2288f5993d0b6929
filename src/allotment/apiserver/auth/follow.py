"""What auth needs of the store: the head, to look up what a token is bound to, and to be told of every change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from allotment.apiserver.store.record import Key, Record

Follower = Callable[[Record | None, Record | None], None]
"""Called with the record before and after a change; None stands for "not there"."""


class Follows(Protocol):
    def follow(self, resource: str, follower: Follower) -> None:
        """Calls for every record there is, then at every change of the head, in order."""


class Heads(Protocol):
    def head(self, key: Key) -> Record | None:
        """The newest state of an object, writes on their way to disk included."""
