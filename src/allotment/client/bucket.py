"""A rate limit: so many actions a second, and a burst after a quiet time."""

from __future__ import annotations


class Bucket:
    """Tokens that arrive at a fixed rate. A caller that finds none learns how long to wait for its token."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._at = float(burst), 0.0

    def delay(self, now: float) -> float:
        """Takes a token; returns the seconds until it is available."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._per_second)
        self._at = now
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0 else -self._tokens / self._per_second
