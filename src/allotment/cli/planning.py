"""A plan, from what somebody sees of a cluster: for ``allot plan`` and for the page that plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
from allotment.autoscaler.overlays import evaluate
from allotment.autoscaler.provisioner import provision
from allotment.autoscaler.simulation import start_simulation
from allotment.cli.examination import KINDS as SCHEDULED
from allotment.cli.plan_input import waiting

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue import Catalogue
    from allotment.autoscaler.plan import Plan
    from allotment.cli.plan_input import Waiting
    from allotment.cli.seen import Seen

SOURCES = (NodeOverlay, NodePool, NodeGroup)
"""What a cluster itself says about machines to be had."""
KINDS: tuple[type[ApiStruct], ...] = (*SCHEDULED, *SOURCES)
"""What to look at."""


def waiting_in(seen: Seen, mine: Sequence[ApiStruct] = ()) -> tuple[Waiting, list[ApiStruct]]:
    """The pods that wait, or those among ``mine``; and what the cluster says about machines."""
    objects = [each for kind in SCHEDULED for each in seen.some(kind)]
    found = waiting(mine, objects, tainted=False)
    found.notes += seen.notes
    return found, [each for kind in SOURCES for each in seen.of(kind)]


def with_own(catalogue: Catalogue, own: Iterable[ApiStruct]) -> Catalogue:
    """With the cluster's own, which take the place of the catalogue's of the same names."""
    own = list(own)
    both = catalogue.with_pools(
        [each for each in own if isinstance(each, NodePool)],
        [each for each in own if isinstance(each, NodeGroup)],
    )
    overlays = {each.metadata.name: each for each in own if isinstance(each, NodeOverlay)}
    return replace(both, overlays={**both.overlays, **overlays})


def planned(waiting: Waiting, catalogue: Catalogue, *, by_price: bool = False) -> Plan:
    """What could not be used of the catalogue is noted."""
    simulation = start_simulation(waiting.objects)
    found = evaluate(catalogue)
    waiting.notes += [each for each in found.notes if each not in waiting.notes]
    return provision(simulation, found.machines, waiting.pods, cheapest_alternative=by_price)
