"""One problem for the search: the terms of a demand, with the devices already in use.

Devices are numbered in search order and sets of them are bit sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.allocator.counters import Counters, Draw

if TYPE_CHECKING:
    from allotment.allocator.held import Holdings
    from allotment.allocator.site import SiteUse
    from allotment.allocator.terms import Terms


class Problem:
    """Terms and use, with what is left of the counters."""

    def __init__(self, terms: Terms, use: SiteUse, held: Holdings) -> None:
        site = terms.site
        self.terms = terms
        self.site = site
        self.devices = site.devices
        self.demand = terms.demand
        self.suits = terms.suits
        self.held = held
        self.used = use.used
        self.shareable = site.shareable
        self.shared = use.shared
        self.consumed = use.consumed
        self.metered = site.shareable  # devices from whose capacity other claims may have taken
        if site.features.ConsumableCapacity:
            for position in use.consumed:
                self.metered |= 1 << position
        self.draws: Mapping[int, Draw] = {}
        self.counters: Counters | None = None
        if site.drawing:
            self.draws = site.plan.draws
            in_use = self.used | self.shared
            self.counters = Counters(site.plan, in_use, held, grouped=site.features.CompatibilityGroups)

    def detach(self) -> None:
        """Copies the present use, for a search that continues after the use may have changed and changed back."""
        self.consumed = {position: dict(amounts) for position, amounts in self.consumed.items()}

    def amounts(self, shape: int, position: int) -> dict[str, int]:
        """How much of a device's capacity an ask of this shape takes, in billionths. The device must be judged."""
        amounts = self.suits[shape].amounts.get(position)
        if amounts is None:  # without request and policy: all of it
            return {name: offer.value.nanos for name, offer in self.devices[position].spec.capacity.items()}
        return {name: amount.nanos for name, amount in amounts.items()}
