"""Disks that a test can fill: a simulated one, and a real one where the test may mount it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest

from tests.apiserver.store.recording import Recording


class SmallDisk(Protocol):
    """Has room for so many bytes, of which others may take what is left."""

    folder: Path

    def fill(self, spare: int = 0) -> None: ...

    def empty(self) -> None: ...


class SimulatedDisk:
    """The recording of what SQLite does to its files, which refuses what finds no room."""

    def __init__(self, recording: Recording, size: int) -> None:
        self.folder = recording.folder
        self._recording = recording
        self._size = size
        self.empty()

    def fill(self, spare: int = 0) -> None:
        self._recording.room = self._recording.used + spare

    def empty(self) -> None:
        self._recording.room = self._size


class MountedDisk:
    """A file system in memory (``mounted``). The store's folder is inside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self._others = folder / "others"

    def fill(self, spare: int = 0) -> None:
        with suppress(OSError), self._others.open("ab", buffering=0) as file:
            for block in (65536, 4096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(block))
        os.truncate(self._others, self._others.stat().st_size - spare)

    def empty(self) -> None:
        self._others.unlink()


@contextmanager
def simulated(folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    recording = Recording(folder)
    with recording.running(monkeypatch):
        yield SimulatedDisk(recording, size)


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Skips the test where nothing can be mounted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no program `mount`; run the tests as root on Linux to fill a real disk")
    if done.returncode:
        pytest.skip(f"run the tests as root on Linux to fill a real disk ({done.stderr.strip()})")
    try:
        yield MountedDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
