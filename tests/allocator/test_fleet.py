"""Many nodes: the fleet answers as a fresh allocator would, node by node, however it got to its state."""

import random
from collections.abc import Callable

import pytest
from hypothesis import example, settings
from hypothesis import given as suppose
from hypothesis import strategies as st

from allotment.allocator import fleet as fleet_module
from allotment.allocator.fleet import Fleet, named_shares
from allotment.allocator.ledger import LedgerConflict
from allotment.allocator.outcome import Allocated, InvalidInput, Nowhere, Unsatisfiable
from allotment.api.core import NodeSelector
from allotment.api.resource import ResourceClaim, ResourceSlice
from tests.allocator.build import (
    ANY,
    DRIVER,
    allocate,
    claim,
    class_,
    counter_set,
    device,
    devices,
    distinct,
    draw,
    given,
    held,
    match,
    mine,
    node,
    policed,
    request,
    selector,
    selector_of,
    share,
    slice_,
    where,
    whole,
)
from tests.allocator.fleet_model import run

MakeFleet = Callable[..., Fleet]


def place(fleet: Fleet, claims: list[ResourceClaim]) -> str | None:
    """Finds a node and commits; the node's name, or None if there is none."""
    found = fleet.find(claims)
    if isinstance(found, Nowhere):
        return None
    fleet.commit(claims, found)
    return found.node


def one(name: str = "claim", *expressions: str, count: int = 1) -> ResourceClaim:
    return claim(request("r", *expressions, count=count), name=name)


def own_slices(*counts: int) -> list[object]:
    """One pool a node: ``n0`` has the first number of devices, ``n1`` the second…"""
    return [
        slice_(*devices(count), name=f"s{number}", pool=f"p{number}", on=f"n{number}")
        for number, count in enumerate(counts)
    ]


def nodes(count: int) -> list[object]:
    return [node(f"n{number}") for number in range(count)]


# --- the common case: every node has its own devices ---


def test_claims_fill_the_nodes_in_the_order_of_their_names(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(3), own_slices(2, 1, 2), [ANY])
    homes = [place(fleet, [one(f"c{number}")]) for number in range(6)]
    assert homes == ["n0", "n0", "n1", "n2", "n2", None]


def test_a_released_device_is_found_again(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(2), own_slices(1, 1), [ANY])
    assert [place(fleet, [one(f"c{number}")]) for number in range(3)] == ["n0", "n1", None]
    fleet.ledger.release("ns/c0")
    assert place(fleet, [one("c3")]) == "n0"


def test_nodes_in_equal_state_are_one_group(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(4), own_slices(1, 1, 1, 1), [ANY])
    assert [(group.fits, group.nodes) for group in fleet.survey([one()])] == [
        (True, ["n0", "n1", "n2", "n3"])
    ]
    place(fleet, [one("c")])
    assert [(group.fits, group.nodes) for group in fleet.survey([one()])] == [
        (True, ["n1", "n2", "n3"]),
        (False, ["n0"]),
    ]


def test_uuids_and_roots_do_not_tell_nodes_apart(make_fleet: MakeFleet) -> None:
    slices = [
        slice_(
            *[device(f"d{i}", uuid=f"{n}-{i}", root=f"pci-{n}-{i // 2}", model="a") for i in range(4)],
            name=f"s{n}",
            pool=f"p{n}",
            on=f"n{n}",
        )
        for n in range(5)
    ]
    fleet = make_fleet(nodes(5), slices, [ANY])
    wanted = claim(request("r", f'{mine("model")} == "a"', count=2), constraints=[match("root")])
    assert len(fleet.survey([wanted])) == 1


def test_what_expressions_and_constraints_read_does_tell_them_apart(make_fleet: MakeFleet) -> None:
    slices = [
        slice_(
            device("d0", root="x"),
            device("d1", root="x" if n else "y"),
            name=f"s{n}",
            pool=f"p{n}",
            on=f"n{n}",
        )
        for n in range(2)
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    found = fleet.find([claim(request("r", count=2), constraints=[match("root")])])
    assert isinstance(found, Allocated)
    assert found.node == "n1"


def test_of_several_claims_all_are_committed_or_none(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(1), own_slices(2), [ANY])
    both = [one("a"), one("b")]
    found = fleet.find(both)
    assert isinstance(found, Allocated)
    fleet.ledger.hold("other", (whole("d1", "p0"),))  # somebody was quicker
    with pytest.raises(LedgerConflict, match=f"{DRIVER}/p0/d1 is already in use by claim other"):
        fleet.commit(both, found)
    assert len(fleet.ledger) == 1


def test_a_class_that_changes_changes_the_answers(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(1), own_slices(1), [ANY])
    assert isinstance(fleet.find([one()]), Allocated)
    fleet.set_class(class_("any", "false"))
    assert isinstance(fleet.find([one()]), Nowhere)
    fleet.remove_class("any")
    (group,) = fleet.survey([one()])
    assert "there is none of that name" in group.words


def test_the_names_of_claims_do_not_matter_but_their_share_ids_follow_from_them(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet([node()], [slice_(device("nic", shared=True))], [ANY])
    answers = [fleet.find([one(name)]) for name in ("a", "b", "a")]
    ids = [
        answer.results[0].devices.results[0].share_id for answer in answers if isinstance(answer, Allocated)
    ]
    assert ids[0] == ids[2] != ids[1]
    assert named_shares([one("a")])(0, 0) == ids[0]


def test_an_error_names_the_claim_that_was_asked_about_and_not_one_of_the_same_shape(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet([node()], [slice_(device("d"))], [ANY])
    broken = f"{mine('missing')} == 1"
    for name in ("theirs", "ours"):
        outcome = fleet.allocate("node-1", [one(name, broken)])
        assert isinstance(outcome, InvalidInput)
        assert f"claim ns/{name}: selector #0" in str(outcome.error)


def test_reasons_name_the_holders(make_fleet: MakeFleet) -> None:
    fleet = make_fleet([node()], [slice_(device("d"))], [ANY])
    place(fleet, [one("first")])
    outcome = fleet.allocate("node-1", [one("second")])
    assert isinstance(outcome, Unsatisfiable)
    assert str(outcome.reasons()) == "request r needs 1, 0 of 1 device fit: 1 in use (by ns/first)"


def test_a_budget_that_runs_out_is_said(make_fleet: MakeFleet) -> None:
    fleet = make_fleet([node()], [slice_(*devices(3))], [ANY])
    assert isinstance(fleet.find([one(count=3)], budget=1), Nowhere)
    (group,) = fleet.survey([one(count=3)], budget=1)
    assert group.words.startswith("gave up after ")
    assert isinstance(fleet.find([one(count=3)]), Allocated)


def test_best_fit_places_other_devices_on_the_same_nodes(make_fleet: MakeFleet) -> None:
    slices = [slice_(device("big", capacity={"m": "80"}), device("small", capacity={"m": "40"}))]
    fleet = make_fleet([node()], slices, [ANY])
    assert given(_found(fleet, "first-fit")) == ["r=big"]
    assert given(_found(fleet, "best-fit")) == ["r=small"]


def _found(fleet: Fleet, strategy: str) -> Allocated:
    found = fleet.find([one()], strategy=strategy)
    assert isinstance(found, Allocated)
    return found


# --- pools that several nodes reach ---


def test_a_network_attached_device_is_given_away_once(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(3), [slice_(device("fpga"), everywhere=True)], [ANY])
    assert place(fleet, [one("a")]) == "n0"
    assert place(fleet, [one("b")]) is None
    assert [group.fits for group in fleet.survey([one()])] == [False]
    fleet.ledger.release("ns/a")
    assert place(fleet, [one("b")]) == "n0"


def test_two_nodes_may_reach_different_devices_of_one_pool(make_fleet: MakeFleet) -> None:
    """The slices look alike, and so do the nodes; but what is in use on one is not in use on the other."""
    slices = [slice_(device(f"d{n}"), name=f"s{n}", on=f"n{n}", of=2) for n in range(2)]
    fleet = make_fleet(nodes(2), slices, [ANY])
    assert [place(fleet, [one(f"c{n}")]) for n in range(3)] == ["n0", "n1", None]


def test_pools_that_look_alike_are_still_different_pools(make_fleet: MakeFleet) -> None:
    """Each pair of nodes shares counters of its own; the device in use is one that only the other node reaches."""
    slices = []
    for pair in ("p", "q"):
        cost = [draw("set", slots="1")]
        slices += [
            slice_(device("a", draws=cost), name=f"{pair}0", pool=pair, on=f"{pair}0", of=3),
            slice_(device("b", draws=cost), name=f"{pair}1", pool=pair, on=f"{pair}1", of=3),
            slice_(
                name=f"{pair}2", pool=pair, everywhere=True, of=3, counters=[counter_set("set", slots="1")]
            ),
        ]
    fleet = make_fleet([node(f"{pair}{n}") for pair in "pq" for n in range(2)], slices, [ANY])
    fleet.ledger.hold("other", (whole("b", "q"),))
    fits = {name for group in fleet.survey([one()]) if group.fits for name in group.nodes}
    assert fits == {"p0", "p1"}


def test_nodes_differ_where_the_common_devices_stand_before_or_behind_their_own(
    make_fleet: MakeFleet,
) -> None:
    """Both nodes have two devices in a row, one of their own and the common one, which is in use."""
    slices = [
        slice_(device("a"), name="own0", pool="a", on="n0"),
        slice_(device("b"), name="common", pool="b", everywhere=True),
        slice_(device("c"), name="own1", pool="c", on="n1"),
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    fleet.ledger.hold("other", (whole("b", "b"),))
    assert [place(fleet, [one(f"c{n}")]) for n in range(3)] == ["n0", "n1", None]


def test_counters_that_span_nodes_are_drawn_by_all(make_fleet: MakeFleet) -> None:
    cost = [draw("fabric", lanes="2")]
    slices = [
        slice_(device("a", draws=cost), name="s0", on="n0", of=3),
        slice_(device("b", draws=cost), name="s1", on="n1", of=3),
        slice_(name="s2", everywhere=True, of=3, counters=[counter_set("fabric", lanes="3")]),
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    assert place(fleet, [one("a")]) == "n0"
    assert place(fleet, [one("b")]) is None  # b is free, but one lane is left
    outcome = fleet.allocate("n1", [one("b")])
    assert isinstance(outcome, Unsatisfiable)
    assert "fabric.lanes short by 1" in str(outcome.reasons())


def test_a_renamed_device_of_a_common_pool_is_not_the_one_in_use(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(1), [slice_(device("old"), everywhere=True)], [ANY])
    assert place(fleet, [one("a")]) == "n0"
    assert place(fleet, [one("b")]) is None
    fleet.set_slice(slice_(device("new"), everywhere=True))
    assert place(fleet, [one("b")]) == "n0"


def test_labels_decide_who_reaches_a_pool(make_fleet: MakeFleet) -> None:
    slices = [slice_(device("nvme"), on=selector(where("zone", "In", "z1")))]
    fleet = make_fleet([node("n0", zone="z2"), node("n1", zone="z1")], slices, [ANY])
    found = fleet.find([one()])
    assert isinstance(found, Allocated)
    assert found.node == "n1"
    assert found.results[0].node_selector == selector(where("zone", "In", "z1"))
    fleet.set_node(node("n0", zone="z1"))
    found = fleet.find([one()])
    assert isinstance(found, Allocated)
    assert found.node == "n0"


def test_a_pool_that_comes_does_not_touch_nodes_that_cannot_reach_it(make_fleet: MakeFleet) -> None:
    fleet = make_fleet([node("n0", zone="z2"), node("n1", zone="z1")], [], [ANY])
    before = dict(fleet.places)
    fleet.set_slice(slice_(device("nvme"), on=selector(where("zone", "In", "z1"))))
    assert fleet.places["n0"] is before["n0"]
    assert fleet.places["n1"] is not before["n1"]


REACHES: dict[str, dict[str, object]] = {
    "n0": {"on": "n0"},
    "z1": {"on": selector(where("zone", "In", "z1"))},
    "not z1": {"on": selector(where("zone", "NotIn", "z1"))},
    "everybody": {"everywhere": True},
    "nobody": {"on": None},
    "broken": {"on": selector(where("zone", "Near", "z1"))},
    "by device": {"per_device": True},
}


@suppose(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["p", "q"]),
            st.sampled_from([*REACHES, None]),
            st.integers(1, 2),
        ),
        max_size=12,
    )
)
def test_whoever_a_pool_reaches_hears_of_its_slices(steps: list[tuple[str, str, str | None, int]]) -> None:
    """Slices come, go, and change whom they reach; a fleet that was asked in between knows what a new one does."""
    there = [node(f"n{number}", zone=f"z{number % 2}") for number in range(4)]
    slices: dict[str, ResourceSlice] = {}
    fleet = Fleet(there, [], [ANY])
    for name, pool, reach, of in steps:
        if reach is None:
            slices.pop(name, None)
            fleet.remove_slice(name)
        else:
            chosen = device(f"{name}0", on="n2") if reach == "by device" else device(f"{name}0")
            slices.pop(
                name, None
            )  # the one that came last is last: of contradictory ones the first is believed
            slices[name] = slice_(chosen, name=name, pool=pool, of=of, **REACHES[reach])  # type: ignore[arg-type]  # as the table has them
            fleet.set_slice(slices[name])
        assert _told(fleet) == _told(Fleet(there, slices.values(), [ANY]))
    fleet.validate()


def _told(fleet: Fleet) -> dict[str, tuple[bool, str]]:
    return {name: (group.fits, group.words) for group in fleet.survey([one()]) for name in group.nodes}


def test_a_node_whose_result_cannot_be_written_down_is_passed_over(make_fleet: MakeFleet) -> None:
    """Selectors with several terms cannot be joined; upstream calls that an error, and here it is one of that node."""
    slices = [
        slice_(device("x"), name="odd", pool="odd", on=_two_terms("a", "b")),
        slice_(device("y"), name="plain", on="n1"),
    ]
    fleet = make_fleet([node("n0", a="1"), node("n1")], slices, [ANY])
    found = fleet.find([one()])
    assert isinstance(found, Allocated)
    assert found.node == "n1"
    words = {name: group.words for group in fleet.survey([one()]) for name in group.nodes}
    assert "nodeSelector has 2 terms" in words["n0"]


def _two_terms(*labels: str) -> NodeSelector:
    return selector_of(*[selector(where(label, "Exists")).node_selector_terms[0] for label in labels])


def test_a_broken_node_selector_keeps_nodes_out_with_that_reason(make_fleet: MakeFleet) -> None:
    slices = [slice_(device("x"), on=selector(where("zone", "Near", "z1")))]
    fleet = make_fleet([node("n0")], slices, [ANY])
    (group,) = fleet.survey([one()])
    assert not group.fits
    assert "operator 'Near' is not one of" in group.words


def test_a_broken_selector_of_a_device_that_nobody_comes_to_does_no_harm(make_fleet: MakeFleet) -> None:
    """As with expressions: the search takes the first device and never asks about the second."""
    broken = device("d1", on=selector(where("zone", "Near", "z1")))
    fleet = make_fleet([node("n0")], [slice_(device("d0", on="n0"), broken, per_device=True)], [ANY])
    assert place(fleet, [one("a")]) == "n0"
    (group,) = fleet.survey([one("b")])
    assert "operator 'Near'" in group.words


# --- states that could be mistaken for one another ---


@pytest.mark.parametrize("plain", range(2, 10))
def test_nodes_of_different_kinds_do_not_take_each_others_answers(make_fleet: MakeFleet, plain: int) -> None:
    """So many nodes with plain devices beside one whose pool is invalid: it fits nothing, and says why."""
    broken = slice_(device("d"), device("d"), name="broken", pool="broken", on="z")
    fleet = make_fleet([*nodes(plain), node("z")], [*own_slices(*range(1, plain + 1)), broken], [ANY])
    groups = fleet.survey([one()])
    assert [
        (group.nodes, "duplicate device name d" in group.words) for group in groups if not group.fits
    ] == [(["z"], True)]


def test_a_demand_at_fault_is_surveyed_while_nodes_come_and_go(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(2), own_slices(1, 1), [])
    assert [group.nodes for group in fleet.survey([one()])] == [["n0", "n1"]]
    fleet.remove_node("n0")
    assert [group.nodes for group in fleet.survey([one()])] == [["n1"]]
    fleet.set_node(node("n0"))
    assert [sorted(group.nodes) for group in fleet.survey([one()])] == [["n0", "n1"]]


def test_a_device_whose_flaw_is_lazy_is_an_error_only_where_it_is_free(make_fleet: MakeFleet) -> None:
    """The first device lacks the model. In use it is not asked about, so the two nodes are in different states."""
    slices = [
        slice_(device("d0"), device("d1", model="a"), name=f"s{n}", pool=f"p{n}", on=f"n{n}")
        for n in range(2)
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    fleet.ledger.hold("other", (whole("d0", "p1"),))
    wanted = [one("c", f'{mine("model")} == "a"')]
    words = {name: group.words for group in fleet.survey(wanted) for name in group.nodes}
    assert "no such key: model" in words["n0"]
    assert words["n1"] == ""
    assert place(fleet, wanted) == "n1"


def test_shares_of_no_capacity_come_and_go(make_fleet: MakeFleet) -> None:
    fleet = make_fleet([node()], [slice_(device("nic", shared=True, capacity={"bw": "10"}))], [ANY])
    fleet.ledger.hold("a", (share("nic", bw="0"),))
    fleet.ledger.hold("b", (share("nic", bw="0"),))
    fleet.ledger.release("a")
    fleet.ledger.release("b")
    assert place(fleet, [claim(request("r", capacity={"bw": "10"}))]) == "node-1"


# --- keeping up ---


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "_LOG_KEPT", 4)


@pytest.mark.usefixtures("short_log")
def test_a_view_that_fell_too_far_behind_starts_anew(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(4), own_slices(3, 3, 3, 3), [ANY])
    fleet.survey([one()])
    pairs = claim(request("r", count=2), name="pairs")
    fleet.find([pairs])
    homes = [place(fleet, [one(f"c{number}")]) for number in range(11)]
    assert homes == ["n0"] * 3 + ["n1"] * 3 + ["n2"] * 3 + ["n3"] * 2
    assert isinstance(fleet.find([pairs]), Nowhere)
    assert {name for group in fleet.survey([one()]) if group.fits for name in group.nodes} == {"n3"}


def test_only_so_many_views_are_kept(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(2), own_slices(3, 3), [ANY])
    for number in range(fleet_module._VIEWS_KEPT + 5):
        fleet.find([one("c", f"{number} == {number}")])
    assert len(fleet._views) == fleet_module._VIEWS_KEPT


def test_a_fork_of_the_ledger_is_seen_and_its_end_too(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(1), own_slices(1), [ANY])
    with fleet.ledger.fork():
        assert place(fleet, [one("a")]) == "n0"
        assert place(fleet, [one("b")]) is None
    assert place(fleet, [one("b")]) == "n0"


def test_a_pool_moves_to_another_node(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(nodes(2), [slice_(device("d"), on="n0")], [ANY])
    assert place(fleet, [one("a")]) == "n0"
    fleet.set_slice(slice_(device("d"), on="n1"))
    assert place(fleet, [one("b")]) is None  # still held by a
    fleet.ledger.release("ns/a")
    assert place(fleet, [one("b")]) == "n1"


def test_distinct_values_are_counted_per_node(make_fleet: MakeFleet) -> None:
    slices = [
        slice_(
            *[device(f"d{i}", root=f"{n}-{i % values}") for i in range(4)],
            name=f"s{n}",
            pool=f"p{n}",
            on=f"n{n}",
        )
        for n, values in enumerate((1, 2, 4))
    ]
    fleet = make_fleet(nodes(3), slices, [ANY])
    wanted = claim(request("r", count=3), constraints=[distinct("root")])
    assert {name for group in fleet.survey([wanted]) if group.fits for name in group.nodes} == {"n2"}


def test_amounts_that_are_written_differently_are_different(make_fleet: MakeFleet) -> None:
    """A default need not keep to its policy, but upstream knows it by how it is written."""
    slices = [
        slice_(
            device("d", capacity={"m": policed("10Gi", default, min="1Gi", max="2Gi")}),
            name=name,
            pool=name,
            on=name,
        )
        for name, default in (("n0", "3221225472"), ("n1", "3Gi"))
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    groups = fleet.survey([claim(request("r", capacity={"m": "3Gi"}))])
    assert [(group.fits, group.nodes) for group in groups] == [(True, ["n1"]), (False, ["n0"])]


# --- what a driver took back ---


def test_a_device_that_is_shared_no_more_is_in_use_until_its_shares_are_released(
    make_fleet: MakeFleet,
) -> None:
    """Upstream would give it away whole; the ledger does not promise a device twice, so the fleet does not offer it."""
    fleet = make_fleet(nodes(1), [slice_(device("nic", shared=True), on="n0")], [ANY])
    assert place(fleet, [one("a")]) == "n0"
    fleet.set_slice(slice_(device("nic", shared=False), on="n0"))
    assert place(fleet, [one("b")]) is None
    outcome = fleet.allocate("n0", [one("b")])
    assert isinstance(outcome, Unsatisfiable)
    assert "1 in use (by ns/a)" in str(outcome.reasons())
    fleet.ledger.release("ns/a")
    assert place(fleet, [one("b")]) == "n0"


def test_of_a_problem_that_is_written_down_upstream_decides() -> None:
    outcome = allocate([slice_(device("nic"))], one(), held=held(shared={"nic": {}}))
    assert given(outcome) == ["r=nic"]


def test_nothing_is_overdrawn_by_decisions_of_ours(make_fleet: MakeFleet) -> None:
    nic = device("nic", shared=True, capacity={"bw": "10"})
    fleet = make_fleet(nodes(2), [slice_(nic, everywhere=True)], [ANY])
    while place(fleet, [claim(request("r", capacity={"bw": "4"}), name=f"c{len(fleet.ledger)}")]):
        assert fleet.overdrawn() == []
    assert len(fleet.ledger) == 2


def test_a_shrunk_device_is_overdrawn_and_told_once(make_fleet: MakeFleet) -> None:
    """Nobody has asked these nodes anything yet, and all of them reach the device."""
    small = device("nic", shared=True, capacity={"bw": "5"})
    fleet = make_fleet(nodes(3), [slice_(small, everywhere=True)], [ANY])
    fleet.ledger.hold("a", (share("nic", bw="6"),))
    assert fleet.overdrawn() == [f"device {DRIVER}/pool/nic: capacity bw"]
    assert place(fleet, [one()]) is None
    fleet.ledger.release("a")
    assert fleet.overdrawn() == []


def test_shrunk_counters_are_overdrawn_on_every_node_that_draws_on_them(make_fleet: MakeFleet) -> None:
    cost = [draw("fabric", lanes="2")]
    slices = [
        slice_(device("a", draws=cost), name="s0", on="n0", of=3),
        slice_(device("b", draws=cost), name="s1", on="n1", of=3),
        slice_(name="s2", everywhere=True, of=3, counters=[counter_set("fabric", lanes="1")]),
    ]
    fleet = make_fleet(nodes(2), slices, [ANY])
    assert fleet.overdrawn() == []
    fleet.ledger.hold("old", (whole("a"),))
    assert fleet.overdrawn() == ["node n0: counters", "node n1: counters"]


# --- any sequence of changes ---


@settings(max_examples=30, deadline=None)
@example(
    seed=37340485
)  # a pool that nodes share has a selector that no allocation can write; one node has other devices before it
@suppose(seed=st.integers(0, 2**32 - 1))
def test_a_fleet_agrees_with_a_fresh_allocator_after_every_change(seed: int) -> None:
    run(random.Random(seed), changes=8)
