"""``--catalog`` for long-running programs: reads the files again when they have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.insight.catalogue_files import read_files
from allotment.insight.errors import BadInput

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
State = frozenset[tuple[str, int, int]]
"""Files with their times and sizes."""


def state_of(names: Iterable[str]) -> State:
    """Follows links to their targets: files from a ConfigMap change by pointing elsewhere."""
    paths = [Path(name) for name in names]
    paths += [each for path in paths if path.is_dir() for each in path.rglob("*")]
    found = set()
    for path in paths:
        try:
            facts = path.stat()
        except OSError:  # the file is just being replaced
            continue
        found.add((str(path), facts.st_mtime_ns, facts.st_size))
    return frozenset(found)


async def follow_files(
    names: Sequence[str],
    before: State,
    readers: Iterable[Callable[[Catalogue], None]],
    *,
    pause: float = LOOK_SECONDS,
) -> None:
    """Notifies the readers of the catalogue each time the files differ from ``before``. If the new files contain errors, the
    catalogue stays as it was, and the log says why."""
    while True:
        await asyncio.sleep(pause)
        after = await asyncio.to_thread(state_of, names)
        if after == before:
            continue
        before = after
        try:
            catalogue = await asyncio.to_thread(read_files, names)
        except (BadInput, OSError) as exc:
            log.warning("the catalogue is unchanged, because it could not be read: %s", exc)
            continue
        log.info("the catalogue was read again: %d instance types", len(catalogue.types))
        for told in readers:
            told(catalogue)
