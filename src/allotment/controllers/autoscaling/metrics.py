"""Metrics of plans and their results. The cost of machines is computed when Prometheus asks."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.api.autoscaling import CAPACITY_TYPE, INSTANCE_TYPE, NODE_GROUP, NODE_POOL, ZONE, NodeClaim
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, machine_of, state_of
from allotment.client.informer import Informer
from allotment.controllers.machines.market import Market

_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_KIND = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE, NODE_POOL, NODE_GROUP)
"""The labels that determine which machine a claim asks for; the launcher writes them."""
_RUNNING = (ClaimProgress.LAUNCHED, ClaimProgress.REGISTERED, ClaimProgress.INITIALIZED, ClaimProgress.GOING)


class AutoscalingMetrics:
    """Without a registry of the process, the metrics are counted, but not served."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry if registry is not None else CollectorRegistry()
        self._planning = Histogram(
            "allotment_autoscaling_planning_seconds",
            "How long it took to decide, by what was decided about: provisioning or consolidation.",
            ("about",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._asked = Counter(
            "allotment_autoscaling_machines",
            "Machines that were asked for, by pool or group, and type.",
            ("source", "type"),
            registry=registry,
        )
        self._left_out = Gauge(
            "allotment_autoscaling_pods_left_out",
            "Pods that wait and that no machine helps, in the latest plan.",
            registry=registry,
        )
        self._gone = Counter(
            "allotment_autoscaling_consolidated_machines",
            "Machines that were let go because they were not needed, or cheaper ones do.",
            registry=registry,
        )
        self._saved = Counter(
            "allotment_autoscaling_saved_per_hour",
            "What machines cost an hour that were let go, less their replacements.",
            registry=registry,
        )

    def planned(self, about: str, seconds: float) -> None:
        self._planning.labels(about).observe(seconds)

    def asked_for(self, machine: Machine) -> None:
        self._asked.labels(machine.source, machine.type).inc()

    def left_out(self, pods: int) -> None:
        self._left_out.set(pods)

    def consolidated(self, machines: int, saved: Decimal) -> None:
        self._gone.inc(machines)
        self._saved.inc(max(0.0, float(saved)))


class HourlyCosts(Collector):
    """What the running machines cost per hour, by pool or group."""

    def __init__(self, claims: Informer[NodeClaim], market: Market, registry: CollectorRegistry) -> None:
        self._claims, self._market = claims, market
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "allotment_autoscaling_price_per_hour",
            "What the machines that run cost an hour, by pool or group.",
            labels=("source",),
        )
        costs: dict[str, Decimal] = {}
        machines, known = self._market.machines, dict[tuple[str, ...], Machine | None]()
        for claim in self._claims.all():
            if state_of(claim) not in _RUNNING:
                continue
            kind = tuple(claim.metadata.labels.get(each, "") for each in _KIND)
            if kind not in known:
                known[kind] = machine_of(claim, machines)
            machine = known[kind]
            if machine is not None:
                costs[machine.source] = costs.get(machine.source, Decimal(0)) + machine.price
        for source, price in sorted(costs.items()):
            family.add_metric((source,), float(price))
        yield family

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, because registering must not wait for a first list."""
        return ()
