"""The usage of a pool for a caller who may not list all claims.

A caller who sees some of the claims knows what those hold; every other device may be held by a hidden claim. A
ResourcePool object, which everybody may read, has the counts. Together they tell how many of the other devices are
held, but not which:
"3 of these 5 devices are held by claims you may not see". Therefore:

* If the counts agree with the visible claims, every state is known and ``hidden`` is 0.
* If more devices are allocated than visible claims hold, the counts stand and ``hidden`` is the difference. Devices
without a visible claim are Unknown, or Allocated if all of them must be.
* If there are no counts, or they do not fit this state of the pool, ``hidden`` is None and those devices are Unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from allotment.usage.device import HIDDEN_CLAIMS, DeviceUsage
from allotment.usage.summary import DeviceState, Summary, count

if TYPE_CHECKING:
    from allotment.usage.pool import PoolUsage

__all__ = ["with_hidden_claims"]


def with_hidden_claims(usage: PoolUsage, published: Summary | None) -> PoolUsage:
    """Corrects ``usage``, computed from the visible claims, by the counts of the pool's ResourcePool object.

    ``counts`` is None if there is no such object.
    """
    hidden = _hidden(usage, published)
    if hidden == 0:
        return usage
    certain = hidden is not None and hidden == usage.unseen
    devices = tuple([device if device.in_use else _doubtful(device, certain) for device in usage.devices])
    summary = published if published is not None and hidden is not None else None
    return replace(
        usage,
        devices=devices,
        summary=summary if summary is not None else count([device.state for device in devices]),
        hidden=hidden,
    )


def _hidden(usage: PoolUsage, published: Summary | None) -> int | None:
    if published is None or published.total != usage.summary.total:
        return None
    hidden = published.allocated - usage.summary.allocated
    return hidden if 0 <= hidden <= usage.unseen else None


def _doubtful(device: DeviceUsage, certain: bool) -> DeviceUsage:
    return msgspec.structs.replace(
        device,
        state=DeviceState.ALLOCATED if certain else DeviceState.UNKNOWN,
        reason=HIDDEN_CLAIMS,
        message="is held by a claim that you may not see"
        if certain
        else "may be held by a claim that you may not see",
        allocated_capacity={},
        available_capacity={},
    )
