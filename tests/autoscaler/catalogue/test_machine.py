"""The node that a machine would become, asked by the real allocator: what is bound matches, and what is not known is no answer."""

from __future__ import annotations

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from allotment.allocator.errors import NodeError
from allotment.allocator.outcome import InvalidInput, Unsatisfiable
from allotment.api.resource import DeviceConstraint, DeviceRequest, ResourceSlice
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.autoscaler.catalogue.machine import Machine, node_of
from tests.allocator.build import (
    allocate,
    claim,
    class_,
    distinct,
    given,
    match,
    node,
    refused,
    request,
    slice_,
)
from tests.allocator.build import device as real_device
from tests.autoscaler.build import (
    GPU,
    NIC,
    ROOT,
    binding,
    device,
    devices,
    evaluated,
    group,
    machine,
    overlay,
    pool,
    template,
    type_,
    where,
)

CLASSES = [class_("gpu", f'device.driver == "{GPU}"'), class_("nic", f'device.driver == "{NIC}"')]
READS_ROOT = 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0"'


def paired(order: tuple[int, ...] = (0, 1, 2)) -> Machine:
    """Three GPUs, each bound to the NIC whose number is at its place in ``order``."""
    said = devices(
        template("gpus", GPU, *(device(f"gpu-{number}", model=f"m{number}") for number in range(3))),
        template("nics", NIC, *(device(f"nic-{number}") for number in range(3))),
        bindings=[binding(("gpus", f"gpu-{gpu}"), ("nics", f"nic-{nic}")) for gpu, nic in enumerate(order)],
    )
    return machine(type_("t"), overlay("o", dynamicResources=said))


def gpu(*expressions: str, **options: object) -> DeviceRequest:
    return request("gpu", *expressions, class_name="gpu", **options)  # type: ignore[arg-type]  # passed on


def nic() -> DeviceRequest:
    return request("nic", class_name="nic")


def ask(
    made: Machine, *requests: DeviceRequest, constraints: tuple[DeviceConstraint, ...] = (), name: str = "new"
) -> list[str]:
    host, slices = node_of(made, name)
    return given(allocate(slices, claim(*requests, constraints=constraints), classes=CLASSES, on=host))


# --- the node ---


def test_the_node_of_a_pool() -> None:
    made = machine(
        type_("t", labels={"a": "b"}, overhead={"cpu": "500m"}),
        pool("p", where("example.com/x", "In", "y"), labels={"team": "z"}),
    )
    host, slices = node_of(made, "new")
    assert host.metadata.labels == {
        "a": "b",
        "team": "z",
        "example.com/x": "y",
        "node.kubernetes.io/instance-type": "t",
        "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "p",
        "kubernetes.io/hostname": "new",
    }
    assert str(host.status.allocatable["cpu"]) == "7500m"
    assert str(host.status.capacity["cpu"]) == "8"
    assert [(each.type, each.status) for each in host.status.conditions] == [("Ready", "True")]
    assert slices == []


def test_the_node_of_a_group() -> None:
    host, _ = node_of(machine(group("rack", {"a": "b"})), "new")
    assert host.metadata.labels == {
        "a": "b",
        "allotment.dev/nodegroup": "rack",
        "kubernetes.io/hostname": "new",
    }


def test_slices_of_a_driver_for_the_same_nodes_are_one_pool() -> None:
    everywhere = template("net", GPU, device("far"), allNodes=True)
    said = devices(template("one", GPU, device("a")), everywhere, template("two", GPU, device("b")))
    _, slices = node_of(machine(type_("t"), overlay("o", dynamicResources=said)), "new")
    assert {
        (each.spec.pool.name, each.spec.pool.resource_slice_count, each.spec.node_name) for each in slices
    } == {
        ("new", 2, "new"),
        ("new/1", 1, None),
    }
    assert len({each.metadata.name for each in slices}) == 3


# --- bindings ---


@pytest.mark.parametrize("model", ["m0", "m1", "m2"])
def test_a_match_over_a_bound_attribute_takes_the_bound_pair(model: str) -> None:
    picks = gpu(f'device.attributes["{GPU}"].model == "{model}"')
    found = ask(paired((2, 0, 1)), picks, nic(), constraints=(match(ROOT),))
    assert (
        found
        == {
            "m0": ["gpu=gpu-0", "nic=nic-2"],
            "m1": ["gpu=gpu-1", "nic=nic-0"],
            "m2": ["gpu=gpu-2", "nic=nic-1"],
        }[model]
    )


@hypothesis_given(st.permutations(range(3)))
def test_any_pairing_is_found(order: list[int]) -> None:
    found = ask(paired(tuple(order)), gpu(), nic(), constraints=(match(ROOT),))
    assert found == ["gpu=gpu-0", f"nic=nic-{order[0]}"]


def test_two_of_different_bindings_do_not_match() -> None:
    host, slices = node_of(paired(), "new")
    wanted = claim(gpu(count=2), constraints=[match(ROOT)])
    assert isinstance(allocate(slices, wanted, classes=CLASSES, on=host), Unsatisfiable)


def test_two_of_different_bindings_are_distinct_and_a_bound_pair_is_not() -> None:
    assert ask(paired(), gpu(count=3), constraints=(distinct(ROOT),)) == [
        "gpu=gpu-0",
        "gpu=gpu-1",
        "gpu=gpu-2",
    ]
    assert ask(paired(), gpu(), nic(), constraints=(distinct(ROOT),)) == ["gpu=gpu-0", "nic=nic-1"]


def shared(name: str) -> list[ResourceSlice]:
    """The slices of a new node whose devices every node reaches."""
    said = devices(
        template("gpus", GPU, device("gpu", attributes={ROOT: {"bindingKey": "k"}}), allNodes=True),
        template("nics", NIC, device("nic", attributes={ROOT: {"bindingKey": "k"}}), allNodes=True),
    )
    return node_of(machine(type_("t"), overlay("o", dynamicResources=said)), name)[1]


def test_two_new_nodes_of_one_overlay_share_no_value() -> None:
    one, two = shared("one"), shared("two")
    mixed = [each for each in one if each.spec.driver == GPU] + [
        each for each in two if each.spec.driver == NIC
    ]
    wanted = claim(gpu(), nic(), constraints=[match(ROOT)])
    assert isinstance(allocate(mixed, wanted, classes=CLASSES), Unsatisfiable)
    assert given(allocate(one, wanted, classes=CLASSES)) == ["gpu=gpu", "nic=nic"]


def test_a_bound_value_equals_no_value_of_a_device_that_exists() -> None:
    [bound] = [each for each in shared("one") if each.spec.driver == GPU]
    unknown = bound.spec.devices[0].attributes[ROOT]
    assert isinstance(unknown, UnknownAttribute)
    text = unknown.binding_key  # even if somebody publishes the very text
    existing = slice_(real_device("nic", attributes={ROOT: text}), driver=NIC, everywhere=True, on=None)
    matched = claim(gpu(), nic(), constraints=[match(ROOT)])
    assert isinstance(allocate([bound, existing], matched, classes=CLASSES), Unsatisfiable)
    apart = claim(gpu(), nic(), constraints=[distinct(ROOT)])
    assert given(allocate([bound, existing], apart, classes=CLASSES)) == ["gpu=gpu", "nic=nic"]


def test_the_type_and_its_overlays_bind_apart() -> None:
    mine = devices(template("gpus", GPU, device("gpu-0", attributes={ROOT: {"bindingKey": "k"}})))
    other = devices(template("nics", NIC, device("nic-0", attributes={ROOT: {"bindingKey": "k"}})))
    made = machine(type_("t", dynamicResources=mine), overlay("o", dynamicResources=other))
    host, slices = node_of(made, "new")
    wanted = claim(gpu(), nic(), constraints=[match(ROOT)])
    assert isinstance(allocate(slices, wanted, classes=CLASSES, on=host), Unsatisfiable)


# --- expressions that read what is not known ---


def test_a_selector_that_reads_a_bound_attribute_does_not_fit_and_says_why() -> None:
    host, slices = node_of(paired(), "new")
    outcome = refused(allocate(slices, claim(gpu(READS_ROOT)), classes=CLASSES, on=host))
    assert f"cannot be known to fit yet: attribute {ROOT} has no known value before the machine runs" in str(
        outcome.reasons()
    )


KNOWN = {
    "it is there": 'has(device.attributes["resource.kubernetes.io"].pcieRoot)',
    "its name is there": '"pcieRoot" in device.attributes["resource.kubernetes.io"]',
    "it does not matter": f'device.driver == "{GPU}" || {READS_ROOT}',
    "it does not matter, the other way round": f'{READS_ROOT} || device.driver == "{GPU}"',
    "others are read": f'device.attributes["{GPU}"].model == "m0"',
    "all names are read": 'device.attributes["resource.kubernetes.io"].exists(name, name == "pcieRoot")',
}
UNKNOWN = {
    "equal": READS_ROOT,
    "different": 'device.attributes["resource.kubernetes.io"].pcieRoot != "pci0"',
    "and": f'device.driver == "{GPU}" && {READS_ROOT}',
    "by a computed name": 'device.attributes["resource.kubernetes.io"]["pcie" + "Root"] == "x"',
    "optional": 'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("x") == "x"',
    "the whole map": 'device.attributes["resource.kubernetes.io"] == {"pcieRoot": "x"}',
    "bound to a name": 'cel.bind(root, device.attributes["resource.kubernetes.io"].pcieRoot, root == "x")',
}


@pytest.mark.parametrize("expression", KNOWN.values(), ids=KNOWN)
def test_expressions_whose_answer_is_known(expression: str) -> None:
    assert ask(paired(), gpu(expression)) == ["gpu=gpu-0"]


@pytest.mark.parametrize("expression", UNKNOWN.values(), ids=UNKNOWN)
def test_expressions_whose_answer_is_not_known(expression: str) -> None:
    host, slices = node_of(paired(), "new")
    reasons = str(refused(allocate(slices, claim(gpu(expression)), classes=CLASSES, on=host)).reasons())
    assert "cannot be known to fit yet" in reasons


def test_a_no_that_is_known_is_told_rather_than_what_is_not() -> None:
    host, slices = node_of(paired(), "new")
    outcome = refused(allocate(slices, claim(gpu(READS_ROOT, "false")), classes=CLASSES, on=host))
    assert "cannot be known" not in str(outcome.reasons())


def test_a_device_whose_value_is_known_is_taken_instead() -> None:
    known = device("b", attributes={ROOT: "pci0"})
    said = devices(template("gpus", GPU, device("a", attributes={ROOT: {"bindingKey": "k"}}), known))
    assert ask(machine(type_("t"), overlay("o", dynamicResources=said)), gpu(READS_ROOT)) == ["gpu=b"]


def test_all_devices_are_not_known_either_but_that_is_the_nodes_matter() -> None:
    host, slices = node_of(paired(), "new")
    outcome = allocate(slices, claim(gpu(READS_ROOT, all=True)), classes=CLASSES, on=host)
    assert isinstance(outcome, InvalidInput)
    assert isinstance(outcome.error, NodeError)  # other nodes may fit
    assert "asks for all devices" in str(outcome.error)
    assert "no known value before the machine runs" in str(outcome.error)


def test_a_derived_attribute_of_what_is_not_known() -> None:
    host, slices = node_of(paired(), "new")
    derives = {"example.com/root": 'device.attributes["resource.kubernetes.io"].pcieRoot'}
    wanted = claim(gpu(derives=derives, count=2), constraints=[match("example.com/root")])
    outcome = allocate(slices, wanted, classes=CLASSES, on=host)
    assert isinstance(outcome, InvalidInput)
    assert isinstance(outcome.error, NodeError)


# --- relative topology ---


def test_devices_for_the_zone_of_their_host() -> None:
    zonal = {"nodeSelectorTerms": [{"matchLabelKeys": ["topology.kubernetes.io/zone"]}]}
    said = devices(template("disk", GPU, device("disk"), nodeSelector=zonal))
    found = evaluated(type_("t", {"a": "1", "b": "1"}), overlay("o", dynamicResources=said))
    for made, zone in zip(found.machines, ("a", "b"), strict=True):
        host, slices = node_of(made, f"new-{zone}")
        [selector] = [each.spec.node_selector for each in slices]
        assert selector is not None
        [test] = selector.node_selector_terms[0].match_expressions
        assert (test.key, test.operator, test.values) == ("topology.kubernetes.io/zone", "In", (zone,))
        wanted = claim(gpu())
        assert given(allocate(slices, wanted, classes=CLASSES, on=host)) == ["gpu=disk"]
        for other in ("a", "b"):
            neighbour = node("old", **{"topology.kubernetes.io/zone": other})
            outcome = allocate(slices, wanted, classes=CLASSES, on=neighbour)
            assert isinstance(outcome, Unsatisfiable) == (other != zone)
