"""What the page is told, as one JSON document: everything at first, then the parts that change."""

from __future__ import annotations

from typing import Any

from allotment.dashboard.cluster import Cluster
from allotment.dashboard.fleet import STATES, Fleet
from allotment.dashboard.rights import Rights
from allotment.dashboard.waiting import waiting

_NAMED = 5


async def whole(cluster: Cluster, rights: Rights, fleet: Fleet) -> dict[str, Any]:
    """All that somebody with these rights may see."""
    pools = await fleet.all_told()
    return {
        "whole": True,
        "states": STATES,
        "notes": notes(rights),
        "pools": pools,
        "waiting": waiting(cluster.pods.all(), rights.pods),
        "timeline": past(cluster, rights),
    }


def past(cluster: Cluster, rights: Rights) -> dict[str, Any] | None:
    """The timeline, for whoever may know how much is in use altogether."""
    if not rights.fleet.counts:
        return None
    line = cluster.timeline
    return {"began": cluster.began, "width": line.width, "points": line.points()}


def notes(rights: Rights) -> list[str]:
    """What is missing from the picture, and what it would take."""
    fleet = rights.fleet
    told = []
    if not fleet.slices:
        told.append(
            "You may not list and watch resourceslices: devices are not shown, and pools only as they are counted."
            if fleet.pools
            else "You may list and watch neither resourceslices nor resourcepools: no devices can be shown."
        )
    elif not fleet.claims.everywhere:
        whose = f"only claims of {_some(fleet.claims.names)}" if fleet.claims.names else "no claims"
        others = (
            "how many devices others hold is told, not which"
            if fleet.pools
            else "what others hold is not known"
        )
        told.append(f"You may see {whose}: {others}.")
    if fleet.slices and not fleet.rules:
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
