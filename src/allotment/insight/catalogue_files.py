"""The machines that can be launched, read from files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue.catalogue import Catalogue


def read_files(names: Sequence[str]) -> Catalogue:
    """The content of the files. Raises BadInput with all errors."""
    from allotment.autoscaler.catalogue.catalogue import Catalogue, CatalogueError, catalogue_of
    from allotment.insight.errors import BadInput
    from allotment.insight.manifest_files import read_objects

    if not names:
        return Catalogue()
    reading = read_objects(names)
    try:
        return catalogue_of(reading.found, reading.complaints)
    except CatalogueError as exc:
        raise BadInput(exc.complaints) from exc


def with_own(catalogue: Catalogue, own: Iterable[ApiStruct]) -> Catalogue:
    """Adds the cluster's own pools, groups and overlays; they replace those of the same names in the catalogue."""
    from dataclasses import replace

    from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool

    own = list(own)
    both = catalogue.with_pools(
        [each for each in own if isinstance(each, NodePool)],
        [each for each in own if isinstance(each, NodeGroup)],
    )
    overlays = {each.metadata.name: each for each in own if isinstance(each, NodeOverlay)}
    return replace(both, overlays={**both.overlays, **overlays})
