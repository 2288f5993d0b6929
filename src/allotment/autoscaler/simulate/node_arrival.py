"""A node arrives together with the pods of DaemonSets, which take their resources and devices first. Storage drivers count as
present too.

Like Kubernetes' controller, each DaemonSet gets one pod on every node that its template allows, with claims from templates
and with tolerations for the usual taints of a new node. The pods are bound by priority. A daemon pod that does not fit takes
nothing, and does not delay the pods for which the node is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.apps import DaemonSet
from allotment.api.core import Node, Pod, PodStatus, Toleration
from allotment.api.meta import ObjectMeta, OwnerReference, key_of
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.api.storage import CSIDriver, CSINode, CSINodeDriver, CSINodeSpec
from allotment.autoscaler.catalogue.machine import Machine, node_of, trees_of
from allotment.autoscaler.simulate.drain import belongs_to_node, forget
from allotment.autoscaler.simulate.forkable_cluster import Slice
from allotment.autoscaler.simulate.pending_pods import Template, missing_claims
from allotment.autoscaler.simulate.simulation import BoundPod
from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from allotment.scheduler.priority import with_priority

if TYPE_CHECKING:
    from allotment.api.batch import PriorityClass
    from allotment.autoscaler.simulate.simulation import Simulation

_ALWAYS = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""Taints that keep no pod of a DaemonSet off a node."""
_ON_THE_HOST_S_NETWORK = Toleration(
    key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule"
)


def arrive(simulation: Simulation, machine: Machine, name: str) -> None:
    """Adds the node that a machine would become. Raises NodeExists."""
    node, slices = node_of(machine, name)
    add_node(simulation, node, [*slices, *trees_of(machine, name)])


def add_node(
    simulation: Simulation, node: Node, slices: Iterable[Slice], drivers: CSINodeSpec | None = None
) -> None:
    """Adds a node with its slices, its storage drivers if they are known, and the pods of DaemonSets. Raises NodeExists."""
    name = node.metadata.name
    with simulation.trial() as trial:
        simulation.simulate_add_node(node, slices)
        if drivers is not None:
            simulation.put(CSINode(metadata=ObjectMeta(name=name), spec=drivers))
        foresee_drivers(simulation, name)
        start_daemons(simulation, name)
        trial.keep()


def foresee_drivers(simulation: Simulation, node: str) -> None:
    """Adds the names of the storage drivers that a node will have once their DaemonSets run, if their absence would keep pods
    away. How many volumes these drivers take is unknown until they report it."""
    wanted = {
        name
        for name, driver in simulation.objects(CSIDriver).items()
        if driver.spec.prevent_pod_scheduling_if_missing
    }
    there = simulation.objects(CSINode).get(node, CSINode(metadata=ObjectMeta(name=node)))
    missing = wanted.difference([each.name for each in there.spec.drivers])
    if missing:
        drivers = [CSINodeDriver(name=name, node_id=node) for name in sorted(missing)]
        simulation.put(replace(there, spec=replace(there.spec, drivers=(*there.spec.drivers, *drivers))))


def start_daemons(simulation: Simulation, node: str) -> None:
    """Binds the missing pods of DaemonSets on a node, where they fit."""
    there = {
        owner.uid or f"{pod.metadata.namespace}/{owner.name}"
        for pod in simulation.pods(node)
        for owner in pod.metadata.owner_references
        if owner.kind == "DaemonSet" and owner.controller
    }
    for each in daemon_sets(simulation):
        if there.isdisjoint((each.metadata.uid, key_of(each))):
            _start(simulation, pod_of(each, node), node)


def daemon_sets(simulation: Simulation) -> list[DaemonSet]:
    """The DaemonSets that start pods, the most important first; the priority is that of their templates."""
    found = [
        _with_priority(each, simulation.cluster.priority_classes)
        for each in simulation.objects(DaemonSet).values()
        if not each.metadata.deletion_timestamp
    ]
    return sorted(found, key=lambda each: (-(each.spec.template.spec.priority or 0), key_of(each)))


def _with_priority(daemons: DaemonSet, classes: Mapping[str, PriorityClass]) -> DaemonSet:
    template = daemons.spec.template
    spec = with_priority(template.spec, classes)
    if spec is template.spec:
        return daemons
    return replace(daemons, spec=replace(daemons.spec, template=replace(template, spec=spec)))


def pod_of(daemons: DaemonSet, node: str) -> Pod:
    """The pod of a DaemonSet for a node, as it is created."""
    template, namespace = daemons.spec.template, daemons.metadata.namespace or "default"
    name = f"{daemons.metadata.name}-{node}"
    spec = template.spec
    more = (*_ALWAYS, _ON_THE_HOST_S_NETWORK) if spec.host_network else _ALWAYS
    owner = OwnerReference(
        api_version=daemons.api_version,
        kind=daemons.kind,
        name=daemons.metadata.name,
        uid=daemons.metadata.uid,
        controller=True,
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"pod {namespace}/{name}",
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        ),
        spec=replace(spec, node_name=None, tolerations=(*spec.tolerations, *more)),
        status=PodStatus(phase="Pending"),
    )


def _start(simulation: Simulation, pod: Pod, node: str) -> None:
    if pod.spec.scheduler_name not in simulation.schedulers:
        pod = replace(pod, spec=replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))
    with simulation.trial() as trial:
        templates: Mapping[str, Template] = {
            **simulation.objects(ResourceClaimTemplate),
            **simulation.objects(semantic.ResourceClaimTemplate),
        }
        for claim in list(missing_claims(pod, templates, made=(), taken=simulation.objects(ResourceClaim))):
            simulation.put(claim)
        if isinstance(simulation.simulate_bind_pod(pod, node), BoundPod):
            trial.keep()


def dismiss(simulation: Simulation, node: str) -> None:
    """Removes a node that only has pods belonging to it, together with these pods. Raises NodeInUse if devices of it are in
    use."""
    with simulation.trial() as trial:
        for pod in simulation.pods(node):
            if belongs_to_node(pod):
                forget(simulation, simulation.simulate_evict_pod(pod, node).pod)
        simulation.simulate_remove_node(node)
        trial.keep()
