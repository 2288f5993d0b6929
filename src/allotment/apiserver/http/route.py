"""What a path means: ``/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE``, parts of it left out."""

from __future__ import annotations

from typing import NamedTuple

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Target(NamedTuple):
    """The resource, and perhaps the object, that a path names."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """None if the path names no resource. Parts are what they are: empty or strange ones match nothing later."""
    parts = path.split("/")
    if parts[-1] == "" and len(parts) > 2:
        parts.pop()
    if len(parts) >= 4 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) >= 5 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    if len(rest) > 3 or "" in rest:
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    return Target(group, version, rest[0], namespace, name, subresource)
