"""A property of a device of a machine that does not run yet: it will have a value, and nobody knows which."""

from allotment.api.meta import stated
from allotment.api.resource import DeviceAttribute


class UnknownAttribute(DeviceAttribute, frozen=True, kw_only=True):
    """Equals those with the same ``binding_key`` and no others, in particular no value that is known.

    Nobody publishes it: it stands in slices that are foreseen. An expression that reads it has no answer.
    """

    binding_key: str = stated("")  # which attributes will have the same value
