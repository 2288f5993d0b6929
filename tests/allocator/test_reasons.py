"""Why something does not fit: one code per device, counts per request, one sentence per node."""

import pytest

from allotment.allocator.features import ALL, Features
from allotment.allocator.held import NOTHING_HELD, Holdings
from allotment.allocator.ledger import Ledger
from allotment.allocator.reasons import DeviceReason, NodeReason, fold
from allotment.api.core import Node
from allotment.api.resource import DeviceRequest, ResourceSlice
from tests.allocator.build import (
    DRIVER,
    allocate,
    claim,
    counter_set,
    device,
    devices,
    distinct,
    draw,
    either,
    held,
    match,
    mine,
    node,
    refused,
    request,
    slice_,
    sub,
    taint,
    whole,
)

NEVER = request("never", "false")
"""Makes any claim unsatisfiable, so that the reasons of the other requests can be looked at."""


def reasons(
    slices: list[ResourceSlice],
    *requests: DeviceRequest,
    in_use: Holdings = NOTHING_HELD,
    on: Node | None = None,
    features: Features = ALL,
) -> NodeReason:
    return refused(allocate(slices, claim(*requests), held=in_use, on=on, features=features)).reasons()


def counted(*specs: object, **counters: str) -> list[ResourceSlice]:
    return [
        slice_(*specs, of=2),  # type: ignore[arg-type]  # devices
        slice_(name="z", of=2, counters=[counter_set("gpu", **counters)]),
    ]


# --- one device, one reason ---


@pytest.mark.parametrize(
    ("slices", "wanted", "options", "code", "words"),
    [
        pytest.param([slice_(device("d"))], request(), {}, "fits", "fit", id="fits"),
        pytest.param(
            [slice_(device("d"))], request(), {"in_use": held("d")}, "in-use", "in use", id="in use"
        ),
        pytest.param(
            [slice_(device("d", size=3))],
            request("r", f"{mine('size')} > 5"),
            {"in_use": held("d")},
            "selector",
            f"fails `{mine('size')} > 5` (size=3)",
            id="selector, whoever has the device",
        ),
        pytest.param(
            [slice_(device("d", size=3))],
            request("r", f"{mine('size')} > 5"),
            {},
            "selector",
            f"fails `{mine('size')} > 5` (size=3)",
            id="selector, with the values it read",
        ),
        pytest.param(
            [slice_(device("d", on="node-2"), device("e", on="node-1"), per_device=True)],
            request(),
            {},
            "node",
            "does not reach this node",
            id="another node",
        ),
        pytest.param(
            [slice_(device("d", capacity={"m": "1Gi"}))],
            request(capacity={"m": "2Gi"}),
            {},
            "capacity",
            "lacks the capacity asked for (m: 1Gi, asked 2Gi)",
            id="too small",
        ),
        pytest.param(
            [slice_(device("d"))],
            request(capacity={"m": "2Gi"}),
            {},
            "capacity",
            "lacks the capacity asked for (m: none, asked 2Gi)",
            id="lacks the capacity",
        ),
        pytest.param(
            [slice_(device("d", shared=True, capacity={"m": "4Gi"}))],
            request(capacity={"m": "2Gi"}),
            {"in_use": held(shared={"d": {"m": "3Gi"}})},
            "capacity",
            "has too little capacity left (m short by 1Gi)",
            id="too little left",
        ),
        pytest.param(
            counted(
                device("d", draws=[draw("gpu", slots="4")]),
                device("e", draws=[draw("gpu", slots="1")]),
                slots="4",
            ),
            request(),
            {"in_use": held("e")},
            "counters",
            "lacks shared counters (gpu.slots short by 1)",
            id="counters",
        ),
        pytest.param(
            counted(
                device("d", draws=[draw("gpu", slots="1")]),
                device("e", draws=[draw("gpu", slots="9")]),
                slots="4",
            ),
            request(),
            {"in_use": held("e")},
            "counters",
            "is in a pool whose counters are overdrawn",
            id="overdrawn",
        ),
        pytest.param(
            counted(
                device("d", draws=[draw("gpu", ["a"], slots="1")]),
                device("e", draws=[draw("gpu", ["b"], slots="1")]),
                slots="4",
            ),
            request(),
            {"in_use": held("e")},
            "groups",
            "shares no compatibility group with devices in use",
            id="groups",
        ),
        pytest.param(
            counted(device("d", draws=[draw("gpu", ["a"])]), device("e", draws=[draw("gpu", ["b"])])),
            request(),
            {"in_use": held("e")},
            "groups",
            "is locked, as another way to split the same device is in use",
            id="a set without counters is a lock",
        ),
        pytest.param(
            [slice_(device("d", taints=[taint("broken", "soon")]))],
            request(),
            {},
            "taint",
            "has taint broken=soon:NoSchedule",
            id="taint",
        ),
        pytest.param(
            [slice_(device("d", binding=["ready"]))],
            request(),
            {"features": Features(DeviceBindingAndStatus=False)},
            "feature",
            "has binding conditions, and the feature is off",
            id="feature",
        ),
        pytest.param(
            [slice_(device("d"), skips=["NodePrepareResources"])],
            request(),
            {"features": Features(OptionalNodeOperations=False)},
            "feature",
            "skips node operations, and the feature is off",
            id="node operations",
        ),
    ],
)
def test_the_first_thing_that_rules_a_device_out(
    slices: list[ResourceSlice], wanted: DeviceRequest, options: dict[str, object], code: str, words: str
) -> None:
    found = reasons(slices, wanted, NEVER, **options)  # type: ignore[arg-type]  # passed on
    reason = found.asks[0].devices[0]
    assert reason.code == code
    assert str(reason) == f"{DRIVER}/pool/d: {words}"


def test_a_device_that_lacks_what_a_constraint_compares() -> None:
    outcome = allocate([slice_(device("d"))], claim(request(), constraints=[match("root")]))
    (reason,) = refused(outcome).reasons().asks[0].devices
    assert reason.code == "constraint"
    assert reason.text == f"lack attribute {DRIVER}/root of a constraint"


def test_a_device_that_cannot_be_judged() -> None:
    """The search never came to it, so it is no error of the claim; but it would be one."""
    found = reasons([slice_(device("d"))], NEVER, request("r", f"{mine('x')} == 1"))
    reason = found.asks[1].devices[0]
    assert reason.code == "error"
    assert "no such key: x" in reason.detail


def test_a_device_that_cannot_be_judged_is_not_what_somebody_holds() -> None:
    """Nobody should wait for it to be free. What goes wrong with each device alike is told once."""
    found = reasons(
        [slice_(device("d"), device("e"))], request("r", f"{mine('x')} == 1"), in_use=held("d", "e")
    )
    assert str(found) == (
        "request r needs 1, 0 of 2 devices fit: "
        "2 cannot be judged (claim ns/claim: selector #0: CEL runtime error: no such key: x)"
    )


def test_who_holds_a_device_is_told_where_it_is_known() -> None:
    ledger = Ledger()
    ledger.hold("team/train", (whole("d"),))
    assert str(reasons([slice_(device("d"))], request(), in_use=ledger)) == (
        "request r needs 1, 0 of 1 device fit: 1 in use (by team/train)"
    )


def test_admin_access_does_not_mind_use() -> None:
    found = reasons([slice_(device("d"))], request("a", admin=True), NEVER, in_use=held("d"))
    assert found.asks[0].devices[0].code == "fits"


def test_reasons_are_judged_by_what_is_in_use_and_not_by_what_was_tried() -> None:
    """The first request had the device, and its counters, when the second was found to be hopeless."""
    found = reasons(counted(device("d", draws=[draw("gpu", slots="4")]), slots="4"), request(), NEVER)
    assert found.asks[0].devices[0].code == "fits"


# --- folding ---


def reason(code: str, text: str, detail: str = "") -> DeviceReason:
    return DeviceReason("d", code, text, detail)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], ""),
        ([reason("in-use", "in use")], "1 in use"),
        (
            [reason("taint", "tainted")]
            + [reason("in-use", "in use")] * 5
            + [reason("selector", "fail `memory >= 80Gi`", "40Gi")] * 2,
            "5 in use, 2 fail `memory >= 80Gi` (40Gi), 1 tainted",
        ),
        (
            [reason("selector", "fail `x`", f"x={n % 3}") for n in range(7)],
            "7 fail `x` (x=0; x=1; x=2)",
        ),
        (
            [reason("selector", "fail `x`", f"x={n}") for n in range(5)],
            "5 fail `x` (x=0; x=1; x=2; 2 more)",
        ),
        ([reason("in-use", "in use", "by a"), reason("in-use", "in use")], "2 in use (by a)"),
    ],
)
def test_folding(found: list[DeviceReason], sentence: str) -> None:
    assert fold(found) == sentence


# --- sentences ---

MIXED = [
    slice_(
        *[device(f"busy{n}", memory=80) for n in range(5)],
        *[device(f"small{n}", memory=40) for n in range(2)],
        device("sick", memory=80, taints=[taint("xid")]),
    )
]


def test_the_sentence_of_the_readme() -> None:
    found = reasons(
        MIXED, request("r", f"{mine('memory')} >= 80"), in_use=held(*[f"busy{n}" for n in range(5)])
    )
    assert str(found) == (
        f"request r needs 1, 0 of 8 devices fit: 5 in use, 2 fail `{mine('memory')} >= 80` (memory=40), "
        "1 has taint xid:NoSchedule"
    )


@pytest.mark.parametrize(
    ("slices", "requests", "sentence"),
    [
        pytest.param([], [request()], "request r needs 1, 0 of 0 devices fit", id="no devices"),
        pytest.param(
            [slice_(*devices(2))], [request(count=3)], "request r needs 3, 2 of 2 devices fit", id="too few"
        ),
        pytest.param(
            [slice_(*devices(2))],
            [request("a"), request("b", "false"), request("c", count=4)],
            "request b needs 1, 0 of 2 devices fit: 2 fail `false`; request c needs 4, 2 of 2 devices fit",
            id="only those that are short",
        ),
        pytest.param(
            [slice_(*devices(2))],
            [request("a", count=2), request("b")],
            "requests a, b together need 3 devices, but only 2 devices suit any of them",
            id="together",
        ),
        pytest.param(
            [slice_(device("d"))],
            [either("r", sub("big", "false"), sub("small")), request("s")],
            "requests r, s together need 2 devices, but only 1 device suits any of them",
            id="an alternative that cannot be had is no reason if another can",
        ),
        pytest.param(
            [slice_(device("d"))],
            [either("r", sub("big", "false"), sub("many", count=2))],
            "request r/big needs 1, 0 of 1 device fit: 1 fails `false`; request r/many needs 2, 1 of 1 device fit",
            id="all alternatives are short",
        ),
        pytest.param(
            [slice_(*devices(2))],
            [request("r", "false", all=True)],
            "request r: asks for all devices, but none matches: 2 fail `false`",
            id="all of none",
        ),
        pytest.param(
            [],
            [request("r", all=True)],
            "request r: asks for all devices, but none matches: there are no devices",
            id="all of nothing",
        ),
        pytest.param(
            [slice_(device("d"), device("e", taints=[taint("t")]))],
            [request("r", all=True)],
            "request r: asks for all 2 devices, but 1 has taint t:NoSchedule",
            id="all but one",
        ),
        pytest.param(
            [slice_(device("d"), of=3)],
            [request()],
            f"request r needs 1, 0 of 0 devices fit; pool {DRIVER}/pool is incomplete (1 of 3 slices)",
            id="incomplete pool",
        ),
    ],
)
def test_sentences(slices: list[ResourceSlice], requests: list[DeviceRequest], sentence: str) -> None:
    assert str(reasons(slices, *requests)) == sentence


def test_what_constraints_make_impossible() -> None:
    roots = [slice_(*[device(f"d{n}", root=n // 2) for n in range(4)])]
    same = refused(allocate(roots, claim(request(count=3), constraints=[match("root")])))
    assert str(same.reasons()) == (
        f"claim ns/claim wants one value of {DRIVER}/root; at most 2 devices share one, "
        "and no choice satisfies all requests"
    )
    different = refused(allocate(roots, claim(request(count=3), constraints=[distinct("root")])))
    assert str(different.reasons()) == (
        f"claim ns/claim wants different values of {DRIVER}/root; there are 2 values, "
        "and no choice satisfies all requests"
    )


def test_what_counters_make_impossible() -> None:
    parts = [device(f"d{n}", draws=[draw("gpu", slots="3")]) for n in range(3)]
    assert str(reasons(counted(*parts, slots="7"), request(count=3))) == (
        "the devices that suit draw on the same counters, which have too little left for all requests"
    )


def test_a_long_expression_is_cut_and_stays_on_one_line() -> None:
    found = reasons([slice_(device("d"))], request("r", "false &&\n  " + " && ".join(["true"] * 60)))
    text = found.asks[0].devices[0].text
    assert text.startswith("fail `false && true")
    assert text.endswith("...`")
    assert len(text) <= 130


# --- the tree ---


def test_the_tree_says_the_same_unfolded() -> None:
    tree = reasons([slice_(device("d", size=1))], request("r", f"{mine('size')} > 5")).tree()
    assert tree == {
        "node": "node-1",
        "summary": f"request r needs 1, 0 of 1 device fit: 1 fails `{mine('size')} > 5` (size=1)",
        "requests": [
            {
                "claim": "ns/claim",
                "request": "r",
                "needed": 1,
                "fitting": 0,
                "summary": f"request r needs 1, 0 of 1 device fit: 1 fails `{mine('size')} > 5` (size=1)",
                "devices": [
                    {
                        "device": f"{DRIVER}/pool/d",
                        "code": "selector",
                        "text": f"fails `{mine('size')} > 5`",
                        "detail": "size=1",
                    }
                ],
            }
        ],
        "pools": [],
    }


def test_a_node_that_lacks_what_a_device_needs_is_told() -> None:
    found = reasons([slice_(device("d"), skips=["NodePrepareResources"])], request(), on=node())
    assert "needs a node that declares DRAOptionalNodeOperations" in str(found)
