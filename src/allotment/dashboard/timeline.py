"""How much was in use since the server started, in bounded memory.

Samples fall into buckets of equal width, of which there is a fixed number. When the last bucket is full, neighbouring buckets
are merged, so that buckets are twice as wide and half of them are free again. A bucket is the mean of its samples; a bucket
without samples (the machine slept) is a gap. Nothing is stored: the history ends with the process.
"""

from __future__ import annotations

from dataclasses import dataclass

from allotment.usage.summary import Summary

BUCKETS = 240
BUCKET_SECONDS = 1.0  # seconds, at first

Point = tuple[float, float, float, float]
"""Mean numbers of devices: allocated, available, unavailable, and how many of these are partially allocated."""


@dataclass(slots=True)
class _Bucket:
    samples: int = 0
    allocated: int = 0
    available: int = 0
    unavailable: int = 0
    partially: int = 0

    def add(self, other: _Bucket) -> None:
        self.samples += other.samples
        self.allocated += other.allocated
        self.available += other.available
        self.unavailable += other.unavailable
        self.partially += other.partially

    def point(self) -> Point | None:
        if not self.samples:
            return None
        sums = (self.allocated, self.available, self.unavailable, self.partially)
        allocated, available, unavailable, partially = (round(each / self.samples, 2) for each in sums)
        return allocated, available, unavailable, partially


class Timeline:
    """Time is in seconds since the timeline began. Invariant: there are never more than ``buckets`` buckets."""

    def __init__(self, buckets: int = BUCKETS, width: float = BUCKET_SECONDS) -> None:
        """``buckets`` is even."""
        self._most = buckets
        self._buckets: list[_Bucket] = []
        self.width = width

    def note(self, time: float, counts: Summary) -> None:
        """Takes a sample. Samples come in order; a sample from before the last bucket counts for the last one."""
        while time >= self._most * self.width:
            self._halve()
        while len(self._buckets) <= int(time / self.width):
            self._buckets.append(_Bucket())
        self._buckets[-1].add(
            _Bucket(1, counts.allocated, counts.available, counts.unavailable, counts.partially_allocated)
        )

    def points(self, start: int = 0) -> list[Point | None]:
        """All buckets from a given one on; None is a gap."""
        return [bucket.point() for bucket in self._buckets[start:]]

    @property
    def newest(self) -> int:
        """The number of the bucket for samples taken now."""
        return max(0, len(self._buckets) - 1)

    def _halve(self) -> None:
        for at in range(0, len(self._buckets) - 1, 2):
            self._buckets[at].add(self._buckets[at + 1])
        del self._buckets[1::2]
        self.width *= 2
