"""Lets a damaged store continue with its readable parts, if an operator accepts the loss.

The readable parts are written into a new file. Like a restored store, it continues without history, far above every
revision that can have been given out. The damaged files are kept next to it. An object whose newest state cannot be read
has an older state or is missing; an object whose deletion cannot be read exists again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from allotment.apiserver.store.backup import REVISION_STEP, highest, replacing, set_aside
from allotment.apiserver.store.database import (
    BROKEN,
    SELECT,
    LogRow,
    connect,
    connect_to_read,
    create,
    fill,
    row_of,
)
from allotment.apiserver.store.record import ChangeType, Key


@dataclass(frozen=True, slots=True)
class Salvaged:
    """How many objects were found, the revision at which the store continues, and where the damaged store is."""

    objects: int
    revision: int
    kept: Path


def salvage(path: Path) -> Salvaged:
    """Replaces a damaged or missing store, whose lock the caller holds, by a sound one.

    Raises :class:`OpenError` if the file cannot be written.
    """
    newest: dict[Key, LogRow] = {}
    with suppress(*BROKEN, OSError), closing(connect_to_read(path)) as db:
        for row in _readable(db):
            known = newest.get(row.record.key)
            if known is None or known.record.revision < row.record.revision:
                newest[row.record.key] = row
    rows = [row for row in newest.values() if row.type is not ChangeType.DELETED]
    revision = highest(path, used=True) + REVISION_STEP
    with replacing(path) as temporary:
        with closing(connect(temporary)) as db:
            create(db)
            fill(db, rows, revision)
            db.execute("PRAGMA journal_mode = DELETE")  # so that the file is self-contained
        kept = set_aside(path, ".damaged")
    return Salvaged(len(rows), revision, kept)


def _readable(db: sqlite3.Connection) -> Iterator[LogRow]:
    """The rows that are sound, from both ends up to where SQLite cannot go on."""
    db.text_factory = lambda text: text.decode(errors="replace")  # an invalid name does not end the walk
    for order in ("", " DESC"):
        try:
            for values in db.execute(f"{SELECT} ORDER BY revision{order}"):
                row = row_of(values)
                if row is not None:
                    yield row
            return
        except BROKEN:
            continue
