"""Metrics of the controller of pools, under the names of KEP-5677; names that it leaves open follow the same pattern.

The staleness of pools is how long the longest-waiting pool has waited for a correct object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.allocator.pool import PoolID

_PREFIX = "resourcepool_controller"
_QUEUE = "resourcepool"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class _Wait:
    first: float  # since when the object may be wrong
    last: float  # the last change that the object may not show


def _nothing() -> int:
    return 0


class PoolNumbers(Collector):
    """Times and failures are recorded as they happen, counts are made when Prometheus asks. Without a registry, nothing is
    served."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._waiting: dict[PoolID, _Wait] = {}
        self._claims = self._pools = self._depth = _nothing
        self._durations = Histogram(
            f"{_PREFIX}_sync_duration_seconds",
            "How long it took to bring one pool's object up to date.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._errors = Counter(
            f"{_PREFIX}_sync_errors", "Attempts to do so that failed and will be repeated.", registry=registry
        )
        if registry is not None:
            registry.register(self)

    def follow(self, claims: Callable[[], int], pools: Callable[[], int], depth: Callable[[], int]) -> None:
        """Sets the sources for counting claims that hold devices, pools that have an object, and pools in the queue."""
        self._claims, self._pools, self._depth = claims, pools, depth

    def touched(self, pool: PoolID) -> None:
        now = self._clock()
        self._waiting.setdefault(pool, _Wait(now, now)).last = now

    @contextmanager
    def syncing(self, pool: PoolID) -> Iterator[None]:
        """The context of the work on one pool; changes that come meanwhile may not be included."""
        began = self._clock()
        try:
            yield
        except Exception:
            self._errors.inc()
            raise
        finally:
            self._durations.observe(self._clock() - began)
        wait = self._waiting.get(pool)
        if wait is not None and wait.last > began:
            wait.first = wait.last
        else:
            self._waiting.pop(pool, None)

    def staleness(self) -> float:
        now = self._clock()
        return now - min((wait.first for wait in self._waiting.values()), default=now)

    def collect(self) -> Iterable[Metric]:
        for name, help, value in (
            ("pools_total", "Pools that have a ResourcePool object.", self._pools()),
            ("claims_tracked", "Claims that hold devices.", self._claims()),
            ("staleness_seconds", "How long the longest wait for an object has been.", self.staleness()),
        ):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", help, value=value)
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait to be worked on.", labels=("name",))
        depth.add_metric((_QUEUE,), self._depth())
        yield depth

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the families are known without counting."""
        return ()
