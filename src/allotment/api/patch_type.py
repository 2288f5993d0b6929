"""The four ways to read a patch."""

from enum import Enum


class PatchType(Enum):
    """How a server is to read a patch; the values are media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"
