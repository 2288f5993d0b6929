"""A scheduler's events and instructions in a file, while it runs (``scheduler.event_log``).

The file has only whole events: each is written together with the instructions that it led to, so that a recording that ends
early can be replayed up to there. It ends early when it has reached its maximal size or a write fails. The log reports that,
and the scheduler continues without recording. The file keeps the beginning, because nothing can be replayed without it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.scheduler.event import Event
from allotment.scheduler.event_log import EventLog, opening

if TYPE_CHECKING:
    from allotment.scheduler.config.configuration import Configuration
    from allotment.scheduler.instruction import Instruction

log = logging.getLogger(__name__)

RECORDING_BYTES = 1 << 30
"""The maximal size of a recording."""


@contextmanager
def recorded(
    path: Path | None, configuration: Configuration, most: int = RECORDING_BYTES
) -> Iterator[Callable[[Event | Instruction], None] | None]:
    """Records everything that it is called with into a new file, which only its owner may read; None without a path."""
    if path is None:
        yield None
        return
    recording = _EventRecording(path, most)
    recording.begin(configuration)
    try:
        yield recording.hear
    finally:
        recording.end()


class _EventRecording:
    """One file. ``_file`` is None before the recording begins and after it has ended."""

    def __init__(self, path: Path, most: int) -> None:
        self._path = path
        self._most = most
        self._size = 0
        self._file: int | None = None
        self._lines: list[str] = []  # the last event, with the instructions that it led to
        self._log = EventLog(self._lines.append)

    def begin(self, configuration: Configuration) -> None:
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            self._give_up(exc.strerror or str(exc))
        self._lines.append(opening(configuration) + "\n")

    def hear(self, heard: Event | Instruction) -> None:
        if self._file is None:
            return
        if isinstance(heard, Event):
            self._write()
        self._log(heard)

    def end(self) -> None:
        self._write()
        self._close()

    def _write(self) -> None:
        """Writes the last event. If that fails, no part of it stays in the file."""
        data = "".join(self._lines).encode()
        self._lines.clear()
        if self._file is None:
            return
        if self._size + len(data) > self._most:
            self._give_up(f"it has reached its maximal size, {self._most:,} bytes")
            return
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as exc:
            self._cut()
            self._give_up(exc.strerror or str(exc))
        else:
            self._size += len(data)

    def _cut(self) -> None:
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._size)
        except OSError as exc:
            log.warning("the last line of %s may be incomplete: %s", self._path, exc.strerror or exc)

    def _give_up(self, why: str) -> None:
        log.error("recording into %s ends here: %s; the scheduler goes on", self._path, why)
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
