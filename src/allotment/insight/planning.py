"""A plan from what a caller sees of a cluster, for ``allot plan`` and for the dashboard's plan page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.api.apps import DaemonSet
from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.batch import PodDisruptionBudget
from allotment.api.core import Node, Pod
from allotment.api.meta import key_of
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.api.timestamps import seconds_of
from allotment.autoscaler.catalogue.node_claims import on_offer
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.autoscaler.consolidate.consolidation import consolidate
from allotment.autoscaler.provision.launch import to_be_had
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.expected_machines import expect
from allotment.autoscaler.simulate.pending_pods import make_claims
from allotment.autoscaler.simulate.pod_quotas import refusals
from allotment.autoscaler.simulate.simulation import start_simulation
from allotment.controllers.claims.claim_users import claim_name
from allotment.insight.catalogue_files import with_own
from allotment.insight.explain.trial_scheduler import KINDS as SCHEDULED
from allotment.insight.explain.trial_scheduler import sees_volumes
from allotment.insight.manifest_cluster import name_of
from allotment.insight.pending_work import waiting
from allotment.scheduler.volumes.pod_volumes import volumes_of

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue.catalogue import Catalogue
    from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue
    from allotment.autoscaler.consolidate.consolidation import Consolidation
    from allotment.autoscaler.provision.plan import Plan
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.insight.pending_work import Waiting
    from allotment.insight.snapshot import Snapshot

SOURCES = (NodeOverlay, NodePool, NodeGroup, NodeClaim)
"""The kinds in which a cluster describes machines: those that can be launched and those that are on their way."""
_SEEN: tuple[type[ApiStruct], ...] = (*SCHEDULED, PodDisruptionBudget, DaemonSet)
KINDS: tuple[type[ApiStruct], ...] = (*_SEEN, *SOURCES)
"""The kinds to read."""


_CONFLICTS_NAMED = 5


def waiting_in(snapshot: Snapshot, mine: Sequence[ApiStruct] = ()) -> tuple[Waiting, list[ApiStruct]]:
    """The waiting pods, or those among ``mine``, and the cluster's own objects about machines."""
    objects = [each for kind in _SEEN for each in snapshot.some(kind)]
    found = waiting(mine, objects, tainted=False)
    found.notes += snapshot.notes
    found.volumes = sees_volumes(snapshot)
    if not found.volumes and any(map(volumes_of, found.pods)):
        found.notes.append(
            "you may not list everything that decides about volumes, so the plan ignores the pods' volumes"
        )
    return found, [each for kind in SOURCES for each in snapshot.of(kind)]


def planned(
    waiting: Waiting, catalogue: Catalogue, own: Iterable[ApiStruct] = (), *, by_price: bool = False
) -> Plan:
    """``own`` has the cluster's objects about machines. Machines on their way take pods as if they existed, and machines that
    were recently out of stock are left out. Unusable parts of the catalogue are noted."""
    own = list(own)
    claims = [each for each in own if isinstance(each, NodeClaim)]
    simulation = start_simulation(waiting.objects, claim_name=claim_name)
    simulation.cluster.storage.known = waiting.volumes
    found = evaluate(with_own(catalogue, own))
    waiting.notes += [each for each in found.notes if each not in waiting.notes]
    expect(simulation, claims, found.machines)
    _create(simulation, waiting)
    make_claims(simulation, waiting.pods)
    machines = on_offer(found.machines, claims)
    plan = provision(simulation, machines, waiting.pods, cheapest_alternative=by_price)
    if plan.pending:
        waiting.notes += [each for each in _conflicts(found) if each not in waiting.notes]
    return plan


def _create(simulation: Simulation, waiting: Waiting) -> None:
    """Tells the simulation which pods no server would create."""
    new = [pod for pod in waiting.pods if key_of(pod) in waiting.new]
    old = [pod for pod in waiting.pods if key_of(pod) not in waiting.new]
    there = (*simulation.objects(Pod).values(), *waiting.others, *old)
    simulation.obstacles.refuse(refusals(simulation.cluster, new, there))


def _conflicts(found: OverlaidCatalogue) -> list[str]:
    """Conflicts between overlays; planning ignores the parts in conflict."""
    told = list(
        dict.fromkeys(
            f"overlay {name} does not count for {conflict}"
            for name, finding in found.findings.items()
            for conflict in finding.conflicts
        )
    )
    more = len(told) - _CONFLICTS_NAMED
    return [
        *told[:_CONFLICTS_NAMED],
        *([f"and {more} more conflicts: allot overlays lists all of them"] if more > 0 else []),
    ]


def has_alternatives(waiting: Waiting) -> bool:
    """Whether a claim without devices, or a claim for a pod's template, names alternatives."""
    named = {
        (name_of(pod.metadata)[0], entry.resource_claim_template_name)
        for pod in waiting.pods
        for entry in pod.spec.resource_claims
    }
    specs = [
        each.spec
        for each in waiting.objects
        if isinstance(each, ResourceClaim) and each.status.allocation is None
    ]
    specs += [
        each.spec.spec
        for each in waiting.objects
        if isinstance(each, ResourceClaimTemplate) and name_of(each.metadata) in named
    ]
    return any(request.first_available for spec in specs for request in spec.devices.requests)


def consolidated(
    waiting: Waiting, catalogue: Catalogue, own: Iterable[ApiStruct], *, now: float
) -> tuple[Consolidation, Simulation]:
    """Which nodes can be removed, and the cluster as it is. Machines on their way count as if they existed, and stay."""
    own = list(own)
    claims = [each for each in own if isinstance(each, NodeClaim)]
    simulation = start_simulation([*waiting.objects, *waiting.pods], claim_name=claim_name)
    simulation.cluster.storage.known = waiting.volumes
    candidates = _quiet_since(simulation, claims)
    known = with_own(catalogue, own)
    found = evaluate(known)
    waiting.notes += [each for each in found.notes if each not in waiting.notes]
    expect(simulation, claims, found.machines)
    owners: list[NodePool | NodeGroup] = [*known.pools.values(), *known.groups.values()]
    make_claims(simulation, waiting.pods)
    machines = to_be_had(found.machines, claims)
    return consolidate(simulation, machines, candidates, now=now, owners=owners), simulation


def _quiet_since(simulation: Simulation, claims: Iterable[NodeClaim]) -> dict[str, float]:
    """When a pod last came to each node or left it, as its NodeClaim says; without one, when the newest pod on the node was
    created."""
    told = {each.status.node_name: each.status.last_pod_event_time for each in claims}
    found = {}
    for name in simulation.objects(Node):
        created = [pod.metadata.creation_timestamp for pod in simulation.pods(name)]
        found[name] = max(map(_seconds, (told.get(name), *created)))
    return found


def _seconds(stamp: str | None) -> float:
    """A missing time means long ago."""
    return seconds_of(stamp) or 0.0
