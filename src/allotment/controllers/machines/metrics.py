"""Metrics of machines: claims by state, counted when Prometheus asks; launches and durations, recorded as they happen."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.api.autoscaling import NodeClaim
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, state_of
from allotment.client.informer import Informer

_BUCKETS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)


class MachineNumbers(Collector):
    """Without a registry, nothing is served."""

    def __init__(self, claims: Informer[NodeClaim], registry: CollectorRegistry | None = None) -> None:
        self._claims = claims
        self.launches = Counter(
            "allotment_machine_launches",
            "Attempts to launch a machine, by result: launched, out_of_stock, failed.",
            ("result",),
            registry=registry,
        )
        self.registered = Histogram(
            "allotment_machine_registration_seconds",
            "From the creation of a claim until its node had joined.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.initialised = Histogram(
            "allotment_machine_initialization_seconds",
            "From the creation of a claim until its node was ready with its devices.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.mismatched = Counter(
            "allotment_machine_mismatched_devices",
            "Devices of new nodes that were not as predicted.",
            registry=registry,
        )
        if registry is not None:
            registry.register(self)

    def collect(self) -> Iterable[Metric]:
        counts = {state.value: 0 for state in ClaimProgress}
        for claim in self._claims.all():
            counts[state_of(claim).value] += 1
        family = GaugeMetricFamily(
            "allotment_node_claims", "NodeClaims by how far they have come.", labels=("state",)
        )
        for state, count in counts.items():
            family.add_metric((state,), count)
        yield family

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the families are known without counting."""
        return ()
