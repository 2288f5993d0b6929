"""Claims and templates: one row per rule."""

from typing import Any

import pytest

from allotment.api.codec import decode, to_builtins
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.api.validation import (
    validate,
    validate_claim,
    validate_claim_update,
    validate_template,
    validate_template_update,
)
from tests.api.validation.builders import alternatives, check, claim, opaque, request, shown, sub

DEVICES = "spec.devices"
REQUEST = f"{DEVICES}.requests[0]"
EXACTLY = f"{REQUEST}.exactly"


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def derived(*entries: Any, **constraint: Any) -> ResourceClaim:
    """A claim whose request has derived attributes and one constraint on ``a.example.com/numa``."""
    match = {"matchAttribute": "a.example.com/numa"} | constraint
    return claim(request(derivedAttributes=list(entries)), constraints=[match])


NUMA = {"name": "a.example.com/numa", "expression": "1"}

SOUND = {
    "nothing": decode(ResourceClaim, {"metadata": {"name": "c"}}),
    "a device": claim(),
    "all devices": claim(request(allocationMode="All")),
    "three devices": claim(request(allocationMode="ExactCount", count=3)),
    "alternatives": claim(alternatives(sub("a"), sub("b", count=2))),
    "constraint on an alternative": claim(
        alternatives(sub("a"), sub("b")),
        constraints=[{"requests": ["r0/a"], "matchAttribute": "a.example.com/x"}],
    ),
    "constraint on all": claim(constraints=[{"distinctAttribute": "a.example.com/x"}]),
    "configuration": claim(config=[{"requests": ["r0"], **opaque()}]),
    "tolerates everything": claim(request(tolerations=[{"operator": "Exists"}])),
    "operator left out": claim(request(tolerations=[{"key": "a", "value": "b", "effect": "NoExecute"}])),
    "capacity": claim(request(capacity={"requests": {"memory": "1Gi", "no-identifier": "1"}})),
    "derived": derived(NUMA),
    "derived for an alternative": claim(
        alternatives(sub("a", derivedAttributes=[NUMA])),
        constraints=[{"requests": ["r0"], "matchAttribute": "a.example.com/numa"}],
    ),
    "no namespace yet": claim(metadata={"namespace": ""}),
}


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND.keys())
def test_sound(given: ResourceClaim) -> None:
    assert shown(validate(given, check=check)) == []


def test_the_message_of_a_count() -> None:
    (error,) = validate_claim(claim(request(count=0)), check=check)
    assert str(error) == "spec.devices.requests[0].exactly.count: must be greater than zero"


BROKEN: dict[str, tuple[ResourceClaim, list[str]]] = {
    "namespace": (claim(metadata={"namespace": "a.b"}), ["metadata.namespace: invalid"]),
    "33 requests": (claim(*[request(f"r{n}") for n in range(33)]), [f"{DEVICES}.requests: too_many"]),
    "request twice": (claim(request(), request()), [f"{DEVICES}.requests[1]: duplicate"]),
    "request without name": (claim(request("")), [f"{REQUEST}.name: invalid"]),
    "request name": (claim(request("A")), [f"{REQUEST}.name: invalid"]),
    "empty request": (claim({"name": "r0"}), [f"{REQUEST}: required"]),
    "request of both kinds": (claim({**request(), "firstAvailable": [sub()]}), [f"{REQUEST}: required"]),
    "no class": (claim(request(deviceClassName=None)), [f"{EXACTLY}.deviceClassName: required"]),
    "class name": (claim(request(deviceClassName="A")), [f"{EXACTLY}.deviceClassName: invalid"]),
    "nine alternatives": (
        claim(alternatives(*[sub(f"s{n}") for n in range(9)])),
        [f"{REQUEST}.firstAvailable: too_many"],
    ),
    "alternative twice": (
        claim(alternatives(sub(), sub())),
        [f"{REQUEST}.firstAvailable[1]: duplicate"],
    ),
    "alternative without class": (
        claim(alternatives(sub(deviceClassName=None))),
        [f"{REQUEST}.firstAvailable[0].deviceClassName: required"],
    ),
    "alternative with negative count": (
        claim(alternatives(sub(count=-1))),
        [f"{REQUEST}.firstAvailable[0].count: invalid"],
    ),
    "count of zero": (claim(request(count=0)), [f"{EXACTLY}.count: invalid"]),
    "all with a count": (claim(request(allocationMode="All", count=1)), [f"{EXACTLY}.count: invalid"]),
    "unknown mode": (
        claim(request(allocationMode="Some")),
        [f"{EXACTLY}.allocationMode: not_supported"],
    ),
    "33 selectors": (claim(request(selectors=[cel("true")] * 33)), [f"{EXACTLY}.selectors: too_many"]),
    "selector of no kind": (claim(request(selectors=[{}])), [f"{EXACTLY}.selectors[0].cel: required"]),
    "no expression": (
        claim(request(selectors=[cel("")])),
        [f"{EXACTLY}.selectors[0].cel.expression: invalid"],
    ),
    "expression that does not compile": (
        claim(request(selectors=[cel("broken")])),
        [f"{EXACTLY}.selectors[0].cel.expression: invalid"],
    ),
    "expression too long": (
        claim(request(selectors=[cel("x" * 10241)])),
        [f"{EXACTLY}.selectors[0].cel.expression: too_long"],
    ),
    "expression too costly": (
        claim(request(selectors=[cel("costly")])),
        [f"{EXACTLY}.selectors[0].cel.expression: forbidden"],
    ),
    "17 tolerations": (
        claim(request(tolerations=[{"operator": "Exists"}] * 17)),
        [],
    ),  # taints are limited, they are not
    "toleration operator": (
        claim(request(tolerations=[{"operator": "Like"}])),
        [f"{EXACTLY}.tolerations[0].operator: not_supported"],
    ),
    "Exists with a value": (
        claim(request(tolerations=[{"operator": "Exists", "value": "a"}])),
        [f"{EXACTLY}.tolerations[0].value: invalid"],
    ),
    "toleration key, value and effect": (
        claim(request(tolerations=[{"key": "a b", "value": "c d", "effect": "Never"}])),
        [
            f"{EXACTLY}.tolerations[0].key: invalid",
            f"{EXACTLY}.tolerations[0].value: invalid",
            f"{EXACTLY}.tolerations[0].effect: not_supported",
        ],
    ),
    "33 derived attributes": (
        derived(*[NUMA] * 33),
        [
            f"{EXACTLY}.derivedAttributes: too_many",
            *[f"{EXACTLY}.derivedAttributes[{n}]: duplicate" for n in range(1, 33)],
        ],
    ),
    "derived attribute twice": (derived(NUMA, NUMA), [f"{EXACTLY}.derivedAttributes[1]: duplicate"]),
    "derived attribute without domain": (
        derived(NUMA | {"name": "numa"}),  # no constraint can use it either
        [f"{EXACTLY}.derivedAttributes[0].name: invalid"] * 2,
    ),
    "derived attribute without name or expression": (
        derived({}),
        [
            f"{EXACTLY}.derivedAttributes[0].name: required",
            f"{EXACTLY}.derivedAttributes[0].expression: required",
        ],
    ),
    "derived attribute that nothing uses": (
        derived(NUMA, matchAttribute="a.example.com/other"),
        [f"{EXACTLY}.derivedAttributes[0].name: invalid"],
    ),
    "derived attribute of another request": (
        claim(
            request(derivedAttributes=[NUMA]),
            request("r1"),
            constraints=[{"requests": ["r1"], "matchAttribute": "a.example.com/numa"}],
        ),
        [f"{EXACTLY}.derivedAttributes[0].name: invalid"],
    ),
    "derived attribute that does not compile": (
        derived(NUMA | {"expression": "broken"}),
        [f"{EXACTLY}.derivedAttributes[0].expression: invalid"],
    ),
    "derived attributes too costly together": (
        claim(
            request(derivedAttributes=[NUMA | {"expression": "dear"}]),
            request("r1", derivedAttributes=[NUMA | {"expression": "dear"}]),
            constraints=[{"matchAttribute": "a.example.com/numa"}],
        ),
        [f"{DEVICES}: forbidden"],
    ),
    "33 constraints": (
        claim(constraints=[{"matchAttribute": "a.example.com/x"}] * 33),
        [f"{DEVICES}.constraints: too_many"],
    ),
    "constraint without attribute": (claim(constraints=[{}]), [f"{DEVICES}.constraints[0]: required"]),
    "constraint with two attributes": (
        claim(constraints=[{"matchAttribute": "a.b/x", "distinctAttribute": "a.b/x"}]),
        [f"{DEVICES}.constraints[0]: required"],
    ),
    "constraint attribute without domain": (
        claim(constraints=[{"matchAttribute": "model"}]),
        [f"{DEVICES}.constraints[0].matchAttribute: invalid"],
    ),
    "constraint on an unknown request": (
        claim(constraints=[{"requests": ["r1"], "matchAttribute": "a.b/x"}]),
        [f"{DEVICES}.constraints[0].requests[0]: invalid"],
    ),
    "constraint on an unknown alternative": (
        claim(alternatives(sub()), constraints=[{"requests": ["r0/s1"], "matchAttribute": "a.b/x"}]),
        [f"{DEVICES}.constraints[0].requests[0]: invalid"],
    ),
    "constraint on a request twice": (
        claim(constraints=[{"requests": ["r0", "r0"], "distinctAttribute": "a.b/x"}]),
        [f"{DEVICES}.constraints[0].requests[1]: duplicate"],
    ),
    "33 configurations": (claim(config=[opaque()] * 33), [f"{DEVICES}.config: too_many"]),
    "empty configuration": (claim(config=[{}]), [f"{DEVICES}.config[0].opaque: required"]),
    "configuration for an unknown request": (
        claim(config=[{"requests": ["x"], **opaque()}]),
        [f"{DEVICES}.config[0].requests[0]: invalid"],
    ),
    "configuration without driver and parameters": (
        claim(config=[opaque(driver=None, parameters=None)]),
        [f"{DEVICES}.config[0].opaque.driver: required", f"{DEVICES}.config[0].opaque.parameters: required"],
    ),
    "parameters that are no object": (
        claim(config=[opaque(parameters=[1])]),
        [f"{DEVICES}.config[0].opaque.parameters: invalid"],
    ),
    "parameters too long": (
        claim(config=[opaque(parameters={"a": "x" * 10240})]),
        [f"{DEVICES}.config[0].opaque.parameters: too_long"],
    ),
}


@pytest.mark.parametrize(("given", "errors"), BROKEN.values(), ids=BROKEN.keys())
def test_broken(given: ResourceClaim, errors: list[str]) -> None:
    assert shown(validate_claim(given, check=check)) == errors


def template(made: ResourceClaim, **fields: Any) -> ResourceClaimTemplate:
    """The template that the claim is made of."""
    spec = {**fields, "spec": to_builtins(made)["spec"]}
    return decode(ResourceClaimTemplate, {"metadata": {"name": "t"}, "spec": spec})


def test_a_template_is_checked_like_its_claims() -> None:
    assert validate_template(template(claim()), check=check) == []
    broken = template(claim(request(count=-1)), metadata={"labels": {"a b": "c"}})
    assert shown(validate_template(broken, check=check)) == [
        "spec.metadata.labels: invalid",
        "spec.spec.devices.requests[0].exactly.count: invalid",
    ]


def test_specs_do_not_change() -> None:
    old, new = claim(), claim(request(count=2))
    assert validate_claim_update(claim(metadata={"labels": {"a": "b"}}), old) == []
    assert shown(validate_claim_update(new, old)) == ["spec: invalid"]
    assert validate_template_update(template(old), template(old)) == []
    assert shown(validate_template_update(template(new), template(old))) == ["spec: invalid"]
