"""Files with secrets in them: written whole or not at all, readable by their owner only.

A file is written under a temporary name in the same folder, flushed to disk, and renamed, so a crash leaves the old
file or the new one. Its mode is set when it is created, never afterwards: at no moment can others read it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644


def write_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replaces the file. The folder must exist; OSError is the caller's to explain."""
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
    """Makes the folder if it is not there, closed to others; one that exists keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def restrict(path: Path) -> None:
    """Takes away what others may do with a secret file that was copied here with too wide a mode."""
    mode = path.stat().st_mode & 0o777
    if mode & ~PRIVATE:
        path.chmod(mode & PRIVATE)
