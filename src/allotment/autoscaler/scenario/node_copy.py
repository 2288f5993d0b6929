"""A copy of an existing node, with devices of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.autoscaling import HOSTNAME
from allotment.api.core import NodeSpec
from allotment.api.meta import ObjectMeta

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.autoscaler.simulate.forkable_cluster import Slice


def copied(node: Node, slices: Iterable[Slice], name: str) -> tuple[Node, list[Slice]]:
    """The node under another name, not cordoned, and the slices that only it reaches. Slices that other nodes reach too are
    not copied."""
    was = node.metadata
    labels = {**was.labels, **({HOSTNAME: name} if HOSTNAME in was.labels else {})}
    twin = replace(
        node,
        metadata=ObjectMeta(name=name, labels=labels, annotations=was.annotations),
        spec=NodeSpec(taints=tuple([taint for taint in node.spec.taints if not _cordons(taint.key)])),
    )
    own = [each for each in slices if each.spec.node_name == was.name]
    return twin, [_copied(each, was.name, name, number) for number, each in enumerate(own)]


def _cordons(key: str) -> bool:
    return key.startswith("node.kubernetes.io/")


def _copied(slice: Slice, was: str, name: str, number: int) -> Slice:
    metadata = ObjectMeta(name=f"{name}-{number}", labels=slice.metadata.labels)
    if isinstance(slice, semantic.NodeResourceSlice):
        return replace(slice, metadata=metadata, spec=replace(slice.spec, node_name=name))
    old = slice.spec.pool.name
    pool = replace(slice.spec.pool, name=old.replace(was, name) if was in old else f"{old}-{name}")
    return replace(slice, metadata=metadata, spec=replace(slice.spec, node_name=name, pool=pool))
