"""What the page is told first, as one JSON document: everything. Later it is told the parts that change (``viewing``)."""

from __future__ import annotations

from typing import Any

from allotment.dashboard.census import Census
from allotment.dashboard.fleet import STATES
from allotment.dashboard.rights import Rights
from allotment.dashboard.view import View
from allotment.dashboard.waiting import waiting

_NAMED = 5


async def whole(view: View, census: Census) -> dict[str, Any]:
    """All that somebody sees."""
    pools = await view.fleet.all_told()
    return {
        "whole": True,
        "states": STATES,
        "notes": notes(view.rights),
        "pools": pools,
        "waiting": waiting(view.pods()),
        "timeline": census.past() if view.rights.pools else None,
    }


def notes(rights: Rights) -> list[str]:
    """What is missing from the picture, and what it would take."""
    told = []
    if not rights.slices:
        told.append(
            "You may not list and watch resourceslices: devices are not shown, and pools only as they are counted."
            if rights.pools
            else "You may list and watch neither resourceslices nor resourcepools: no devices can be shown."
        )
    elif not rights.claims.everywhere:
        whose = f"only claims of {_some(rights.claims.names)}" if rights.claims.names else "no claims"
        others = (
            "how many devices others hold is told, not which"
            if rights.pools
            else "what others hold is not known"
        )
        told.append(f"You may see {whose}: {others}.")
    if rights.slices and not rights.rules:
        told.append(
            "You may not list and watch devicetaintrules: what they taint is shown as if it were not."
        )
    if not rights.pods.everywhere:
        whose = f"only pods of {_some(rights.pods.names)}" if rights.pods.names else "no pods"
        told.append(f"You may see {whose}.")
    return told


def _some(names: frozenset[str]) -> str:
    told = sorted(names)[:_NAMED]
    more = f" and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return f"{'namespace' if len(names) == 1 else 'namespaces'} {', '.join(told)}{more}"
