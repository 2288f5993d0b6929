"""Existing allocations as the search sees them.

The search asks only a few questions about a device. The ledger answers them for a running cluster, and :class:`Held` for a
problem with fixed answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from allotment.allocator.pool import DeviceID


class Holdings(Protocol):
    """Use of devices by claims that are already allocated. Amounts are in billionths."""

    @property
    def strict(self) -> bool:
        """Whether a device that is no longer shared counts as in use while claims still hold shares of it.

        Upstream allocates it whole; a ledger would then refuse to promise it twice.
        """

    def exclusive(self, device: DeviceID) -> bool:
        """Whether a claim holds the whole device."""

    def shared(self, device: DeviceID) -> bool:
        """Whether a claim holds a share of the device, even one without capacity."""

    def consumed(self, device: DeviceID) -> Mapping[str, int]:
        """How much of each capacity all shares together take."""

    def holders(self, device: DeviceID) -> Sequence[str]:
        """The known names of the claims that hold the device or shares of it."""


class Held:
    """Holdings with fixed content."""

    strict = False

    def __init__(
        self,
        devices: Iterable[DeviceID] = (),
        shared: Iterable[DeviceID] = (),
        consumed: Mapping[DeviceID, Mapping[str, int]] | None = None,
    ) -> None:
        self._exclusive = frozenset(devices)
        self._consumed = dict(consumed or {})
        self._shared = frozenset(shared) | self._consumed.keys()

    def exclusive(self, device: DeviceID) -> bool:
        return device in self._exclusive

    def shared(self, device: DeviceID) -> bool:
        return device in self._shared

    def consumed(self, device: DeviceID) -> Mapping[str, int]:
        return self._consumed.get(device, {})

    def holders(self, device: DeviceID) -> Sequence[str]:
        return ()


NOTHING_HELD = Held()
