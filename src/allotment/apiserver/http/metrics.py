"""Metrics of the server in Prometheus' form, under kube-apiserver's names where it has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.apiserver.http.fairness import FairQueues
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
_OF_REQUEST = ("verb", "group", "version", "resource", "subresource", "scope")

Labels = tuple[str, str, str, str, str, str]
_PRUNE_AT = 1_000
"""The number of series at which those of removed kinds are pruned, even if nobody reads the metrics."""


class _Series:
    """The requests of one kind: counts by code, and durations. It is handwritten because every request passes it."""

    __slots__ = ("buckets", "codes", "seconds")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.buckets = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, code: int, seconds: float | None) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1
        if seconds is not None:
            self.buckets[bisect_left(_SECONDS, seconds)] += 1
            self.seconds += seconds


class ServerMetrics(Collector):
    """The metrics of one server. Label values come from the catalogue, never from a client, so there are few."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.elsewhere: Callable[[], Awaitable[bytes]] | None = None  # the metrics of another process of ours
        self.reading = self.mutating = self.rejected = 0
        self.is_served: Callable[[str, str, str], bool] = lambda group, version, plural: True
        self.closed_streams = 0  # connections whose readers left too much unread
        self.held: Callable[[], Iterable[tuple[str, str, int]]] = tuple  # gauges: name, meaning, value
        self._queues: Iterable[FairQueues] = ()
        self._refused: dict[tuple[str, str], int] = {}  # by level and reason
        self._requests: dict[Labels, _Series] = {}
        self._watches: dict[Labels, int] = {}
        self._prune_at = _PRUNE_AT
        self.waits = Histogram(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Seconds that requests waited for a seat, of those that had to.",
            labelnames=("priority_level",),
            registry=self.registry,
        )
        self.lag = Histogram(
            "allotment_event_loop_lag_seconds",
            "How much later than planned the event loop ran.",
            buckets=_LAG_SECONDS,
            registry=self.registry,
        )

    def done(self, labels: Labels, code: int, seconds: float | None) -> None:
        """Records an answered request. ``seconds`` is None for watches."""
        series = self._requests.get(labels)
        if series is None:
            if len(self._requests) >= self._prune_at:
                self._prune()
                self._prune_at = len(self._requests) + _PRUNE_AT
            series = self._requests[labels] = _Series()
        series.add(code, seconds)

    def watching(self, labels: Labels, more: int) -> None:
        """Records that a watch begins (1) or ends (-1)."""
        self._watches[labels] = self._watches.get(labels, 0) + more

    def refused(self, level: str, reason: str) -> None:
        """Records a request without a seat: the queue was full (``queue-full``) or it waited too long (``time-out``)."""
        self.rejected += 1
        self._refused[level, reason] = self._refused.get((level, reason), 0) + 1

    def follow_queues(self, queues: Iterable[FairQueues]) -> None:
        """Adds gauges for the requests of each level that are being answered and that wait."""
        self._queues = queues

    def follow(self, store: Store) -> None:
        """Adds the store's metrics."""
        self.registry.register(_OfStore(store))

    async def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        others = await self.elsewhere() if self.elsewhere is not None else b""
        return generate_latest(self.registry) + others

    def _prune(self) -> None:
        """Removes the series of kinds that are no longer served; otherwise they would accumulate."""

        def gone(labels: Labels) -> bool:
            _, group, version, plural, _, _ = labels
            return bool(plural) and not self.is_served(group, version, plural)

        for labels in [each for each in self._requests if gone(each)]:
            del self._requests[labels]
        for labels in [each for each, count in self._watches.items() if not count and gone(each)]:
            del self._watches[labels]

    def collect(self) -> Iterable[Metric]:
        self._prune()
        yield from self._of_requests()
        yield from self._of_queues()

    def _of_queues(self) -> Iterable[Metric]:
        level = ("priority_level",)
        executing = GaugeMetricFamily(
            "apiserver_flowcontrol_current_executing_requests", "Requests that have a seat.", labels=level
        )
        seats = GaugeMetricFamily(
            "apiserver_flowcontrol_current_executing_seats", "Seats that requests have taken.", labels=level
        )
        waiting = GaugeMetricFamily(
            "apiserver_flowcontrol_current_inqueue_requests", "Requests that wait for a seat.", labels=level
        )
        dispatched = CounterMetricFamily(
            "apiserver_flowcontrol_dispatched_requests", "Requests that got a seat.", labels=level
        )
        for queues in self._queues:
            name = (queues.level.name,)
            executing.add_metric(name, queues.executing)
            seats.add_metric(name, queues.seated)
            waiting.add_metric(name, queues.waiting)
            dispatched.add_metric(name, queues.dispatched)
        refused = CounterMetricFamily(
            "apiserver_flowcontrol_rejected_requests",
            "Requests that got no seat and were refused with 429.",
            labels=("priority_level", "reason"),
        )
        for labels, count in self._refused.items():
            refused.add_metric(labels, count)
        yield from (executing, seats, waiting, dispatched, refused)
        for name_, meaning, value in self.held():
            yield GaugeMetricFamily(name_, meaning, value=value)
        yield CounterMetricFamily(
            "allotment_streams_closed",
            "Connections closed because their readers left too much unread.",
            value=self.closed_streams,
        )

    def _of_requests(self) -> Iterable[Metric]:
        total = CounterMetricFamily(
            "apiserver_request", "Requests by verb, resource and HTTP code.", labels=(*_OF_REQUEST, "code")
        )
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Seconds from a request's first byte to the end of its reply, watches aside.",
            labels=_OF_REQUEST,
        )
        for labels, series in self._requests.items():
            for code, count in series.codes.items():
                total.add_metric((*labels, str(code)), count)
            counted = list(accumulate(series.buckets))
            bounds = [*map(str, _SECONDS), "+Inf"]
            durations.add_metric(labels, list(zip(bounds, counted, strict=True)), series.seconds)
        yield total
        yield durations
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered.", labels=("request_kind",)
        )
        inflight.add_metric(("readOnly",), self.reading)
        inflight.add_metric(("mutating",), self.mutating)
        yield inflight
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open.", labels=_OF_REQUEST
        )
        for labels, count in self._watches.items():
            watches.add_metric(labels, count)
        yield watches
        yield CounterMetricFamily(
            "apiserver_rejected_requests",
            "Requests refused with 429, as too many were being answered or too much was unread.",
            value=self.rejected,
        )


class _OfStore(Collector):
    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        stats = self._store.stats
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
