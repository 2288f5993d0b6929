"""The fleet as its page reads it: everything first, as one JSON document, and later the parts that change."""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Any

from allotment.allocator.pool import PoolID
from allotment.dashboard.census import Census
from allotment.dashboard.fleet import STATES
from allotment.dashboard.fleet_view import FleetView
from allotment.dashboard.person_view import PODS
from allotment.dashboard.rights import Rights, some
from allotment.dashboard.waiting import waiting


class FleetTeller:
    """A teller (``event_stream``) that also remembers which part of the timeline it has sent."""

    pause = 0.04

    def __init__(self, census: Census) -> None:
        self._census = census
        self._width, self._newest = 0.0, 0
        self._standstill = ""

    async def whole(self, view: FleetView) -> dict[str, Any]:
        """Everything that the reader may see."""
        self._width, self._newest = self._census.timeline.width, self._census.timeline.newest
        pools = await view.fleet.all_told()
        return {
            "whole": True,
            "states": STATES,
            "notes": self._notes(view),
            "pools": pools,
            "waiting": waiting(view.pods()),
            "timeline": self._census.past() if view.rights.pools else None,
        }

    def _notes(self, view: FleetView) -> list[str]:
        """The notes; for a reader who relies on counts, also how old the counts are."""
        rights = view.rights
        counted = rights.pools and not (rights.slices and rights.claims.everywhere)
        words = self._census.standstill if counted else ""
        self._standstill = words
        return [*notes(rights), *([f"{words[0].upper()}{words[1:]}."] if words else [])]

    def changes(self, view: FleetView, parts: Set[Hashable], *, checking: bool) -> dict[str, Any]:
        told: dict[str, Any] = {}
        states = {id: view.fleet.told(id) for id in parts if isinstance(id, PoolID)}
        if states:
            told["pools"] = [each for each in states.values() if each is not None]
            told["gone"] = [id for id, each in states.items() if each is None]
        if PODS in parts:
            told["waiting"] = waiting(view.pods())
        if checking and view.rights.pools:
            told |= self._passed()
        before, found = self._standstill, self._notes(view)
        if self._standstill != before:
            told["notes"] = found
        return told

    def _passed(self) -> dict[str, Any]:
        """The new part of the timeline."""
        line = self._census.timeline
        if line.width != self._width:
            told: dict[str, Any] = {"timeline": self._census.past()}
        else:
            told = {"points": {"from": self._newest, "points": line.points(self._newest)}}
        self._width, self._newest = line.width, line.newest
        return told


def notes(rights: Rights) -> list[str]:
    """What is missing from the picture, and which rights it would take."""
    told = []
    if not rights.slices:
        told.append(
            "You may not list and watch resourceslices: devices are not shown, and pools only with their counts."
            if rights.pools
            else "You may list and watch neither resourceslices nor resourcepools: no devices can be shown."
        )
    elif not rights.claims.everywhere:
        whose = f"only claims of {some(rights.claims.names)}" if rights.claims.names else "no claims"
        others = (
            "for other claims, only the number of their devices is shown"
            if rights.pools
            else "what others hold is unknown"
        )
        told.append(f"You may see {whose}: {others}.")
    if rights.slices and not rights.rules:
        told.append("You may not list and watch devicetaintrules: taints from these rules are not shown.")
    if not rights.pods.everywhere:
        whose = f"only pods of {some(rights.pods.names)}" if rights.pods.names else "no pods"
        told.append(f"You may see {whose}.")
    return told
