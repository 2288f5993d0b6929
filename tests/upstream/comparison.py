"""Compares two answers to one allocation problem."""

import json
from typing import Any

from tests.bruteforce.quantity import exact

Json = dict[str, Any]


def outcome(answer: Json) -> str:
    """``ok``, ``error`` or ``no``."""
    return "ok" if answer["ok"] else "error" if answer["error"] else "no"


def difference(theirs: Json, ours: Json) -> str | None:
    """In what our answer differs from theirs: the outcome, or where both fit the results; None if in nothing."""
    if outcome(theirs) != outcome(ours):
        said = "".join(f" ({answer['error']})" for answer in (theirs, ours) if answer["error"])
        return f"upstream says {outcome(theirs)}, we say {outcome(ours)}{said}"
    if comparable(theirs["results"]) != comparable(ours["results"]):
        return f"upstream's results are {json.dumps(theirs['results'])}, ours {json.dumps(ours['results'])}"
    return None


def comparable(results: list[Json]) -> list[Json]:
    """Results with capacities as numbers: how a quantity is written is tested elsewhere."""
    copies: list[Json] = json.loads(json.dumps(results))
    for device in [d for copy in copies for d in copy["devices"].get("results", [])]:
        if "consumedCapacity" in device:
            device["consumedCapacity"] = {n: exact(q) for n, q in device["consumedCapacity"].items()}
    return copies
