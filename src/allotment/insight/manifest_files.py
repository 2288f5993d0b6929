"""Reads what ``-f`` names: files, folders and standard input, as objects with their positions.

All errors are collected over all files before any is shown, because a user who corrects a manifest wants to see all of them
at once. Only their number is limited.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from allotment.api.manifests.manifest import Located, ManifestError, read_manifest

MAX_FILE_BYTES = 64 * 1024 * 1024
SUFFIXES = frozenset({".yaml", ".yml", ".json"})


@dataclass(slots=True)
class Reading:
    """The content of the files, and the errors in them."""

    found: list[Located] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # assumptions and omissions of whoever sorted the content


def read_objects(names: Iterable[str]) -> Reading:
    """All objects of the named files and folders, in order; a file that is named twice is read once.

    The caller raises the errors, together with its own.
    """
    reading = Reading()
    seen: set[str] = set()
    for name in names:
        for source in _files(name, reading.complaints):
            place = source if source == "-" else os.path.realpath(source)
            if place in seen:
                continue
            seen.add(place)
            try:
                reading.found += read_manifest(text(source), "stdin" if source == "-" else source)
            except ManifestError as exc:
                reading.complaints.append(str(exc))
            except (OSError, ValueError) as exc:
                reading.complaints.append(f"{source}: {reason(exc)}")
    return reading


def _files(name: str, complaints: list[str]) -> Iterator[str]:
    path = Path(name)
    if name != "-" and path.is_dir():
        files = sorted(child for child in path.iterdir() if child.suffix in SUFFIXES and child.is_file())
        if not files:
            complaints.append(f"{name}: has no .yaml, .yml or .json files")
        yield from map(str, files)
    else:
        yield name


def text(source: str) -> str:
    """The text of a file, or of standard input. Raises OSError or ValueError; ``reason`` puts these into words."""
    if source == "-":
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        with open(source, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"is longer than {MAX_FILE_BYTES} bytes; split it")
    return data.decode("utf-8-sig")


def reason(exc: Exception) -> str:
    """Why a file cannot be read."""
    if isinstance(exc, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {exc.start})"
    if isinstance(exc, OSError):
        return (exc.strerror or str(exc)).lower()
    return str(exc)
