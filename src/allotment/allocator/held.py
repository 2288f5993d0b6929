"""What is already allocated, as the search sees it.

The search only asks few questions about a device; the ledger answers them for a running cluster, and
:class:`Held` for a problem that comes with its answers written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from allotment.allocator.pool import DeviceID


class Holdings(Protocol):
    """Use of devices by claims that are already allocated. Amounts are in billionths."""

    @property
    def strict(self) -> bool:
        """Whether a device that is not shared any more, but of which shares are still held, is in use. Upstream gives
        it away whole; a ledger would then refuse to promise it twice."""

    def exclusive(self, device: DeviceID) -> bool:
        """Someone has the whole device."""

    def shared(self, device: DeviceID) -> bool:
        """Someone has a share of the device, be it of no capacity at all."""

    def consumed(self, device: DeviceID) -> Mapping[str, int]:
        """How much of each capacity all shares together take."""

    def holders(self, device: DeviceID) -> Sequence[str]:
        """Names of the claims that have the device or shares of it, as far as they are known."""


class Held:
    """Holdings that are given as they are."""

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
