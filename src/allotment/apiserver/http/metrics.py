"""Numbers about the server, in Prometheus' form and under the names that kube-apiserver uses where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.apiserver.store.store import Store

_SECONDS = (
    0.005,
    0.025,
    0.05,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    15,
    20,
    30,
    45,
    60,
)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_REMEMBERED = 5000
_OF_REQUEST = ("verb", "group", "version", "resource", "subresource", "scope")

Labels = tuple[str, str, str, str, str, str]


class Metrics:
    """One server's numbers. Label values come from the catalogue, never from a client, so there are few."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._total = Counter(
            "apiserver_request",
            "Requests by verb, resource and HTTP code.",
            (*_OF_REQUEST, "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds from a request's first byte to the end of its reply, watches aside.",
            _OF_REQUEST,
            buckets=_SECONDS,
            registry=self.registry,
        )
        inflight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered.",
            ("request_kind",),
            registry=self.registry,
        )
        self.reading, self.mutating = inflight.labels("readOnly"), inflight.labels("mutating")
        self._watches = Gauge(
            "apiserver_longrunning_requests",
            "Watches that are open.",
            ("verb", "group", "version", "resource"),
            registry=self.registry,
        )
        self.rejected = Counter(
            "apiserver_rejected_requests",
            "Requests refused with 429, as too many were being answered.",
            registry=self.registry,
        )
        self.lag = Histogram(
            "allotment_event_loop_lag_seconds",
            "How much later than planned the event loop ran.",
            buckets=_LAG_SECONDS,
            registry=self.registry,
        )
        self._children: dict[tuple[Labels, int], tuple[Counter, Histogram]] = {}

    def done(self, labels: Labels, code: int, seconds: float, watch: bool = False) -> None:
        """A request has been answered."""
        pair = self._children.get((labels, code))
        if pair is None:
            if len(self._children) >= _REMEMBERED:
                self._children.clear()
            pair = self._total.labels(*labels, str(code)), self._seconds.labels(*labels)
            self._children[labels, code] = pair
        pair[0].inc()
        if not watch:
            pair[1].observe(seconds)

    def watches(self, group: str, version: str, resource: str) -> Gauge:
        return self._watches.labels("WATCH", group, version, resource)

    def follow(self, store: Store) -> None:
        """Tells the store's numbers too."""
        self.registry.register(_OfStore(store))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _OfStore(Collector):
    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        stats = self._store.stats()
        counters: tuple[tuple[str, str, Callable[[], float]], ...] = (
            ("commits", "Commits to disk.", lambda: stats.commits),
            ("commit_seconds", "Seconds spent in commits.", lambda: stats.commit_seconds),
            ("writes", "Writes that became durable.", lambda: stats.writes),
            ("failures", "Commits that failed.", lambda: stats.failures),
        )
        for name, doc, value in counters:
            yield CounterMetricFamily(f"allotment_store_{name}", doc, value=value())
        for name in ("pending", "pending_bytes", "objects", "bytes", "history", "history_bytes", "watches"):
            yield GaugeMetricFamily(
                f"allotment_store_{name}",
                f"The store's {name.replace('_', ' ')}.",
                value=getattr(stats, name),
            )
        yield GaugeMetricFamily("allotment_store_revision", "The newest revision.", value=stats.revision)
