"""How often machines are launched for one pod: a few times without delay, because offers may be out of stock, then less and
less often."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

FREE_LAUNCHES = 5
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1800.0


@dataclass(slots=True)
class Patience:
    """The launches by uid of the pod: how many, and when the next one is allowed."""

    _spent: dict[str, tuple[int, float]] = field(default_factory=dict)

    def has(self, uid: str, now: float) -> bool:
        """Whether a machine may be launched for a pod now."""
        return self._spent.get(uid, (0, now))[1] <= now

    def spend(self, uids: Iterable[str], now: float) -> None:
        """Records one launch for each of these pods."""
        for uid in uids:
            count = self._spent.get(uid, (0, now))[0] + 1
            pause = FIRST_PAUSE * 2.0 ** min(count - FREE_LAUNCHES, 30) if count >= FREE_LAUNCHES else 0.0
            self._spent[uid] = count, now + min(pause, LONGEST_PAUSE)

    def keep(self, uids: Set[str]) -> None:
        """Forgets all other pods, because they no longer wait."""
        self._spent = {uid: spent for uid, spent in self._spent.items() if uid in uids}
