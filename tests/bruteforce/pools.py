"""Which pools a node reaches, and in what state they are.

Upstream's visible behaviour: slices bound to the node come first, then the shared ones, each in input order. Within
a pool the highest generation among the slices that matter for the node counts. If those are not as many as the first
of them promises, all slices of the cluster are consulted: a newer generation elsewhere hides the pool, fewer or more
slices than promised make it incomplete. Pools are tried by (driver, name), those with binding conditions last.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.bruteforce.quantity import exact

Json = dict[str, Any]
DeviceID = tuple[str, str, str]


class Fatal(Exception):
    """The allocation ends in an error rather than in a "no"."""


@dataclass(frozen=True)
class Candidate:
    """A device, with the slice that publishes it."""

    id: DeviceID
    device: Json
    slice: Json


@dataclass
class Pool:
    driver: str
    name: str
    incomplete: bool = False
    invalid: bool = False
    devices: list[Candidate] = field(default_factory=list)
    elsewhere: list[Candidate] = field(default_factory=list)  # devices of the pool that other nodes reach
    counters: dict[tuple[str, str], Fraction] = field(default_factory=dict)

    def has_binding_conditions(self) -> bool:
        return any(c.device.get("bindingConditions") is not None for c in self.devices)


def reachable(problem: Json, features: set[str]) -> list[Pool]:
    """The pools of the node in the order in which they are tried."""
    grouped: dict[tuple[str, str], list[Json]] = {}
    for slice_ in _slices_of_node(problem, features):
        spec = slice_["spec"]
        group = grouped.setdefault((spec["driver"], spec["pool"]["name"]), [])
        if group and _generation(slice_) < _generation(group[0]):
            continue
        if group and _generation(slice_) > _generation(group[0]):
            group.clear()
        group.append(slice_)
    pools = [_pool(problem, features, *key, group) for key, group in grouped.items()]
    found = [pool for pool in pools if pool is not None]
    return sorted(found, key=lambda pool: (pool.has_binding_conditions(), pool.driver, pool.name))


def _slices_of_node(problem: Json, features: set[str]) -> list[Json]:
    node = problem["node"]["metadata"]["name"]
    local = [s for s in problem["slices"] if s["spec"].get("nodeName") == node]
    shared = [s for s in problem["slices"] if not s["spec"].get("nodeName")]
    return [s for s in local + shared if not _ignored(s, features) and _matters(s, problem["node"])]


def _ignored(slice_: Json, features: set[str]) -> bool:
    spec = slice_["spec"]
    partitionable = spec.get("perDeviceNodeSelection") is not None or spec.get("sharedCounters")
    if partitionable and "PartitionableDevices" not in features:
        return True
    return "CompatibilityGroups" not in features and _has_groups(slice_)


def _has_groups(slice_: Json) -> bool:
    devices = slice_["spec"].get("devices", [])
    return any(entry.get("compatibilityGroups") for d in devices for entry in d.get("consumesCounters", []))


def _matters(slice_: Json, node: Json) -> bool:
    spec = slice_["spec"]
    if spec.get("nodeName") or spec.get("allNodes") or spec.get("nodeSelector") is not None:
        return reaches(spec, node)
    if spec.get("perDeviceNodeSelection"):
        return any(reaches(device, node) for device in spec.get("devices", []))
    return False


def reaches(where: Json, node: Json) -> bool:
    """Whether a slice, or a device that selects for itself, is for the node."""
    if where.get("nodeName"):
        return bool(where["nodeName"] == node["metadata"]["name"])
    if where.get("allNodes"):
        return True
    if where.get("nodeSelector") is None:
        return False
    terms = [
        t
        for t in where["nodeSelector"].get("nodeSelectorTerms", [])
        if t.get("matchExpressions") or t.get("matchFields")
    ]
    for term in terms:  # a fault anywhere is an error, even where another term matches
        for requirement in term.get("matchExpressions", []):
            _label_matches(requirement, {})
        for requirement in term.get("matchFields", []):
            _field_matches(requirement, "")
    labels, name = node["metadata"].get("labels", {}), node["metadata"]["name"]
    return any(
        all(_label_matches(r, labels) for r in term.get("matchExpressions", []))
        and all(_field_matches(r, name) for r in term.get("matchFields", []))
        for term in terms
    )


def _label_matches(requirement: Json, labels: dict[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In" if values:
            return value in values
        case "NotIn" if values:
            return value not in values
        case "Exists" if not values:
            return value is not None
        case "DoesNotExist" if not values:
            return value is None
        case "Gt" | "Lt" if len(values) == 1 and values[0].lstrip("-").isdigit():
            if value is None or not value.lstrip("-").isdigit():
                return False
            greater = int(value) > int(values[0])
            return greater if requirement["operator"] == "Gt" else int(value) < int(values[0])
    raise Fatal(f"bad node selector requirement {requirement}")


def _field_matches(requirement: Json, name: str) -> bool:
    values = requirement.get("values", [])
    if requirement["operator"] not in ("In", "NotIn") or len(values) != 1:
        raise Fatal(f"bad node selector requirement {requirement}")
    same = values[0] == (name if requirement["key"] == "metadata.name" else "")
    return bool(same == (requirement["operator"] == "In"))


def _pool(problem: Json, features: set[str], driver: str, name: str, group: list[Json]) -> Pool | None:
    promised = group[0]["spec"]["pool"].get("resourceSliceCount", 0)
    pool = Pool(driver, name)
    others: list[Json] = []
    if len(group) != promised:
        everywhere = [
            s
            for s in problem["slices"]
            if s["spec"]["driver"] == driver and s["spec"]["pool"]["name"] == name
        ]
        if any(_generation(s) > _generation(group[0]) for s in everywhere):
            return None
        current = [s for s in everywhere if _generation(s) == _generation(group[0])]
        if "CompatibilityGroups" not in features:
            current = [s for s in current if not _has_groups(s)]
        if len(current) != promised:
            pool.incomplete = True
            return pool
        own = {s["metadata"]["name"] for s in group}
        others = [s for s in current if s["metadata"]["name"] not in own]
    return _built(pool, features, sorted(group, key=lambda s: str(s["metadata"]["name"])), others)


def _built(pool: Pool, features: set[str], group: list[Json], others: list[Json]) -> Pool:
    partitionable = "PartitionableDevices" in features
    counting = [s for s in group + others if partitionable and s["spec"].get("sharedCounters")]
    pool.devices = [c for s in group if s not in counting for c in _candidates(s)]
    if partitionable:
        pool.elsewhere = [c for s in others if s not in counting for c in _candidates(s)]
    names = [c.id for c in pool.devices]
    sets = [counter_set for s in counting for counter_set in s["spec"]["sharedCounters"]]
    pool.counters = {
        (counter_set["name"], counter): exact(amount["value"])
        for counter_set in sets
        for counter, amount in counter_set.get("counters", {}).items()
    }
    known = {counter_set["name"] for counter_set in sets}
    unknown = partitionable and any(
        entry["counterSet"] not in known
        or any((entry["counterSet"], counter) not in pool.counters for counter in entry.get("counters", {}))
        for c in pool.devices + pool.elsewhere
        for entry in c.device.get("consumesCounters", [])
    )
    if len(set(names)) < len(names) or len(known) < len(sets) or unknown:
        return Pool(pool.driver, pool.name, invalid=True)
    return pool


def _candidates(slice_: Json) -> list[Candidate]:
    spec = slice_["spec"]
    return [
        Candidate((spec["driver"], spec["pool"]["name"], device["name"]), device, slice_)
        for device in spec.get("devices", [])
    ]


def _generation(slice_: Json) -> int:
    return int(slice_["spec"]["pool"].get("generation", 0))
