"""Overlays: one row per rule."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.autoscaling import NodeOverlay
from allotment.api.codec import decode
from allotment.api.validation import validate_node_overlay

GPU = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
TEMPLATES = "spec.dynamicResources.resourceSliceTemplates"
SPEC = f"{TEMPLATES}[0].spec"
DEVICE = f"{SPEC}.devices[0]"
BINDING = "spec.dynamicResources.attributeBindings[0]"


def overlay(**spec: Any) -> NodeOverlay:
    return decode(NodeOverlay, {"metadata": {"name": "o"}, "spec": spec})


def template(name: str = "t", *devices: Any, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"driver": GPU, "devices": list(devices) or [{"name": "gpu-0"}], **spec},
    }


def slices(*templates: Any, bindings: Any = ()) -> NodeOverlay:
    return overlay(
        dynamicResources={"resourceSliceTemplates": list(templates), "attributeBindings": list(bindings)}
    )


def of(**device: Any) -> NodeOverlay:
    return slices(template("t", {"name": "gpu-0", **device}))


def spec(**fields: Any) -> NodeOverlay:
    return slices(template(**fields))


def selector(*terms: Any) -> NodeOverlay:
    return spec(nodeSelector={"nodeSelectorTerms": list(terms)})


def bound(*devices: Any, attributes: Any = (ROOT,), template_name: str = "t", **device: Any) -> NodeOverlay:
    made = template("t", {"name": "a", **device}, {"name": "b"})
    names = [{"resourceSliceTemplate": template_name, "device": name} for name in devices]
    return slices(made, bindings=[{"attributes": list(attributes), "deviceSelectors": names}])


def required(**test: Any) -> NodeOverlay:
    return overlay(requirements=[{"key": "zone", "operator": "In", "values": ["a"]} | test])


def counters(consumed: str = "set", counter: str = "m", **fields: Any) -> NodeOverlay:
    sets = {"sharedCounters": [{"name": "set", "counters": {"m": {"value": "8"}}}], "devices": []}
    uses = [{"counterSet": consumed, "counters": {counter: {"value": "1"}}}]
    return slices(
        template("sets", **{**sets, **fields}), template("t", {"name": "a", "consumesCounters": uses})
    )


VALUES = {f"a{number}": {"string": "x"} for number in range(30)}

SOUND = {
    "nothing said": overlay(),
    "all operators": overlay(
        requirements=[
            {"key": "zone", "operator": "In", "values": ["a"]},
            {"key": "zone", "operator": "NotIn", "values": ["b", ""]},
            {"key": "zone", "operator": "Exists"},
            {"key": "example.com/other", "operator": "DoesNotExist"},
            *(
                {"key": "example.com/n", "operator": name, "values": ["8"]}
                for name in ("Gt", "Lt", "Gte", "Lte")
            ),
        ]
    ),
    "the least weight": overlay(weight=1),
    "the greatest weight": overlay(weight=10_000),
    "a price": overlay(price="0.5"),
    **{
        f"price {change}": overlay(priceAdjustment=change)
        for change in ("+10%", "-0.1", "-100%", "+.5", "+200%")
    },
    "an extended resource": overlay(capacity={"example.com/fuse": "2"}),
    "a device": of(),
    "everything a device may have": of(
        attributes={"model": {"string": "x"}, ROOT: {"bindingKey": "k"}, "v": {"version": "1.0.0"}},
        capacity={"memory": {"value": "80Gi"}},
        allowMultipleAllocations=True,
        taints=[{"key": "a", "effect": "NoExecute"}],
    ),
    "counters in a template of their own": counters(),
    "all nodes": spec(allNodes=True),
    "labels of the host": selector({"matchLabelKeys": ["topology.kubernetes.io/zone"]}),
    "labels of the host, and others": selector(
        {"matchLabelKeys": ["zone"], "matchExpressions": [{"key": "os", "operator": "Exists"}]}
    ),
    "two devices bound": bound("a", "b"),
    "bound both ways": bound("a", "b", attributes={ROOT: {"bindingKey": "k"}}),
    "128 devices": slices(template("t", *({"name": f"d{number}"} for number in range(128)))),
    "32 attributes and capacities": of(
        attributes=VALUES | {ROOT: {"bindingKey": "k"}}, capacity={"memory": {"value": "1"}}
    ),
    "templates without names": slices(
        {"spec": {"driver": GPU, "devices": [{"name": "a"}]}},
        {"spec": {"driver": GPU, "devices": [{"name": "b"}]}},
    ),
}


@pytest.mark.parametrize("made", SOUND.values(), ids=SOUND)
def test_sound(made: NodeOverlay) -> None:
    assert [str(error) for error in validate_node_overlay(made)] == []


UNSOUND = {
    "no name": (decode(NodeOverlay, {}), "metadata.name", "is required"),
    "an unknown operator": (required(operator="Is"), "spec.requirements[0].operator", "Gte"),
    "In nothing": (required(values=[]), "spec.requirements[0].values", "is required for operator In"),
    "Exists with a value": (required(operator="Exists"), "spec.requirements[0].values", "must be empty"),
    "more than a word": (
        required(operator="Gt"),
        "spec.requirements[0].values",
        "single whole number, 0 or more",
    ),
    "more than a negative number": (
        required(operator="Gte", values=["-1"]),
        "spec.requirements[0].values",
        "0 or more",
    ),
    "more than two numbers": (
        required(operator="Lt", values=["1", "2"]),
        "spec.requirements[0].values",
        "single",
    ),
    "no label": (required(key="a b"), "spec.requirements[0].key", "a b"),
    "no value of a label": (required(values=["a b"]), "spec.requirements[0].values[0]", "a b"),
    "101 requirements": (
        overlay(requirements=[{"key": "a", "operator": "Exists"}] * 101),
        "spec.requirements",
        "has 101",
    ),
    "no weight": (overlay(weight=0), "spec.weight", "1 to 10000"),
    "too much weight": (overlay(weight=10_001), "spec.weight", "1 to 10000"),
    "two prices": (overlay(price="1", priceAdjustment="+1"), "spec", "one of price and priceAdjustment"),
    "a negative price": (overlay(price="-1"), "spec.price", "amount per hour"),
    "a long price": (overlay(price="1" * 1000), "spec.price", "amount per hour"),
    **{
        f"adjusted by {change or 'nothing'}": (
            overlay(priceAdjustment=change),
            "spec.priceAdjustment",
            "signed amount or percentage",
        )
        for change in ("0.5", "10%", "-101%", "", "+", "+1e3")
    },
    **{
        f"capacity {name}": (overlay(capacity={name: "1"}), f"spec.capacity[{name}]", "instance type")
        for name in ("cpu", "memory", "ephemeral-storage", "pods")
    },
    "half of an extended resource": (
        overlay(capacity={"example.com/fuse": "500m"}),
        "spec.capacity[example.com/fuse]",
        "whole number",
    ),
    "no template": (slices(), TEMPLATES, "at least one slice"),
    "no driver": (spec(driver=""), f"{SPEC}.driver", "is required"),
    "the name of a node": (spec(nodeName="n"), f"{SPEC}.nodeName", "does not exist yet"),
    "a pool": (spec(pool={"name": "p"}), f"{SPEC}.pool", "no plan depends on them"),
    "nodes by device": (
        spec(perDeviceNodeSelection=True),
        f"{SPEC}.perDeviceNodeSelection",
        "one template for each set of nodes",
    ),
    "both selector and all nodes": (
        spec(allNodes=True, nodeSelector={"nodeSelectorTerms": [{"matchLabelKeys": ["a"]}]}),
        SPEC,
        "not both",
    ),
    "not all nodes": (spec(allNodes=False), f"{SPEC}.allNodes", "left out or true"),
    "no term": (selector(), f"{SPEC}.nodeSelector.nodeSelectorTerms", "exactly one"),
    "two terms": (
        selector({"matchLabelKeys": ["a"]}, {"matchLabelKeys": ["b"]}),
        f"{SPEC}.nodeSelector.nodeSelectorTerms",
        "exactly one",
    ),
    "an empty term": (selector({}), f"{SPEC}.nodeSelector.nodeSelectorTerms[0]", "matches no node"),
    "a label key twice": (
        selector({"matchLabelKeys": ["a", "a"]}),
        f"{SPEC}.nodeSelector.nodeSelectorTerms[0].matchLabelKeys[1]",
        "there already",
    ),
    "no label key": (
        selector({"matchLabelKeys": ["a b"]}),
        f"{SPEC}.nodeSelector.nodeSelectorTerms[0].matchLabelKeys[0]",
        "a b",
    ),
    "129 devices": (
        slices(template("t", *({"name": f"d{number}"} for number in range(129)))),
        f"{SPEC}.devices",
        "128",
    ),
    "33 attributes and capacities": (
        of(
            attributes=VALUES | {ROOT: {"bindingKey": "k"}},
            capacity={"m": {"value": "1"}, "n": {"value": "1"}},
        ),
        DEVICE,
        "has 33",
    ),
    "a value and a key": (
        of(attributes={ROOT: {"string": "x", "bindingKey": "k"}}),
        f"{DEVICE}.attributes[{ROOT}]",
        "a value or a bindingKey",
    ),
    "neither a value nor a key": (of(attributes={"m": {}}), f"{DEVICE}.attributes[m]", "exactly one value"),
    "an empty key": (
        of(attributes={ROOT: {"bindingKey": ""}}),
        f"{DEVICE}.attributes[{ROOT}].bindingKey",
        "is required",
    ),
    "a long key": (
        of(attributes={ROOT: {"bindingKey": "k" * 65}}),
        f"{DEVICE}.attributes[{ROOT}].bindingKey",
        "64 bytes",
    ),
    "a device without a name": (of(name=""), f"{DEVICE}.name", ""),
    **{
        f"a device with {field}": (of(**{field: value}), f"{DEVICE}.{field}", words)
        for field, value, words in (
            ("nodeName", "n", "the template says"),
            ("nodeSelector", {}, "the template says"),
            ("allNodes", True, "the template says"),
            ("bindsToNode", True, "waits for"),
            ("bindingConditions", ["a"], "waits for"),
            ("bindingFailureConditions", ["a"], "waits for"),
            ("nodeAllocatableResources", {}, "capacity that their type has"),
        )
    },
    "a policy of what is not shared": (
        of(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
        f"{DEVICE}.capacity[m].requestPolicy",
        "allowMultipleAllocations",
    ),
    "a device of a driver twice": (
        slices(template("t"), template("u")),
        f"{TEMPLATES}[1].spec.devices[0].name",
        "there already",
    ),
    "a template twice": (
        slices(template("t"), template("t", {"name": "b"})),
        f"{TEMPLATES}[1].metadata.name",
        "there already",
    ),
    "devices and counters": (
        counters(devices=[{"name": "b"}]),
        f"{TEMPLATES}[0].spec",
        "a template of their own",
    ),
    "counters that are not there": (
        counters("other"),
        f"{TEMPLATES}[1].spec.devices[0].consumesCounters[0].counterSet",
        "same driver",
    ),
    "a counter that is not there": (
        counters(counter="n"),
        f"{TEMPLATES}[1].spec.devices[0].consumesCounters[0].counters[n]",
        "of the set set",
    ),
    "counters for other nodes": (  # they are another pool's
        counters(allNodes=True),
        f"{TEMPLATES}[1].spec.devices[0].consumesCounters[0].counterSet",
        "same nodes",
    ),
    "one device bound": (bound("a"), f"{BINDING}.deviceSelectors", "two or more"),
    "a device bound to itself": (bound("a", "a"), f"{BINDING}.deviceSelectors[1]", "there already"),
    "no attribute bound": (bound("a", "b", attributes=[]), f"{BINDING}.attributes", "at least one"),
    "an attribute without a domain": (
        bound("a", "b", attributes=["x"]),
        f"{BINDING}.attributes[0]",
        "domain",
    ),
    "a device that is not there": (
        bound("a", "c"),
        f"{BINDING}.deviceSelectors[1].device",
        "of the template t",
    ),
    "a template that is not there": (
        bound("a", "b", template_name="u"),
        f"{BINDING}.deviceSelectors[0].resourceSliceTemplate",
        "name of a template",
    ),
}
UNSOUND["a value of what is bound"] = (
    slices(
        template("t", {"name": "a", "attributes": {"x": {"int": 1}}}, {"name": "b"}),
        bindings=[
            {
                "attributes": [f"{GPU}/x"],  # the driver's own name of the same attribute
                "deviceSelectors": [{"resourceSliceTemplate": "t", "device": name} for name in "ab"],
            }
        ],
    ),
    f"{BINDING}.deviceSelectors[0]",
    "leave one of them out",
)


@pytest.mark.parametrize(("made", "path", "words"), UNSOUND.values(), ids=UNSOUND)
def test_unsound(made: NodeOverlay, path: str, words: str) -> None:
    errors = validate_node_overlay(made)
    told = [f"{error.message} {error.value}" for error in errors if str(error.path) == path]
    assert any(words in each for each in told), [str(error) for error in errors]
