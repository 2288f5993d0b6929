"""A pool and a node in detail, for ``allot describe``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.pool import PoolID
from allotment.api.core import Node
from allotment.api.pools import ResourcePool
from allotment.api.resource import ResourceSlice
from allotment.cli.render.usage_table import (
    allocated_words,
    hidden_words,
    holders,
    partly_free_words,
    parts,
    show_devices,
)
from allotment.insight.absent import absent
from allotment.insight.usage_document import UNKNOWN, node_pool_document, pool_id_document
from allotment.usage.names import pool_object_name
from allotment.usage.rollup import NodeUsage, PoolOnNode

if TYPE_CHECKING:
    from allotment.cli.render.screen import Screen
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.usage_document import Document
    from allotment.usage.inventory import PoolFinding
    from allotment.usage.pool import PoolUsage

_LABEL_WIDTH = 13


def field(screen: Screen, label: str, value: str, *, indent: int = 0, style: str = "") -> None:
    """A line ``Label:   value``."""
    screen.line((f"{label}:".ljust(_LABEL_WIDTH), "dim"), (value, style), indent=indent)


# --- a pool ---


def named_pools(snapshot: Snapshot, name: str) -> list[PoolUsage]:
    """The pools that a name may mean. Raises Failure if there are none."""
    pools, objects = snapshot.pools(), _object_names(snapshot)
    found = [
        pool
        for pool in pools
        if name in (pool.pool_name, f"{pool.driver}/{pool.pool_name}", _object_name(pool.id, objects))
    ]
    if not found:
        known = {pool.pool_name for pool in pools} | {f"{pool.driver}/{pool.pool_name}" for pool in pools}
        raise absent("pool", name, known, "allot pools")
    return found


def _object_names(snapshot: Snapshot) -> dict[PoolID, str]:
    return {
        PoolID(pool.spec.driver, pool.spec.pool_name): pool.metadata.name
        for pool in snapshot.of(ResourcePool)
    }


def _object_name(id: PoolID, known: dict[PoolID, str]) -> str:
    """The name of the pool's ResourcePool or, if there is none, the name that it would have."""
    return known.get(id) or pool_object_name(id)


def show_pool(pool: PoolUsage, snapshot: Snapshot, screen: Screen, *, wide: bool) -> None:
    field(screen, "Name", _object_name(pool.id, _object_names(snapshot)))
    field(screen, "Driver", pool.driver)
    field(screen, "Pool", pool.pool_name)
    field(screen, "Node", pool.node_name or "several may reach it")
    field(screen, "Generation", str(pool.generation))
    field(screen, "Slices", f"{pool.observed_slices} of {pool.expected_slices}")
    field(screen, "Devices", f"{pool.summary.total}: {parts(pool.summary, known=pool.hidden is not None)}")
    if pool.summary.partially_allocated:
        field(screen, "Partly free", partly_free_words(pool))
    _show_finding(screen, "Complete", pool.complete)
    _show_finding(screen, "Valid", pool.valid)
    if pool.validation_errors:
        more = pool.truncated_error_count - len(pool.validation_errors)
        screen.line("Validation errors:")
        for error in pool.validation_errors:
            screen.line((error, "yellow"), indent=2)
        if more > 0:
            screen.line(f"... and {more} more", indent=2)
    if not pool.devices:
        return
    screen.heading("Devices")
    show_devices(pool.devices, screen, wide=wide)
    words = hidden_words(pool.hidden, pool.devices)
    if words:
        screen.line(words)
    if pool.vanished:
        screen.heading("Held, but no longer published")
        screen.table(
            ("device", "held by"), [[gone.name, holders(gone.allocations)] for gone in pool.vanished]
        )


def _show_finding(screen: Screen, label: str, finding: PoolFinding) -> None:
    reason = f" ({finding.reason})" if finding.reason else ""
    yes, style = ("yes", "green") if finding.holds else ("no", "red")
    field(screen, label, f"{yes}{reason}: {finding.message}", style=style)


# --- a node ---


def named_node(snapshot: Snapshot, name: str) -> NodeUsage:
    """The devices of a node. Raises Failure if the caller can see neither the node nor any device of it."""
    pools = snapshot.pools()
    if snapshot.sees(ResourceSlice):
        usage = snapshot.usage.node(name)
    else:
        mine = [PoolOnNode(p.id, p.devices, p.summary, p.hidden) for p in pools if p.node_name == name]
        usage = NodeUsage(name, tuple(mine))
    nodes = {node.metadata.name for node in snapshot.of(Node)}
    if name not in nodes and not usage.pools:
        raise absent("node", name, nodes | {pool.node_name for pool in pools}, "allot pools")
    return usage


def show_node(usage: NodeUsage, snapshot: Snapshot, screen: Screen, *, wide: bool) -> None:
    """Shows the section that KEP-5677 describes, and the devices below each pool."""
    field(screen, "Name", usage.name)
    state, style = _node_state(usage.name, snapshot)
    field(screen, "Node", state, style=style)
    if not usage.pools:
        screen.line("DRA Resources: <none>")
    else:
        screen.line("DRA Resources:")
    objects = _object_names(snapshot)
    for pool in usage.pools:
        known = pool.hidden is not None
        screen.line(("Pool: ", "dim"), (_object_name(pool.id, objects), "bold"), indent=2)
        field(screen, "Driver", pool.id.driver, indent=4)
        field(screen, "Total", str(pool.summary.total), indent=4)
        field(screen, "Allocated", allocated_words(pool.summary, known=known), indent=4)
        field(screen, "Available", str(pool.summary.available) if known else UNKNOWN, indent=4)
        if pool.summary.partially_allocated:
            field(screen, "Partly free", partly_free_words(pool), indent=4)
        field(screen, "Unavailable", str(pool.summary.unavailable) if known else UNKNOWN, indent=4)
    if usage.reaches:
        screen.line("Reaches, together with other nodes:")
        for id in usage.reaches:
            screen.line(_object_name(id, objects), indent=2)
    for pool in usage.pools:
        if pool.devices:
            screen.heading(f"Devices of {_object_name(pool.id, objects)}")
            show_devices(pool.devices, screen, wide=wide)
        words = hidden_words(pool.hidden, pool.devices)
        if words:
            screen.line(words)


def _node_state(name: str, snapshot: Snapshot) -> tuple[str, str]:
    if not snapshot.sees(Node):
        return UNKNOWN, ""
    node = next((each for each in snapshot.of(Node) if each.metadata.name == name), None)
    if node is None:
        return "does not exist; its slices are left over", "red"
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "Unknown")
    words = {"True": "ready", "False": "not ready"}.get(
        ready, "unknown: the node does not report whether it is ready"
    )
    cordoned = ", cordoned" if node.spec.unschedulable else ""
    return words + cordoned, "green" if ready == "True" and not cordoned else "yellow"


def node_document(usage: NodeUsage, snapshot: Snapshot) -> Document:
    return {
        "node": usage.name,
        "exists": any(each.metadata.name == usage.name for each in snapshot.of(Node))
        if snapshot.sees(Node)
        else None,
        "pools": [node_pool_document(pool) for pool in usage.pools],
        "reaches": [pool_id_document(id) for id in usage.reaches],
    }
