"""Numbers about a store, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers about the store: totals since it was opened, and what there is now."""

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
