"""Where the time goes, by stage: a profile's own times added up by the module that they were spent in."""

from __future__ import annotations

import pstats
from pathlib import Path

import allotment

_ROOT = str(Path(allotment.__file__).parent)

STAGES = (
    ("queue and waking", ("scheduler/queue", "scheduler/device_wakes", "scheduler/core")),
    ("placement", ("scheduler/placement", "scheduler/index", "scheduler/plugins", "scheduler/device_")),
    ("devices: views, search, ledger", ("allocator/",)),
    ("cluster state", ("scheduler/cluster", "scheduler/claim", "scheduler/pod", "scheduler/node")),
    ("binding and claim writes", ("scheduler/binding", "scheduler/claim_writer")),
    ("driver", ("scheduler/",)),
    ("claim controllers", ("controllers/",)),
    ("informers and client", ("client/",)),
    ("store", ("apiserver/store",)),
    ("registry: admission, patches, validation", ("apiserver/registry", "apiserver/patch", "api/", "cel/")),
    ("HTTP", ("apiserver/",)),
)
"""First match counts, longest prefix first; what is in C, or in a library, is its caller's."""


def _stage(path: str) -> str:
    inside = path.removeprefix(_ROOT).lstrip("/")
    prefixes = [(prefix, name) for name, all_ in STAGES for prefix in all_ if inside.startswith(prefix)]
    return max(prefixes, key=lambda item: len(item[0]))[1] if prefixes else "other"


def shares(profile: pstats.Stats) -> dict[str, float]:
    """Seconds by stage, largest first. Time in code that is not ours counts for the stage that called it."""
    stats = profile.stats  # type: ignore[attr-defined]  # typeshed leaves it out
    found: dict[str, float] = {}
    for (path, _, _), (_, _, own, _, callers) in stats.items():
        if path.startswith(_ROOT) or not callers:
            stage = _stage(path) if path.startswith(_ROOT) else "libraries and the event loop"
            found[stage] = found.get(stage, 0.0) + own
            continue
        for (caller, _, _), (_, _, part, _) in callers.items():
            stage = _stage(caller) if caller.startswith(_ROOT) else "libraries and the event loop"
            found[stage] = found.get(stage, 0.0) + part
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def show(profile: pstats.Stats, pods: int, title: str) -> None:
    parts = shares(profile)
    total = sum(parts.values())
    print(f"{title}; with it {total / pods * 1e6:.0f} µs:\n\n| stage | share |\n|---|---:|")
    for name, seconds in parts.items():
        print(f"| {name} | {100 * seconds / total:.1f} % |")
