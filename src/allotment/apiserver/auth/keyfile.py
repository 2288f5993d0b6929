"""Files that contain secrets: written completely or not at all, and readable only by their owner.

A file is written under a temporary name in the same folder, flushed to disk, and renamed, so a crash leaves either the
old file or the new one. Its mode is set at creation, never afterwards, so others cannot read it at any moment.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644


def write_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replaces the file. The folder must exist. Raises OSError, which the caller must explain."""
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}."
    )  # mkstemp makes it 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode != PRIVATE:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> None:
    """Creates the folder, closed to others, unless it exists; an existing one keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def restrict(path: Path) -> None:
    """Removes the access of others to a secret file that was copied here with too wide a mode."""
    mode = path.stat().st_mode & 0o777
    if mode & ~PRIVATE:
        path.chmod(mode & PRIVATE)
