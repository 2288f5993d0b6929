"""The usage of all pools, kept up to date by informers: one for everything in a process that counts devices.

Slices, claims, taint rules and, if the server has them, NodeResourceSlices go in as they change; the pools that a change
touched come out. Claims with KEP-4381 semantic parameters are read in their v1 form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.allocator.pool import PoolID
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.rights import READ
from allotment.api.semantic import NodeResourceSlice
from allotment.client.form import ResourcePath
from allotment.client.informer import Informer
from allotment.client.shared_informers import Informers
from allotment.usage.usage import Usage

RIGHTS = (
    f"{READ}: resource.k8s.io: devicetaintrules,resourceclaims,resourceslices",
    f"{READ}: ours: noderesourceslices",
)

Touched = Callable[[PoolID], None]


class FollowedUsage:
    """``usage`` may be read at any time; before :meth:`synced` returns, slices and claims may be missing."""

    def __init__(
        self,
        informers: Informers,
        *,
        rules: ResourcePath | None = None,
        node_slices: ResourcePath | None = None,
    ) -> None:
        """``rules`` and ``node_slices`` say where the server has DeviceTaintRules and NodeResourceSlices; None: nowhere."""
        self.usage = Usage()
        self._touched: list[Touched] = []
        self._followed: list[Informer[Any]] = [informers.of(ResourceSlice), informers.of(ResourceClaim)]
        if rules is not None:
            self._followed.append(informers.at(rules, DeviceTaintRule))
        if node_slices is not None:
            self._followed.append(informers.at(node_slices, NodeResourceSlice))
        for informer in self._followed:
            informer.on_change(self._changed)

    async def synced(self) -> None:
        """Returns when the usage is that of the whole cluster: what is not known by then does not exist."""
        for informer in self._followed:
            await informer.synced()

    def on_touch(self, touched: Touched) -> None:
        """Registers a function that is called with each pool that may have changed, deleted ones included; and at once with
        the pools that already exist."""
        self._touched.append(touched)
        for pool in self.usage.pools():
            touched(pool.id)

    def _changed(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        self.usage.change(old, new)
        for pool in self.usage.drain():
            for touched in self._touched:
                touched(pool)
