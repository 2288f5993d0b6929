"""The optional parts of the device model that are enabled. Disabled rarely means ignored: see each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

__all__ = ["Features"]


@dataclass(frozen=True, slots=True)
class Features:
    """Feature switches, under the names of Kubernetes' allocator.

    A claim that needs a disabled feature fails with an error, and a device that needs one is hidden. The two exceptions
    are taints and shares, which are then ignored.
    """

    AdminAccess: bool = True  # off: a claim that requests it is in error
    CompatibilityGroups: bool = True  # off: slices that use them are ignored, so their pool is incomplete
    ConsumableCapacity: bool = True  # off: shared devices are exclusive; capacity requests are errors
    DerivedAttributes: bool = True  # off: a claim that has them is in error
    DeviceBindingAndStatus: bool = True  # off: devices with binding conditions are skipped
    DeviceTaints: bool = True  # off: taints are ignored
    FractionalCapacityRange: bool = True  # off: ranges of capacity are rounded in whole units
    ListTypeAttributes: bool = True  # off: constraints ignore lists, and selectors treat them as errors
    OptionalNodeOperations: bool = True  # off: devices that skip node operations are skipped
    PartitionableDevices: bool = True  # off: slices with counters or per-device nodes are ignored
    PrioritizedList: bool = True  # off: a claim with alternatives is in error

    @classmethod
    def of(cls, switches: Mapping[str, bool] | None) -> Features:
        """All features for None; otherwise only those that are named and true. Unknown names are refused."""
        if switches is None:
            return ALL
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(switches) - known)
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]!r}; known are {', '.join(sorted(known))}")
        return cls(**{name: bool(switches.get(name, False)) for name in known})


ALL = Features()
