"""Semantic claims for code that handles only v1: v1 objects that carry a v1alpha2 claim (``api.conversion.v1alpha2``).

In a ledger, instances have their true ids: their names in v1's results are only made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.ledger import Holding
from allotment.allocator.semantic_holdings import held_ids
from allotment.api import semantic
from allotment.api.codec import DecodeError, decode, to_builtins
from allotment.api.conversion.v1alpha2 import CARRIER, as_carried

if TYPE_CHECKING:
    from allotment.api.resource import DeviceClaimConfiguration, ResourceClaim, ResourceClaimSpec


def is_carrier(claim: ResourceClaim) -> bool:
    """Whether a claim may carry a v1alpha2 claim: a quick look."""
    config = claim.spec.devices.config
    return bool(config) and any(each.opaque is not None and each.opaque.driver == CARRIER for each in config)


def carried(claim: ResourceClaim) -> semantic.ResourceClaim | None:
    """The v1alpha2 claim in a v1 claim; None for v1's own."""
    if not is_carrier(claim):
        return None
    read = as_carried(to_builtins(claim))
    try:
        return decode(semantic.ResourceClaim, read) if read is not None else None
    except DecodeError:
        return None


def waiting_for_users(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    """A spec that allocates nothing, and keeps nothing allocated, without a user, whatever mode the carried claim has."""
    config = tuple(_waiting(each) for each in spec.devices.config)
    return replace(spec, devices=replace(spec.devices, config=config))


def _waiting(config: DeviceClaimConfiguration) -> DeviceClaimConfiguration:
    opaque = config.opaque
    if opaque is None or opaque.driver != CARRIER or not isinstance(opaque.parameters, dict):
        return config
    parameters = {**opaque.parameters, "allocationMode": "WaitForFirstConsumer"}
    return replace(config, opaque=replace(opaque, parameters=parameters))


def carried_holdings(claim: ResourceClaim) -> tuple[Holding, ...] | None:
    """What a carried claim's allocation holds, under the instances' true ids; None for v1's own claims."""
    found = carried(claim)
    if found is None:
        return None
    return tuple(Holding(id, None, (), False) for id in held_ids(found))
