"""Metrics of a store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stats:
    """Metrics of the store: totals since it was opened, and present values."""

    commits: int
    commit_seconds: float
    last_commit_seconds: float
    last_commit_writes: int
    writes: int
    failures: int
    pending: int
    pending_bytes: int
    objects: int
    bytes: int
    history: int
    history_bytes: int
    watches: int
    revision: int
    compacted: int
