"""Waiting pods, sorted into lots of equals.

Pods that must go on one machine together form a *bundle*: usually one pod; several if they share a claim that has no devices
yet, or must be near each other on one node (``pod_ties``). Bundles that the scheduler cannot distinguish form a *lot*. Names
of claims do not matter for that, and labels of pods matter only if rules of other pods may refer to them.

Zones, and other domains of nodes, are chosen before machines. Pods that must spread over domains are dealt out evenly,
counting pods that already run. Lots that must be together (near other pods, or by the topology of their gang) get one domain.
For a single machine, these rules then only limit how many pods of a lot it may have.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.autoscaling import HOSTNAME, ZONE
from allotment.api.codec import encode
from allotment.api.meta import key_of
from allotment.autoscaler.provision.pod_ties import company_nodes, in_order, ties
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.pod import PodInfo, group_key
from allotment.scheduler.selector import pods_selected
from allotment.scheduler.volumes import likeness

if TYPE_CHECKING:
    from allotment.api.core import Pod, PodSpec, TopologySpreadConstraint
    from allotment.api.meta import LabelSelector
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.scheduler.resource_requests import Amounts

Bundle = tuple["Pod", ...]
Choice = tuple[tuple[int, ...], int]
"""The alternatives of its claims that a lot gets, and the weight of the pools; less is better."""
MUST = "DoNotSchedule"


@dataclass(slots=True)
class Lot:
    """Equal bundles. ``sample`` represents all of them."""

    key: Hashable
    bundles: list[Bundle]
    requests: Amounts  # of one bundle
    plain: bool  # only resources, taints and labels of a node matter to it
    sociable: bool  # it has rules about other pods
    outline: Hashable  # equal for lots that differ in resources alone; None if more than these and devices may matter
    reads: frozenset[str]  # labels of nodes that it depends on
    cap: int = 2**31  # how many of it one machine may have
    ganged: bool = False  # its pods are members of gangs
    # labels that its nodes must have, because rules about other pods refer to them
    keyed: frozenset[str] = frozenset()
    where: Mapping[str, str] = field(default_factory=dict)  # labels that were chosen; none if no value works
    together: tuple[tuple[str, Hashable], ...] = ()  # by label: lots with the same go to one domain
    number: int = 0  # the same for lots that were dealt from one
    tier: int = 0  # how many of the better choices are exhausted
    choices: list[Choice] = field(default_factory=list)  # of machines, better ones first

    @property
    def sample(self) -> Bundle:
        return self.bundles[0]

    @property
    def importance(self) -> tuple[int, bool]:
        """The order in which lots are served if limits bind: by priority; among equals gangs first, because they are placed
        as a whole or not at all."""
        return max(pod.spec.priority or 0 for pod in self.sample), self.ganged

    @property
    def spreads(self) -> list[TopologySpreadConstraint]:
        """The rules that distribute the pods over domains."""
        return [each for each in self.sample[0].spec.topology_spread_constraints if deals(each)]

    def reached_by(self, labels: Mapping[str, str]) -> bool:
        """Whether a machine with such labels is where the lot may be."""
        if not self.keyed and not self.where:
            return True
        return all(labels.get(key) == value for key, value in self.where.items()) and all(
            key in labels for key in self.keyed
        )


def deals(rule: TopologySpreadConstraint) -> bool:
    return rule.topology_key != HOSTNAME and rule.when_unsatisfiable == MUST


def in_gang(pod: Pod, simulation: Simulation) -> bool:
    known = simulation.cluster.groups.get(group := group_key(pod)) if pod.spec.scheduling_group else None
    return known is not None and gang_of(group, known) is not None


def rank(pod: Pod) -> tuple[int, str, str]:
    """The order of waiting pods: priority, age, name."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", key_of(pod)


def bundled(pods: Sequence[Pod], simulation: Simulation) -> list[Bundle]:
    """Pods that share a claim without devices, or must be on one node, form one bundle; bundles come in the order of their
    first pods."""
    waiting = {key_of(pod): pod for pod in pods}
    cluster = simulation.cluster
    home = {key: key for key in waiting}

    def root(key: str) -> str:
        while home[key] != key:
            key = home[key]
        return key

    for key, pod in waiting.items():
        for claim in cluster.used_by(cluster.pods[key]) if pod.spec.resource_claims else ():
            if cluster.claims.allocation(claim) is not None:
                continue
            for other in sorted(cluster.users.get(claim, ())):
                if other in home and root(other) != root(key):
                    home[root(other)] = root(key)
    for key, other in ties(waiting, simulation):
        if root(other) != root(key):
            home[root(other)] = root(key)
    found: dict[str, list[Pod]] = {}
    for key, pod in waiting.items():
        found.setdefault(root(key), []).append(pod)
    return [tuple(in_order(bundle, simulation)) if bundle[1:] else (bundle[0],) for bundle in found.values()]


def lots_of(bundles: Iterable[Bundle], simulation: Simulation) -> tuple[list[Lot], dict[str, str]]:
    """Lots, in the order of their first bundles; and for pods that the scheduler does not consider, the reason."""
    lots: dict[Hashable, Lot] = {}
    refused: dict[str, str] = {}
    bundles = list(bundles)
    neighbourly = any(_has_neighbours(pod.spec) for bundle in bundles for pod in bundle)
    for bundle in bundles:
        keys: list[Hashable] = []
        for pod in bundle:
            shape = simulation.shape(pod)
            if isinstance(shape, NoNode):
                refused.update({key_of(each): shape.words for each in bundle})
                break
            labels = tuple(sorted(pod.metadata.labels.items())) if neighbourly else ()
            gathered = _gathered_gang(pod, simulation)
            keys.append((*_unnamed(shape, pod), labels, gathered, in_gang(pod, simulation)))
        else:
            key = tuple(keys)
            if key in lots:
                lots[key].bundles.append(bundle)
            else:
                lots[key] = _lot(key, bundle, simulation)
                lots[key].number = len(lots) - 1
    return list(lots.values()), refused


def _unnamed(shape: Hashable, pod: Pod) -> tuple[Hashable, ...]:
    """The scheduler's shape, without the names of the pod's claims and gang."""
    assert isinstance(shape, tuple)
    profile, asks, seen, _, *volumes = shape
    if not pod.spec.resource_claims and pod.spec.scheduling_group is None:
        return profile, asks, seen, *volumes
    claims = tuple([replace(each, resource_claim_name=None) for each in pod.spec.resource_claims])
    spec = replace(pod.spec, resource_claims=claims, scheduling_group=None, volumes=())
    return profile, encode(spec), seen, *volumes


def _lot(key: Hashable, bundle: Bundle, simulation: Simulation) -> Lot:
    requests: Amounts = {}
    reads: set[str] = set()
    plain, cap = True, 2**31
    outlines: list[Hashable] = []
    for pod in bundle:
        info = PodInfo(pod)
        for name, amount in info.requests.items():
            requests[name] = requests.get(name, 0) + amount
        reads |= labels_read(pod.spec)
        if info.volumes is not None:
            reads |= likeness.labels_read(info.volumes, simulation.cluster.storage) - {HOSTNAME}
        extended = any(name in simulation.cluster.extended for name in info.requests)
        plain = plain and not (
            pod.spec.resource_claims
            or info.ports
            or info.volumes is not None
            or extended
            or _has_neighbours(pod.spec)
        )
        if not (info.ports or extended or _has_neighbours(alone(pod).spec)):
            outlines.append(_outline(pod, simulation))
        for each in pod.spec.topology_spread_constraints:
            if each.topology_key == HOSTNAME and each.when_unsatisfiable == MUST:
                cap = min(cap, each.max_skew)
    sociable = any(_has_neighbours(pod.spec) for pod in bundle)
    together = dict(each for pod in bundle for each in _together(pod, simulation))
    keyed = {*together, *(each.topology_key for pod in bundle for each in _dealt_by(pod))}
    return Lot(
        key,
        [bundle],
        requests,
        plain,
        sociable,
        tuple(outlines) if len(outlines) == len(bundle) else None,
        frozenset(reads),
        cap,
        any(in_gang(pod, simulation) for pod in bundle),
        frozenset(keyed),
        together=tuple(sorted(together.items(), key=lambda each: (each[0] != ZONE, each[0]))),
    )


def _outline(pod: Pod, simulation: Simulation) -> Hashable:
    shape = simulation.shape(pod)
    assert isinstance(shape, tuple)
    profile, _, seen, _, *volumes = shape
    claims = tuple(
        [
            replace(each, resource_claim_name=None, resource_claim_template_name=None)
            for each in pod.spec.resource_claims
        ]
    )
    spec = replace(
        alone(pod).spec,
        containers=(),
        init_containers=(),
        resources=None,
        overhead={},
        resource_claims=claims,
        scheduling_group=None,
        volumes=(),
    )
    return profile, encode(spec), seen, *volumes


def _dealt_by(pod: Pod) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if deals(each)]


def _together(pod: Pod, simulation: Simulation) -> Iterator[tuple[str, Hashable]]:
    """(label, a value equal for pods that must be in one domain of it): from their gang, or from the pods that they must be
    near."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    for term in affinity.required if affinity is not None else ():
        if term.topology_key != HOSTNAME:
            yield term.topology_key, (pod.metadata.namespace, encode(term))
    group, keys = _gathered_gang(pod, simulation)
    yield from ((key, group) for key in keys if key != HOSTNAME)


def _gathered_gang(pod: Pod, simulation: Simulation) -> tuple[str, tuple[str, ...]]:
    """The gang of a pod, if all of its members must be in one domain, and the labels."""
    group = group_key(pod)
    known = simulation.cluster.groups.get(group) if group else None
    gang = gang_of(group, known) if known is not None else None
    return (group, gang.topology) if gang is not None and gang.topology else ("", ())


def company_of(lot: Lot, key: str, simulation: Simulation) -> set[str]:
    """The domains with running pods that the lot must be near."""
    cluster = simulation.cluster
    near = dict(lot.together)[key]
    if isinstance(near, str):
        nodes = [each.node for each in cluster.members.get(near, {}).values() if each.node]
    else:
        nodes = [name for pod in lot.sample for name in company_nodes(pod, simulation)]
    return {cluster.nodes[name].labels[key] for name in nodes if key in cluster.nodes[name].labels}


def _running(
    selector: LabelSelector | None, namespace: str, key: str, simulation: Simulation
) -> Counter[str]:
    """How many matching pods run in which domain."""
    meant, counts = pods_selected(selector), Counter[str]()
    for info in simulation.cluster.nodes.values() if meant is not None else ():
        if (domain := info.labels.get(key)) is not None:
            assert meant is not None
            counts[domain] += sum(
                each.namespace == namespace and meant.matches(each.pod.metadata.labels)
                for each in info.pods.values()
            )
    return counts


def _has_neighbours(spec: PodSpec) -> bool:
    affinity = spec.affinity
    near = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(near or spec.topology_spread_constraints)


def labels_read(spec: PodSpec) -> set[str]:
    read = set(spec.node_selector)
    if spec.affinity is not None:
        node = spec.affinity.node_affinity
        if node is not None and node.required is not None:
            for term in node.required.node_selector_terms:
                read |= {test.key for test in term.match_expressions}
        for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            read |= {term.topology_key for term in side.required} if side is not None else set()
    read |= {each.topology_key for each in spec.topology_spread_constraints}
    return read - {HOSTNAME}


def alone(pod: Pod) -> Pod:
    """The pod without its rules about pods that may still come to other nodes: affinity and spreading."""
    spec = pod.spec
    affinity = spec.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        near = affinity.pod_affinity
        here = tuple(term for term in near.required if term.topology_key == HOSTNAME)
        if len(here) < len(near.required):
            affinity = replace(affinity, pod_affinity=replace(near, required=here))
    if affinity is spec.affinity and not spec.topology_spread_constraints:
        return pod
    return replace(pod, spec=replace(spec, affinity=affinity, topology_spread_constraints=()))


def dealt(
    lot: Lot, rule: TopologySpreadConstraint, domains: Iterable[str], simulation: Simulation
) -> list[Lot]:
    """Divides a lot that must be spread over domains into one lot for each, evenly together with running pods."""
    key = rule.topology_key
    if key in lot.where:
        return [lot]
    running = _running(rule.label_selector, lot.sample[0].metadata.namespace, key, simulation)
    counts = {domain: running[domain] for domain in sorted(domains)}
    if not counts:
        return [lot]
    shares: dict[str, list[Bundle]] = {domain: [] for domain in counts}
    for bundle in lot.bundles:
        domain = min(counts, key=lambda each: (counts[each], each))
        shares[domain].append(bundle)
        counts[domain] += len(bundle)
    return [
        dataclasses.replace(lot, bundles=share, where={**lot.where, key: domain}, choices=[])
        for domain, share in shares.items()
        if share
    ]
