"""Which devices suit an ask, one by one: selectable, allowed, or an error; and in which order that is looked at."""

import pytest

from allotment.allocator.errors import ClaimError
from allotment.allocator.features import ALL, Features
from allotment.allocator.request import Book
from allotment.allocator.site import Site
from allotment.allocator.suits import NODE_OPERATIONS, Suitability
from allotment.api.core import Node
from allotment.api.resource import DeviceRequest, ResourceSlice
from tests.allocator.build import (
    ANY,
    claim,
    class_,
    counter_set,
    device,
    draw,
    mine,
    node,
    policed,
    pools,
    request,
    slice_,
    taint,
    toleration,
)


def suits_of(
    slices: list[ResourceSlice], wanted: DeviceRequest, *, on: Node | None = None, features: Features = ALL
) -> Suitability:
    found = pools(slices, on, features)
    site = Site(on or node(), found, [each for pool in found for each in pool.devices], features)
    book = Book({"any": ANY, "gpu": class_("gpu", f'{mine("model")} == "a"')}, features)
    demand = book.demand([claim(wanted)])
    assert demand.fault is None
    return Suitability(demand.requests[0].asks[0], site)


def verdict(suits: Suitability, position: int = 0) -> str:
    """``yes``, ``error``, ``no`` (not selectable) or ``forbidden`` (selectable, but not allowed)."""
    try:
        if suits.judge(position):
            return "yes"
    except ClaimError:
        return "error"
    return "forbidden" if suits.selectable >> position & 1 else "no"


COUNTERS = slice_(name="counters", of=2, counters=[counter_set("set", slots="1")])
OPERATED = node(declares=[NODE_OPERATIONS])


@pytest.mark.parametrize(
    ("slices", "wanted", "on", "features", "expected"),
    [
        pytest.param([slice_(device("d"))], request(), None, ALL, "yes", id="anything suits"),
        pytest.param(
            [slice_(device("d", model="a"))], request(class_name="gpu"), None, ALL, "yes", id="class"
        ),
        pytest.param(
            [slice_(device("d", model="b"))], request(class_name="gpu"), None, ALL, "no", id="another class"
        ),
        pytest.param([slice_(device("d"))], request("r", "false"), None, ALL, "no", id="selector"),
        pytest.param(
            [slice_(device("d"))], request(class_name="gpu"), None, ALL, "error", id="missing attribute"
        ),
        pytest.param([slice_(device("d"))], request("r", "1 +"), None, ALL, "error", id="does not compile"),
        pytest.param(
            [slice_(device("d", model="b"))],
            request("r", f"{mine('missing')} == 1", class_name="gpu"),
            None,
            ALL,
            "no",
            id="the class says no before the request could raise",
        ),
        pytest.param(
            [slice_(device("d", taints=[taint("t")]))], request(), None, ALL, "forbidden", id="tainted"
        ),
        pytest.param(
            [slice_(device("d", taints=[taint("t")]))],
            request(tolerates=[toleration("t", "Exists")]),
            None,
            ALL,
            "yes",
            id="tolerated",
        ),
        pytest.param(
            [slice_(device("d", taints=[taint("t")]))],
            request(),
            None,
            Features(DeviceTaints=False),
            "yes",
            id="taints are off",
        ),
        pytest.param(
            [slice_(device("d", taints=[taint("t")]))],
            request("r", "1 +"),
            None,
            ALL,
            "error",
            id="tainted and broken",
        ),
        pytest.param(
            [slice_(device("d", binding=["ready"]))], request(), None, ALL, "yes", id="binding conditions"
        ),
        pytest.param(
            [slice_(device("d", binding=["ready"]))],
            request("r", "1 +"),
            None,
            Features(DeviceBindingAndStatus=False),
            "no",
            id="binding conditions are off, and looked at before expressions",
        ),
        pytest.param(
            [slice_(device("d"), skips=["NodePrepareResources"])],
            request(),
            None,
            ALL,
            "forbidden",
            id="old node",
        ),
        pytest.param(
            [slice_(device("d"), skips=["NodePrepareResources"])],
            request(),
            OPERATED,
            ALL,
            "yes",
            id="new node",
        ),
        pytest.param(
            [slice_(device("d"), skips=["NodePrepareResources"])],
            request(),
            OPERATED,
            Features(OptionalNodeOperations=False),
            "forbidden",
            id="optional node operations are off",
        ),
        pytest.param(
            [slice_(device("d", draws=[draw("set", slots="9")]), of=2), COUNTERS],
            request(),
            None,
            ALL,
            "yes",
            id="counters are not looked at here",
        ),
        pytest.param(
            [slice_(device("d", draws=[draw("set", slots="1")]))],
            request(),
            None,
            Features(PartitionableDevices=False),
            "forbidden",
            id="counters are off",
        ),
        pytest.param(
            [slice_(device("other", on="node-1"), device("d", on="node-2"), per_device=True)],
            request(),
            node("node-2"),
            ALL,
            "no",
            id="the device is for another node",
        ),
        pytest.param(
            [slice_(device("d", capacity={"m": "1Gi"}))],
            request(capacity={"m": "2Gi"}),
            None,
            ALL,
            "no",
            id="too small",
        ),
        pytest.param(
            [slice_(device("d", capacity={"m": "2Gi"}))],
            request(capacity={"m": "2Gi"}),
            None,
            ALL,
            "yes",
            id="just so",
        ),
        pytest.param(
            [slice_(device("d"))], request(capacity={"m": "0"}), None, ALL, "no", id="lacks the capacity"
        ),
        pytest.param(
            [slice_(device("d", capacity={"m": policed("4", "9")}))],
            request(),
            None,
            ALL,
            "no",
            id="its own default is too much for it",
        ),
        pytest.param(
            [slice_(device("d", capacity={"m": "1"}))],
            request(capacity={"m": "-1"}),
            None,
            ALL,
            "error",
            id="negative",
        ),
    ],
)
def test_a_device_and_an_ask(
    slices: list[ResourceSlice], wanted: DeviceRequest, on: Node | None, features: Features, expected: str
) -> None:
    suits = suits_of(slices, wanted, on=on, features=features)
    assert verdict(suits) == expected
    assert verdict(suits) == expected, "asked again"


def test_devices_are_judged_when_they_are_asked_about() -> None:
    suits = suits_of([slice_(device("d0"), device("d1", model="a"))], request(class_name="gpu"))
    assert suits.judge(1)
    assert suits.known == 0b10
    assert suits.possible & 0b11 == 0b11, "nobody has looked at the other one"
    suits.judge_all()
    assert suits.known == 0b11
    assert list(suits.errors) == [0]
    assert suits.possible & 0b11 == 0b11, "it raises, so the search must come to it"


def test_an_error_names_selector_and_device() -> None:
    suits = suits_of([slice_(device("d"))], request(class_name="gpu"))
    with pytest.raises(
        ClaimError, match=r"class gpu: selector #0 on device gpu.example.com/pool/d: CEL runtime error"
    ):
        suits.judge(0)
    broken = suits_of([slice_(device("d", capacity={"m": "1"}))], request(capacity={"m": "-1"}))
    with pytest.raises(ClaimError, match=r"request r: checking capacity for device .*/d: .*negative"):
        broken.judge(0)
