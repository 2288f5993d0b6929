"""Errors in a step of a scenario that do not depend on the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from allotment.api.batch import PodGroup
from allotment.api.core import Pod
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from allotment.autoscaler.simulate.workload_pods import VERSIONS

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.api.scenario import AddNodes, Expect, TaintDevice

MOST_NODES = 5_000
MOST_PODS = 20_000
MOST_DEVICES = 10_000
MOST_EXPECTED = 1_000
LONGEST_NAME = 512
"""Bounds: nodes and pods of all steps together, devices of a pool, names of one expectation and their length."""

VERBS = {
    "addNodes": "add_nodes",
    "removeNode": "remove_node",
    "drainNode": "drain_node",
    "submit": "submit",
    "delete": "delete",
    "scale": "scale",
    "taintDevice": "taint_device",
    "resizePool": "resize_pool",
}
"""The verbs as they are written, and as fields of ``api.scenario.ScenarioStep``."""
EFFECTS = ("NoSchedule", "NoExecute")
DELETABLE: dict[str, type[ApiStruct]] = {
    "Pod": Pod,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "PodGroup": PodGroup,
    "DeviceTaintRule": DeviceTaintRule,
}
"""Kinds that can be deleted, beside workloads."""
Complaints = Iterator[tuple[str, str]]
"""Paths of fields, each with a message that says what to do."""


def wrong(verb: str, wish: Any) -> Complaints:
    """The errors in a verb's own part of a step."""
    match verb:
        case "addNodes":
            yield from _wrongly_added(wish)
        case "removeNode" | "drainNode":
            yield from _required(verb, wish, "name")
        case "submit":
            if bool(wish.manifests) == bool(wish.file):
                yield verb, "needs exactly one of manifests and file"
        case "delete":
            yield from _required(verb, wish, "name")
            yield from _one_of(f"{verb}.kind", wish.kind, [*VERSIONS, *DELETABLE])
        case "scale":
            yield from _required(verb, wish, "name")
            yield from _one_of(f"{verb}.kind", wish.kind, list(VERSIONS))
            yield from _within(f"{verb}.replicas", wish.replicas, 0, MOST_PODS)
        case "taintDevice":
            yield from _wrongly_tainted(wish)
        case "resizePool":
            yield from _required(verb, wish, "driver", "pool")
            yield from _within(f"{verb}.devices", wish.devices, 0, MOST_DEVICES)


def _wrongly_added(wish: AddNodes) -> Complaints:
    ways = [name for name in ("type", "like", "manifests", "file") if getattr(wish, name)]
    if len(ways) != 1:
        yield (
            "addNodes",
            f"needs exactly one of type, like, manifests and file, but has {' and '.join(ways) or 'none'}",
        )
        return
    allowed = {"type": ("pool", "zone", "capacity_type", "name", "count"), "like": ("name", "count")}
    for name in ("pool", "zone", "capacity_type", "name", "count"):
        if getattr(wish, name) is not None and name not in allowed.get(ways[0], ()):
            written = "capacityType" if name == "capacity_type" else name
            yield f"addNodes.{written}", f"cannot be given beside {ways[0]}: leave it out"
    if wish.count is not None:
        yield from _within("addNodes.count", wish.count, 1, MOST_NODES)


def _wrongly_tainted(wish: TaintDevice) -> Complaints:
    others = [wish.driver, wish.pool, wish.device, wish.key, wish.value, wish.effect]
    if wish.rule is not None:
        if any(each is not None for each in others):
            yield "taintDevice.rule", "is a whole DeviceTaintRule: leave the other fields out, or it"
        return
    if not (wish.driver or wish.pool or wish.device):
        yield "taintDevice", "needs driver, pool or device, or a rule"
    yield from _one_of("taintDevice.effect", wish.effect or "", EFFECTS)


def wrongly_expected(expect: Expect | None, verb: str) -> Complaints:
    """The errors in a step's expectations."""
    if expect is None:
        return
    for name, pods in (("running", expect.running), ("pending", expect.pending)):
        if len(pods) > MOST_EXPECTED:
            yield f"expect.{name}", f"has {len(pods)} names, at most {MOST_EXPECTED} are allowed"
        for index, each in enumerate(pods[:MOST_EXPECTED]):
            if not each or len(each) > LONGEST_NAME or each.count("/") > 1:
                yield (
                    f"expect.{name}[{index}]",
                    "must be a pod's name, or namespace/name; * stands for anything",
                )
    if expect.refused is not None and not verb:
        yield "expect.refused", "refers to the step's verb, but the step has none"
    if expect.counts is not None:
        for name, count in (("running", expect.counts.running), ("pending", expect.counts.pending)):
            if count is not None and count < 0:
                yield f"expect.counts.{name}", "must be zero or more"


def _required(verb: str, wish: Any, *names: str) -> Complaints:
    for name in names:
        if not getattr(wish, name):
            yield f"{verb}.{name}", "is required"


def _one_of(path: str, value: str, allowed: Sequence[str]) -> Complaints:
    if value not in allowed:
        yield (
            path,
            f"{'is required' if not value else f'{value!r} is not known'}: one of {', '.join(allowed)}",
        )


def _within(path: str, value: int | None, least: int, most: int) -> Complaints:
    if value is None:
        yield path, "is required"
    elif not least <= value <= most:
        yield path, f"must be from {least} to {most}, but is {value}"
