"""A property of a device on a machine that does not run yet: it will have a value that nobody knows so far."""

from allotment.api.meta import stated
from allotment.api.resource import DeviceAttribute


class UnknownAttribute(DeviceAttribute, frozen=True, kw_only=True):
    """Stands for the future value. It equals those with the same ``binding_key``, and no known value.

    Drivers never publish it: it occurs only in predicted slices. An expression that reads it has no result.
    """

    binding_key: str = stated("")  # attributes with the same key will have the same value
