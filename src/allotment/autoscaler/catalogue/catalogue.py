"""The machines that can be launched: instance types with their offerings, node pools, node groups, and overlays on them.

A catalogue is read from the text of manifests, strictly: a misspelt field, an invalid value or a duplicate object is an error
with file, line, object and field, and all errors are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from allotment.api.autoscaling import InstanceType, NodeGroup, NodeOverlay, NodePool
from allotment.api.fields import FieldError
from allotment.api.manifests.manifest import Located, ManifestError, read_manifest
from allotment.api.validation import (
    validate_instance_type,
    validate_node_group,
    validate_node_overlay,
    validate_node_pool,
)

__all__ = ["Catalogue", "CatalogueError", "read_catalogue"]

T = TypeVar("T", InstanceType, NodePool, NodeGroup, NodeOverlay)

_KINDS: dict[type, Callable[[Any], list[FieldError]]] = {
    InstanceType: validate_instance_type,
    NodePool: validate_node_pool,
    NodeGroup: validate_node_group,
    NodeOverlay: validate_node_overlay,
}


class CatalogueError(ValueError):
    """The catalogue is invalid. ``complaints`` are lines such as ``types.yaml:7: InstanceType m1: spec.offerings: …``."""

    def __init__(self, complaints: Iterable[str]) -> None:
        self.complaints = list(complaints)
        super().__init__("\n".join(self.complaints))


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Valid objects by name."""

    types: Mapping[str, InstanceType] = field(default_factory=dict)
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    groups: Mapping[str, NodeGroup] = field(default_factory=dict)
    overlays: Mapping[str, NodeOverlay] = field(default_factory=dict)

    def with_pools(self, pools: Iterable[NodePool], groups: Iterable[NodeGroup] = ()) -> Catalogue:
        """Adds the objects of a cluster, which replace those of the same names from files. Invalid ones are left out."""
        return Catalogue(
            self.types,
            {**self.pools, **{each.metadata.name: each for each in pools if not validate_node_pool(each)}},
            {**self.groups, **{each.metadata.name: each for each in groups if not validate_node_group(each)}},
            self.overlays,
        )


def read_catalogue(files: Iterable[tuple[str, str]]) -> Catalogue:
    """The catalogue in the text of files, each given with its name. Raises CatalogueError."""
    found: list[Located] = []
    complaints: list[str] = []
    for source, text in files:
        try:
            found += read_manifest(text, source)
        except ManifestError as exc:
            complaints.append(str(exc))
    return catalogue_of(found, complaints)


def catalogue_of(found: Sequence[Located], complaints: Iterable[str] = ()) -> Catalogue:
    """The catalogue of objects that were read; ``complaints`` are about those that could not be read. Raises CatalogueError."""
    complaints = list(complaints)
    taken: dict[tuple[str, str], Located] = {}
    for located in found:
        complaints += _complaints(located, taken)
    if complaints:
        raise CatalogueError(complaints)
    return Catalogue(
        _by_name(InstanceType, found),
        _by_name(NodePool, found),
        _by_name(NodeGroup, found),
        _by_name(NodeOverlay, found),
    )


def _by_name(kind: type[T], found: Iterable[Located]) -> dict[str, T]:
    objects = [each.obj for each in found if isinstance(each.obj, kind)]
    return {each.metadata.name: each for each in objects}


def _complaints(located: Located, taken: dict[tuple[str, str], Located]) -> Iterator[str]:
    obj = located.obj
    if not isinstance(obj, InstanceType | NodePool | NodeGroup | NodeOverlay):
        names = ", ".join(kind.__name__ for kind in _KINDS)
        yield _told(located, "", f"does not belong in a catalogue, which has {names}")
        return
    for error in located.unknown_fields():
        yield _told(located, error.field, error.message)
    for problem in _KINDS[type(obj)](obj):
        yield _told(located, str(problem.path), problem.message)
    name = obj.metadata.name
    before = taken.setdefault((obj.kind, name), located)
    if before is not located and name:
        yield _told(located, "metadata.name", f"already exists, at {before.source}:{before.line}")


def _told(located: Located, path: str, message: str) -> str:
    metadata = located.raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    which = f"{located.kind} {name}" if isinstance(name, str) and name else located.kind
    where = f"{located.source}:{located.line_of(path)}"
    return f"{where}: {which}: {path}: {message}" if path else f"{where}: {which}: {message}"
