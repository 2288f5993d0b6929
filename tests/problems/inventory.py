"""What there is to hand out: pools, their slices, the devices in them and what is already in use.

All devices draw their attributes from one small vocabulary, so that selectors hit some of them and constraints bring
some together. A pool is made whole first and then, where the mood asks for it, damaged: a slice of another
generation, a wrong slice count, a device name twice, a counter that is not there.
"""

from typing import Any

from tests.problems.dice import Dice

Json = dict[str, Any]

NODE = "node-1"
OTHER_NODE = "node-2"
DRIVERS = ("gpu.example.com", "nic.example.com")
SHARED_DOMAIN = "common.example.com"

MODELS = ("a100", "h100", "l4")
VERSIONS = ("1.0.0", "1.2.0", "2.0.0")
MEMORY = ("10Gi", "20Gi", "40Gi", "80Gi")
GROUPS = ("red", "green", "blue")
TAINT_KEYS = ("maintenance", "example.com/broken")
CONDITIONS = ("example.com/attached", "example.com/ready")


def node(dice: Dice) -> Json:
    labels = {"kubernetes.io/hostname": NODE, "zone": "z1", "tier": "3"}
    declared = ["DRAOptionalNodeOperations"] if dice.accent("node-operations", 0.6, 0.8) else ["Other"]
    return {"metadata": {"name": NODE, "labels": labels}, "status": {"declaredFeatures": declared}}


def slices(dice: Dice, pools: int, devices: int) -> list[Json]:
    """The slices of all pools, in no particular order."""
    drivers = dice.pick([DRIVERS[:1], DRIVERS[:1] * 3 + DRIVERS[1:]])
    shares = [dice.between(0, devices) for _ in range(pools)]
    made = [
        slice_
        for index, share in enumerate(shares)
        for slice_ in _pool(
            dice, dice.pick(drivers), f"pool-{index}", max(1, share * devices // max(1, sum(shares)))
        )
    ]
    return dice.shuffled(made) if dice.chance(0.5) else made


def _pool(dice: Dice, driver: str, name: str, devices: int) -> list[Json]:
    generation = dice.between(1, 3)
    counters = (
        dice.accent("counters", 0.8, 0.08)
        or dice.accent("groups", 0.9, 0.0)
        or dice.accent("capacity", 0.25, 0.0)
    )
    sets = _counter_sets(dice) if counters else []
    placement = _placement(dice)
    count = 1 if devices < 2 or dice.chance(0.6) else 2
    per_device = placement.get("perDeviceNodeSelection", False)
    names = iter(dice.shuffled(range(devices)) if dice.chance(0.3) else range(devices))
    parts: list[Json] = []
    for part in range(count):
        size = devices // count + (part < devices % count)
        spec = {
            **placement,
            "devices": [_device(dice, f"dev-{next(names)}", sets, per_device) for _ in range(size)],
        }
        if dice.accent("node-operations", 0.3, 0.01):
            spec["skipNodeOperations"] = ["NodePrepareResources"]
        parts.append(spec)
        if count > 1 and dice.accent("nodes", 0.4, 0.05):
            placement = _placement(dice)
            per_device = placement.get("perDeviceNodeSelection", False)
    if sets:
        parts.extend(_counter_slices(dice, sets, placement))
    return _published(dice, driver, name, generation, parts)


def _published(dice: Dice, driver: str, name: str, generation: int, parts: list[Json]) -> list[Json]:
    """Gives the parts of a pool their names and generation, and damages the pool now and then."""
    pool = {"name": name, "generation": generation, "resourceSliceCount": len(parts)}
    order = dice.shuffled(range(len(parts))) if dice.chance(0.3) else range(len(parts))
    prefix = f"{driver.split('.')[0]}-{name}"
    published = [
        {"metadata": {"name": f"{prefix}-{number}"}, "spec": {"driver": driver, "pool": dict(pool), **part}}
        for number, part in zip(order, parts, strict=True)
    ]
    if dice.accent("generations", 0.25, 0.015):
        published[0]["spec"]["pool"]["resourceSliceCount"] += dice.pick([-1, 1])
    if dice.accent("generations", 0.4, 0.03):
        published.append(_of_another_generation(dice, published[0], prefix))
    if dice.accent("generations", 0.12, 0.01):
        victim = dice.pick(published)["spec"].get("devices", [])
        victim.extend([{"name": victim[0]["name"]}] if victim else [])
    return published


def _of_another_generation(dice: Dice, like: Json, prefix: str) -> Json:
    pool = {**like["spec"]["pool"], "resourceSliceCount": 1}
    pool["generation"] += dice.pick([-1, -1, 1])
    spec: Json = {
        "driver": like["spec"]["driver"],
        "pool": pool,
        "devices": [_device(dice, "dev-0", [], False)],
    }
    spec |= dice.pick([{"nodeName": NODE}, {"nodeName": OTHER_NODE}, {"allNodes": True}])
    return {"metadata": {"name": f"{prefix}-{dice.pick(['a', 'z'])}"}, "spec": spec}


def _placement(dice: Dice) -> Json:
    """How a slice says which nodes reach its devices."""
    if not dice.accent("nodes", 0.75, 0.05):
        return {"nodeName": NODE}
    match dice.between(0, 9):
        case 0:
            return {"nodeName": OTHER_NODE}
        case 1 | 2:
            return {"allNodes": True}
        case 3 | 4 | 5:
            return {"nodeSelector": node_selector(dice)}
        case 6 | 7 | 8:
            return {"perDeviceNodeSelection": True}
    # A slice that says nothing is ignored, and so is false where selection per device is switched off.
    return dice.pick([{}, {"nodeName": NODE, "perDeviceNodeSelection": False}, {"nodeName": NODE}])


def node_selector(dice: Dice) -> Json:
    if dice.chance(0.04):
        return dice.pick([{"nodeSelectorTerms": []}, {"nodeSelectorTerms": [{}]}])
    terms = [_term(dice)]
    if dice.chance(0.04):
        terms.append(_term(dice))  # not allowed in a slice, so the result cannot name it
    return {"nodeSelectorTerms": terms}


def _term(dice: Dice) -> Json:
    requirements: list[Json] = [
        {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
        {"key": "zone", "operator": "In", "values": ["z2", "z1"]},  # the same requirement as a set
        {"key": "zone", "operator": "NotIn", "values": ["z2"]},
        {"key": "tier", "operator": "Gt", "values": ["2"]},
        {"key": "tier", "operator": "Lt", "values": ["9"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "spot", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "In", "values": ["z2"]},  # these do not match
        {"key": "spot", "operator": "Exists"},
    ]
    matching = requirements if dice.chance(0.3) else requirements[:7]
    term: Json = {"matchExpressions": [dict(dice.pick(matching)) for _ in range(dice.between(1, 2))]}
    if dice.chance(0.03):
        term["matchExpressions"].append({"key": "tier", "operator": "Unheard"})
    if dice.chance(0.15):
        term["matchFields"] = [
            {"key": "metadata.name", "operator": dice.pick(["In", "NotIn"]), "values": [NODE]}
        ]
        if dice.chance(0.3):
            del term["matchExpressions"]
    return term


def _device(dice: Dice, name: str, sets: list[Json], per_device: bool) -> Json:
    device: Json = {"name": name}
    if dice.chance(0.95):
        device["attributes"] = _attributes(dice, name)
    if dice.accent("capacity", 0.95, 0.3):
        device["capacity"] = _capacity(dice)
    if dice.accent("capacity", 0.7, 0.06):
        device["allowMultipleAllocations"] = dice.chance(0.9)
    if sets and dice.chance(0.85):
        device["consumesCounters"] = _consumption(dice, sets)
    if per_device:
        device |= dice.pick(
            [
                {"nodeName": NODE},
                {"nodeName": OTHER_NODE},
                {"allNodes": True},
                {"nodeSelector": node_selector(dice)},
                {},
            ]
        )
    if dice.accent("taints", 0.35, 0.02):
        device["taints"] = [_taint(dice) for _ in range(dice.between(1, 2))]
    if dice.accent("binding", 0.3, 0.02):
        device["bindingConditions"] = dice.some(CONDITIONS, 1)
        device["bindingFailureConditions"] = ["example.com/failed"]
    if dice.accent("binding", 0.3, 0.02):
        device["bindsToNode"] = dice.chance(0.8)
    return device


def _attributes(dice: Dice, name: str) -> Json:
    attributes: Json = {
        "uuid": {"string": f"uuid-{name}-{dice.between(0, 99999)}"},
        "slot": {"int": dice.devices},
    }
    dice.devices += 1
    vocabulary = {
        "model": {"string": dice.pick(MODELS[: dice.between(1, 3)])},
        "numa": {"int": dice.between(0, 2)},
        "healthy": {"bool": dice.chance(0.7)},
        "version": {"version": dice.pick(VERSIONS)},
        f"{SHARED_DOMAIN}/root": {"string": f"pci-{dice.between(0, 2)}"},
    }
    for attribute, value in vocabulary.items():
        if dice.chance(0.93):
            qualified = "/" not in attribute and dice.chance(0.04)
            attributes[f"{DRIVERS[0]}/{attribute}" if qualified else attribute] = value
    if dice.accent("lists", 0.9, 0.1):
        attributes["links"] = _list_value(dice)
    if dice.accent("lists", 0.25, 0.01):
        attributes[dice.pick([name for name in attributes if name != "slot"])] = _list_value(dice)
    if dice.accent("errors", 0.06, 0.0):
        attributes["odd"] = dice.pick([{}, {"version": "1.x"}, {"ints": []}, {"strings": []}])
    if dice.chance(0.02):
        attributes[dice.pick(list(attributes))] = dice.pick([{"string": "0"}, {"bool": True}, {"int": 1}])
    return attributes


def _list_value(dice: Dice) -> Json:
    kind = dice.pick(["ints"] * 9 + ["strings", "bools", "versions"])
    values: dict[str, list[Any]] = {
        "ints": [0, 1, 2, 3],
        "strings": list(MODELS),
        "bools": [True, False],
        "versions": list(VERSIONS),
    }
    return {kind: dice.shuffled(values[kind])[: dice.pick([1, 2, 2, 2, 3])]}


def _capacity(dice: Dice) -> Json:
    capacity: Json = {"memory": {"value": dice.pick(MEMORY)}}
    if dice.accent("capacity", 0.8, 0.05):
        capacity["memory"]["requestPolicy"] = _memory_policy(dice)
    if dice.accent("capacity", 0.8, 0.05):
        capacity["lanes"] = {"value": dice.pick(["1", "2", "4", "2500m", "0"])}
        if dice.chance(0.6):
            capacity["lanes"]["requestPolicy"] = _lanes_policy(dice)
    return capacity


def _memory_policy(dice: Dice) -> Json:
    default = dice.pick(["1Gi", "5Gi", "10Gi"])
    match dice.between(0, 4):
        case 0:
            return {"default": default}
        case 1:
            return {"default": default, "validValues": dice.pick([["1Gi", "5Gi", "10Gi"], ["2Gi", "5Gi"]])}
        case 2:
            return {"default": default, "validRange": {"min": "1Gi"}}
        case 3:
            return {"default": default, "validRange": {"min": "1Gi", "max": dice.pick(["3Gi", "8Gi"])}}
    step = dice.pick(["1Gi", "2Gi", "3Gi", "512Mi"])
    return {"default": "1Gi", "validRange": {"min": "1Gi", "max": dice.pick(["5Gi", "10Gi"]), "step": step}}


def _lanes_policy(dice: Dice) -> Json:
    match dice.between(0, 4):
        case 0:
            return {"default": "1", "validValues": ["500m", "1", "2"]}
        case 1:
            return {"default": "0", "validRange": {"min": "0", "step": "1"}}
        case 2:
            return {"default": "500m", "validRange": {"min": "500m", "max": "2", "step": "250m"}}
        case 3:
            return {"default": "200m", "validRange": {"min": "200m", "step": "300m"}}
    return {
        "default": dice.pick(["3", "1"]),
        "validRange": {"min": "1", "max": "2"},
    }  # 3 breaks its own policy


def _counter_sets(dice: Dice) -> list[Json]:
    return [
        {
            "name": f"set-{index}",
            "counters": {
                "slots": {"value": str(dice.between(2, 8))},
                **({"memory": {"value": dice.pick(MEMORY)}} if dice.chance(0.5) else {}),
            },
        }
        for index in range(dice.between(1, 2))
    ]


def _counter_slices(dice: Dice, sets: list[Json], placement: Json) -> list[Json]:
    if placement.get("perDeviceNodeSelection"):
        placement = dice.pick([placement, {"allNodes": True}])
    if dice.accent("generations", 0.1, 0.01):
        sets = [*sets, dice.pick(sets)]  # a set twice makes the pool invalid
    if len(sets) > 1 and dice.chance(0.4):
        return [{**placement, "sharedCounters": [counters]} for counters in sets]
    return [{**placement, "sharedCounters": sets}]


def _consumption(dice: Dice, sets: list[Json]) -> list[Json]:
    consumption = []
    for counters in dice.some(sets, 1):
        light = "groups" in dice.accents  # so that groups, not counters, decide
        used = {"slots": {"value": str(dice.pick([0, 0, 1] if light else [0, 1, 1, 2, 2, 3, 4]))}}
        if "memory" in counters["counters"] and dice.chance(0.7):
            used["memory"] = {"value": dice.pick(["5Gi", "10Gi", "20Gi"])}
        entry: Json = {"counterSet": counters["name"], "counters": used}
        if dice.accent("groups", 0.75, 0.0):
            entry["compatibilityGroups"] = dice.shuffled(GROUPS)[: dice.between(1, 2)]
        consumption.append(entry)
    if dice.accent("generations", 0.03, 0.002):
        consumption[0]["counters"]["unknown"] = {"value": "1"}
    return consumption


def _taint(dice: Dice) -> Json:
    return {
        "key": dice.pick(TAINT_KEYS),
        **({"value": dice.pick(["soon", "now"])} if dice.chance(0.7) else {}),
        "effect": dice.pick(["NoSchedule", "NoSchedule", "NoExecute", "None"]),
    }


def in_use(dice: Dice, published: list[Json]) -> Json:
    """What other claims hold: whole devices, shares, and some that are in no slice any more."""
    devices: list[Json] = []
    shares: list[Json] = []
    consumed: list[Json] = []
    for slice_ in published:
        spec = slice_["spec"]
        for device in spec.get("devices", []):
            if not dice.accent("in-use", 0.4, 0.04):
                continue
            identity = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if dice.chance(0.05 if device.get("allowMultipleAllocations") else 0.95):
                devices.append(identity)
                continue
            if dice.chance(0.9):
                shares.append({**identity, "shareID": f"00000000-0000-0000-0000-{len(shares):012}"})
            if dice.chance(0.9):
                consumed.append({**identity, "consumedCapacity": _consumed(dice, device)})
    if dice.chance(0.05):
        devices.append({"driver": DRIVERS[0], "pool": "gone", "device": "dev-0"})
    return {
        "allocatedDevices": devices,
        "allocatedSharedDeviceIDs": shares,
        "allocatedCapacityDevices": consumed,
    }


def _consumed(dice: Dice, device: Json) -> Json:
    amounts = {"memory": ["1Gi", "5Gi", "10Gi", "30Gi"], "lanes": ["1", "500m", "2"]}
    return {name: dice.pick(amounts[name]) for name in device.get("capacity", {}) if dice.chance(0.9)}
