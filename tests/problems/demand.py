"""What is asked for: device classes and the claims that name them."""

from typing import Any

from tests.problems.dice import Dice
from tests.problems.inventory import CONDITIONS, DRIVERS, MODELS, SHARED_DOMAIN, TAINT_KEYS, VERSIONS

Json = dict[str, Any]

CLASSES = ("any", "gpu", "picky")
ATTRIBUTES = (
    f"{DRIVERS[0]}/model",
    f"{DRIVERS[0]}/numa",
    f"{DRIVERS[0]}/healthy",
    f"{DRIVERS[0]}/version",
    f"{SHARED_DOMAIN}/root",
    f"{SHARED_DOMAIN}/root",
)


def classes(dice: Dice) -> list[Json]:
    made: list[Json] = [
        {"metadata": {"name": "any"}, "spec": {}},
        {"metadata": {"name": "gpu"}, "spec": _selectors([f'device.driver == "{DRIVERS[0]}"'])},
        {
            "metadata": {"name": "picky"},
            "spec": _selectors([selector(dice) for _ in range(dice.between(1, 2))]),
        },
    ]
    for class_ in made:
        if dice.accent("configs", 0.6, 0.05):
            class_["spec"]["config"] = [
                _config(f"class-{class_['metadata']['name']}-{n}") for n in range(dice.between(1, 2))
            ]
    return made


def _selectors(expressions: list[str]) -> Json:
    return {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}


def selector(dice: Dice) -> str:
    """A device selector; in a problem about errors, often one that fails on some devices or does not compile."""
    driver = dice.pick(DRIVERS) if dice.chance(0.15) else DRIVERS[0]
    mine = f'device.attributes["{driver}"]'
    model, other = dice.pick(MODELS), dice.pick(MODELS)
    if dice.accent("errors", 0.35, 0.03):
        return dice.pick(
            [
                f'{mine}.missing == "x"',
                f'{mine}.model == "{model}"',  # an error where the model is absent
                f"{mine}.numa < 2",
                f"{mine}.model",  # not a bool
                f"device.capacity['{driver}'].lanes.isGreaterThan(quantity('1'))",
                f"{mine}.links.exists(link, link == 1)",
                f"quantity({mine}.model).isInteger()",
                *(["device.nonsense == 1", "1 + 1", "device.driver =="] if dice.chance(0.2) else []),
            ]
        )
    memory = dice.pick(["10Gi", "20Gi", "40Gi"])
    return dice.pick(
        [
            "true",
            f'device.driver == "{DRIVERS[0]}"',
            f'device.driver != "{DRIVERS[1]}"',
            f'{mine}.?model.orValue("none") == "{model}"',
            f'"model" in {mine} && {mine}.model in ["{model}", "{other}"]',
            f'"model" in {mine} && {mine}.model != "{model}"',
            f"{mine}.?numa.orValue(0) <= {dice.between(0, 2)}",
            f"has({mine}.healthy) && {mine}.healthy",
            f"{mine}.?healthy.orValue(false) || {mine}.?numa.orValue(9) == {dice.between(0, 2)}",
            f'has({mine}.version) && {mine}.version.compareTo(semver("{dice.pick(VERSIONS)}")) >= 0',
            f'"memory" in device.capacity["{driver}"] && device.capacity["{driver}"].memory.compareTo(quantity("{memory}")) >= 0',
            f'"links" in {mine} && {mine}.links.size() > 1',
            "!device.allowMultipleAllocations",
            f'device.attributes["{SHARED_DOMAIN}"].?root.orValue("").startsWith("pci-")',
            f'device.attributes["{SHARED_DOMAIN}"].?root.orValue("") != "pci-{dice.between(0, 2)}"',
            'has(device.attributes.nobody) && !("nobody" in device.attributes)',
        ]
    )


def _one_of_few(dice: Dice) -> str:
    slots = sorted(dice.rng.sample(range(dice.devices), min(dice.devices, dice.pick([1, 2, 2, 3, 4]))))
    tests = [f'device.attributes["{driver}"].?slot.orValue(-1) in {slots}' for driver in DRIVERS]
    return " || ".join(tests)


def claims(dice: Dice, most: int, requests: int, devices: int) -> list[Json]:
    count = 1 if dice.chance(0.65) else dice.between(1, most)
    return [_claim(dice, index, max(1, requests // count), devices) for index in range(count)]


def _claim(dice: Dice, index: int, most: int, devices: int) -> Json:
    requests = [_request(dice, f"req-{number}", devices) for number in range(_how_many(dice, most))]
    names = [request["name"] for request in requests]
    names += [f"{r['name']}/{sub['name']}" for r in requests for sub in r.get("firstAvailable", [])]
    demand: Json = {"requests": requests}
    constraints = _constraints(dice, names)
    if constraints:
        demand["constraints"] = constraints
    if dice.accent("configs", 0.7, 0.05):
        demand["config"] = [_config(f"claim-{n}", dice, names) for n in range(dice.between(1, 3))]
    return {"metadata": {"name": f"claim-{index}", "namespace": "default"}, "spec": {"devices": demand}}


def _how_many(dice: Dice, most: int) -> int:
    return most if "puzzle" in dice.accents else min(dice.between(1, most), dice.between(1, most))


def _request(dice: Dice, name: str, devices: int) -> Json:
    if dice.accent("alternatives", 0.6, 0.06):
        subrequests = [{"name": f"sub-{n}", **_ask(dice, devices)} for n in range(dice.between(1, 3))]
        return {"name": name, "firstAvailable": subrequests}
    exactly = _ask(dice, devices)
    if dice.accent("admin", 0.5, 0.02):
        exactly["adminAccess"] = dice.chance(0.9)
    return {"name": name, "exactly": exactly}


def _ask(dice: Dice, devices: int) -> Json:
    """The part that requests and subrequests share."""
    ask: Json = {"deviceClassName": dice.pick(["any"] * 5 + ["gpu"] * 4 + ["picky"])}
    if dice.chance(0.003):
        ask["deviceClassName"] = dice.pick(["unknown", ""])
    if dice.accent("all", 0.5, 0.03):
        ask["allocationMode"] = "All"
    else:
        ask["allocationMode"] = "ExactCount"
        ask["count"] = _count(dice, devices)
    if dice.accent("selectors", 0.8, 0.12) or dice.accent("errors", 0.4, 0.0):
        ask |= _selectors([selector(dice) for _ in range(1 if dice.chance(0.8) else 2)])
    if dice.chance(0.002):
        ask["selectors"] = [{}]
    if dice.accent("puzzle", 0.9, 0.0):
        ask |= _selectors([_one_of_few(dice)])
    if dice.accent("taints", 0.6, 0.04):
        ask["tolerations"] = [_toleration(dice) for _ in range(dice.between(1, 2))]
    if dice.accent("capacity", 0.75, 0.02):
        ask["capacity"] = {"requests": _amounts(dice)}
    if dice.accent("derived", 0.7, 0.02):
        ask["derivedAttributes"] = [
            _derived(dice, attribute) for attribute in dice.some(ATTRIBUTES[:3], 1)[:2]
        ]
    return ask


def _count(dice: Dice, devices: int) -> int:
    if dice.chance(0.01):
        return dice.pick([0, 33, 40])
    if dice.accent("limits", 0.3, 0.0):
        return dice.between(1, devices)
    few = [1] * 7 if dice.accents.isdisjoint({"groups", "lists"}) else [1, 2]
    return dice.pick([*few, 2, 2, min(3, devices)])


def _toleration(dice: Dice) -> Json:
    toleration: Json = {}
    if dice.chance(0.8):
        toleration["key"] = dice.pick(TAINT_KEYS)
    if dice.chance(0.5):
        toleration["operator"] = "Exists"
    else:
        toleration |= {"operator": "Equal", "value": dice.pick(["soon", "now"])}
        if dice.chance(0.2):
            del toleration["operator"]
    if dice.chance(0.4):
        toleration["effect"] = dice.pick(["NoSchedule", "NoExecute"])
    return toleration


def _amounts(dice: Dice) -> Json:
    amounts: Json = {}
    if dice.chance(0.8):
        amounts["memory"] = dice.pick(
            ["0", "512Mi", "1Gi", "1536Mi", "2Gi", "4Gi", "5Gi", "6Gi", "9Gi", "12Gi"]
        )
    if dice.chance(0.5):
        amounts["lanes"] = dice.pick(["1", "2", "300m", "500m", "600m", "750m", "1100m", "0"])
    if dice.accent("errors", 0.1, 0.01):
        amounts["memory"] = dice.pick(["-1", "9223372036854775807", "10E", "1e30", "100m"])
    if dice.chance(0.02):
        amounts["unknown"] = "1"
    return amounts


def _derived(dice: Dice, name: str) -> Json:
    mine = f'device.attributes["{DRIVERS[0]}"]'
    sound = [
        f"{mine}.?numa.orValue(0) / 2",
        f'{mine}.?model.orValue("none") + "x"',
        f'{mine}.?model.orValue("none").startsWith("a")',
        f'{mine}.?numa.orValue(0) > 0 ? "far" : "near"',
        f"[{mine}.?numa.orValue(0), 7]",
        f'semver("{dice.pick(VERSIONS)}")',
        "device.driver",
    ]
    faulty = [
        f"{mine}.missing",
        f"{mine}.model",
        "device.capacity",
        "1.5",
        "nonsense",
        f"[{mine}.numa, {mine}.model]",
    ]
    return {"name": name, "expression": dice.pick(faulty if dice.accent("errors", 0.3, 0.05) else sound)}


def _constraints(dice: Dice, names: list[str]) -> list[Json]:
    constraints: list[Json] = []
    lists = [f"{DRIVERS[0]}/links"] * 12 if "lists" in dice.accents else []
    attributes = [*ATTRIBUTES, *lists]
    if dice.accent("derived", 0.7, 0.0):
        attributes = list(ATTRIBUTES[:3])
    often = [accent for accent in ("derived", "lists", "alternatives") if dice.accent(accent, 0.5, 0.0)]
    if dice.accent("match", 0.75, 0.06) or often:
        constraints.append({"matchAttribute": dice.pick(attributes)})
    if dice.accent("distinct", 0.75, 0.05) or dice.accent("lists", 0.35, 0.0):
        constraints.append({"distinctAttribute": dice.pick([*attributes, f"{DRIVERS[0]}/uuid"])})
    if constraints and dice.chance(0.2):
        constraints.append({"matchAttribute": dice.pick(attributes)})
    if dice.chance(0.003):
        constraints.append({})
    for constraint in constraints:
        if dice.chance(0.01):
            constraint.update(
                dict.fromkeys(constraint, "model")
            )  # a bare name, which only bare attributes have
        if dice.chance(0.4):
            constraint["requests"] = dice.shuffled(names)[: dice.between(1, 3)]
    return constraints


def _config(name: str, dice: Dice | None = None, requests: list[str] | None = None) -> Json:
    config: Json = {
        "opaque": {"driver": DRIVERS[0], "parameters": {"name": name, "conditions": len(CONDITIONS)}}
    }
    if dice and requests and dice.chance(0.7):
        config["requests"] = dice.some(requests, 1)
    return config
