"""The usage of all pools, kept up from informers: one for everything in a process that counts devices.

Slices, claims, taint rules and, where they are served, the early form's slices go in as they change; which pools that touched
comes out. Claims of the early form are read as v1 shows them.
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
from allotment.client.informers import Informers
from allotment.usage.usage import Usage

RIGHTS = (
    f"{READ}: resource.k8s.io: devicetaintrules,resourceclaims,resourceslices",
    f"{READ}: ours: noderesourceslices",
)

Touched = Callable[[PoolID], None]


class FollowedUsage:
    """``usage`` may be asked at any time; before :meth:`synced` returns it may lack slices and claims."""

    def __init__(
        self,
        informers: Informers,
        *,
        rules: ResourcePath | None = None,
        node_slices: ResourcePath | None = None,
    ) -> None:
        """``rules`` and ``node_slices`` are where DeviceTaintRules and NodeResourceSlices are served; None: nowhere."""
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
        """Returns when usage is of the whole cluster: what is not there by then is nowhere."""
        for informer in self._followed:
            await informer.synced()

    def on_touch(self, touched: Touched) -> None:
        """Has each pool told that may have changed, gone ones included; those that there are already, at once."""
        self._touched.append(touched)
        for pool in self.usage.pools():
            touched(pool.id)

    def _changed(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        self.usage.change(old, new)
        for pool in self.usage.drain():
            for touched in self._touched:
                touched(pool)
