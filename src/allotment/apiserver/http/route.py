"""Parses paths: ``/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE``, with optional parts."""

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
    """The target of a path; None if it names no resource. Parts are not checked: empty or strange ones match nothing later."""
    parts = path.split("/")
    if not parts[-1]:
        parts.pop()
    count = len(parts)
    if count >= 4 and parts[1] == "api":
        group, version, begin = "", parts[2], 3
    elif count >= 5 and parts[1] == "apis":
        group, version, begin = parts[2], parts[3], 4
    else:
        return None
    namespace = ""
    if parts[begin] == "namespaces" and count > begin + 1:
        namespace = parts[begin + 1]
        if count > begin + 2 and parts[begin + 2] not in _NAMESPACE_SUBRESOURCES:
            begin += 2
    rest = parts[begin:]
    if len(rest) > 3 or "" in rest:
        return None
    return Target(group, version, rest[0], namespace, *rest[1:])
