"""What a pool limits: amounts, the number of its nodes, devices of a class."""

from __future__ import annotations

import pytest

from allotment.api.autoscaling import NODE_POOL
from tests.autoscaler.build import gpus, pool, type_
from tests.autoscaler.builders import asking
from tests.autoscaler.provision.test_provisioner import SMALL, plan_for, types_of
from tests.builders.typed import claim, node, pod, slice_


def test_a_pool_may_limit_its_nodes() -> None:
    limited = pool("p", limits={"nodes": "2"})
    has = node("old", cpu=8, labels={NODE_POOL: "p"}, cordoned=True)
    found, _ = plan_for([pod(name, cpu=6) for name in "abc"], type_("t"), limited, there=[has])
    assert types_of(found) == {"t": 1}
    assert {each.types["t"] for each in found.pending} == {
        "would fit, but the limits of NodePool p are reached (nodes: 0 left, it has 1)"
    }


@pytest.mark.parametrize(("most", "machines"), [("6", 2), ("5", 1), ("3", 0)])
def test_a_pool_may_limit_its_devices(most: str, machines: int) -> None:
    """Of a class, those of the nodes that it has included; four pods want one each, and a machine has two."""
    limited = pool("p", limits={"deviceclass/any": most, "deviceclass/nobody-knows": "0"})
    there = [node("old", cpu=8, labels={NODE_POOL: "p"}, cordoned=True), slice_("old", "d0", "d1")]
    pods, claims = zip(*(asking(name, cpu=1) for name in "abcd"), strict=True)
    found, _ = plan_for(pods, type_("t", dynamicResources=gpus(2)), limited, there=[*there, *claims])
    assert len(found.nodes) == machines


@pytest.mark.parametrize("devices", [False, True])
def test_equal_pods_that_a_limit_leaves_out_each_have_the_reason_of_every_type(devices: bool) -> None:
    """Also of a type that is too small for them: which is found out when others of them have a place."""
    limited = pool("p", limits={"nodes": "1"})
    small = type_("small", capacity=SMALL)
    large = type_("t", dynamicResources=gpus(8)) if devices else type_("t")
    claims = [claim(f"claim-{name}") for name in "abc"] if devices else []
    pods = [pod(name, cpu=6, claims={"gpu": f"claim-{name}"} if devices else ()) for name in "abc"]
    found, _ = plan_for(pods, large, small, limited, there=claims)
    expected = {
        "small": "has less cpu than 6 in all",
        "t": "would fit, but the limits of NodePool p are reached (nodes: 0 left, it has 1)",
    }
    assert [(each.pod, each.types) for each in found.pending] == [
        ("default/b", expected),
        ("default/c", expected),
    ]
