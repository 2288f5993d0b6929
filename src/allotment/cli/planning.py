"""A plan, from what somebody sees of a cluster: for ``allot plan`` and for the page that plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.autoscaler.arrivals import expect
from allotment.autoscaler.node_claims import on_offer
from allotment.autoscaler.overlays import evaluate
from allotment.autoscaler.provisioner import provision
from allotment.autoscaler.simulation import start_simulation
from allotment.cli.catalog import with_own
from allotment.cli.examination import KINDS as SCHEDULED
from allotment.cli.plan_input import waiting

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue import Catalogue
    from allotment.autoscaler.plan import Plan
    from allotment.cli.plan_input import Waiting
    from allotment.cli.seen import Seen

SOURCES = (NodeOverlay, NodePool, NodeGroup, NodeClaim)
"""What a cluster itself says about machines: which can be had, and which are on their way."""
KINDS: tuple[type[ApiStruct], ...] = (*SCHEDULED, *SOURCES)
"""What to look at."""


def waiting_in(seen: Seen, mine: Sequence[ApiStruct] = ()) -> tuple[Waiting, list[ApiStruct]]:
    """The pods that wait, or those among ``mine``; and what the cluster says about machines."""
    objects = [each for kind in SCHEDULED for each in seen.some(kind)]
    found = waiting(mine, objects, tainted=False)
    found.notes += seen.notes
    return found, [each for kind in SOURCES for each in seen.of(kind)]


def planned(
    waiting: Waiting, catalogue: Catalogue, own: Iterable[ApiStruct] = (), *, by_price: bool = False
) -> Plan:
    """``own`` is what the cluster says about machines. Those on their way take pods as if they were there, and what could not be
    had a short while ago is left out. What could not be used of the catalogue is noted."""
    own = list(own)
    claims = [each for each in own if isinstance(each, NodeClaim)]
    simulation = start_simulation(waiting.objects)
    found = evaluate(with_own(catalogue, own))
    waiting.notes += [each for each in found.notes if each not in waiting.notes]
    expect(simulation, claims, found.machines)
    machines = on_offer(found.machines, claims)
    return provision(simulation, machines, waiting.pods, cheapest_alternative=by_price)
