"""Exceptions of the store. The package's docstring shows their tree."""

from __future__ import annotations

from pathlib import Path

from allotment.apiserver.folder import DataFolder


def how_to_go_on(store: Path) -> str:
    folder = DataFolder(store.parent)
    return (
        f"Restore a backup of it ({folder.command('allot restore FILE')}), or go on with what can still be read "
        f"({folder.command('allot up --accept-loss')})"
    )


class StoreError(Exception):
    """The store cannot do what was requested."""


class OpenError(StoreError):
    """The store cannot be opened. The message is for the person who starts the server."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class Locked(OpenError):
    """Another process has the store open. ``holder`` is its process id, where it could be read."""

    def __init__(self, path: Path, holder: int | None, message: str) -> None:
        super().__init__(path, message)
        self.holder = holder


class Corrupt(OpenError):
    """The file is damaged, or it is no store at all. ``what`` says which."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            path,
            f"the store {path} cannot be used: {what}. {how_to_go_on(path)}",
        )
        self.what = what


class LostWrites(OpenError):
    """Acknowledged writes are missing, from revision ``first`` to ``last``."""

    def __init__(self, path: Path, first: int, last: int, what: str) -> None:
        count = last - first + 1
        lost = (
            f"{count:,} writes, revisions {first} to {last}," if count > 1 else f"one write, revision {last},"
        )
        self.what = f"{lost} that it had acknowledged {'are' if count > 1 else 'is'} missing, as {what}"
        super().__init__(path, f"the store {path} is incomplete: {self.what}. {how_to_go_on(path)}")
        self.first = first
        self.last = last


class TooNew(OpenError):
    """A newer version of Allotment wrote the file."""


class Unwritable(OpenError):
    """The folder or the file cannot be created, read or written."""


class CommitFailed(StoreError):
    """A write did not reach the disk (full, broken): it did not happen, and nobody has seen it. Later ones may succeed."""


class DiskFull(CommitFailed):
    """There is only room for deletions, or (``used_up``) not even for them. Nothing was done."""

    def __init__(self, path: Path, used_up: bool = False) -> None:
        super().__init__(
            f"the disk that holds the store {path} is full"
            + (
                ", and so is the room that was kept for deletions: free some space on it"
                if used_up
                else ", so only deletions are accepted: free some space on it, or delete objects that nobody needs"
            )
        )


class Overloaded(StoreError):
    """Too much is on its way to disk, so the store accepts no more for the moment. Nothing was done."""


class ObjectTooLarge(StoreError):
    """An object would have more than ``limit`` bytes. Nothing was done."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an object may have at most {limit} bytes")
        self.limit = limit


class Compacted(StoreError):
    """The history does not reach back to ``revision``; it starts after ``compacted``."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} is older than the history, which starts at {compacted}")
        self.revision = revision
        self.compacted = compacted


class Overflow(StoreError):
    """A watch was closed because too many changes waited for its reader. None was skipped before that."""


class StoreClosed(StoreError):
    """The store, or the watch, was closed."""
