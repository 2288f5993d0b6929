"""Trees as pools: ids, inheritance, locks, what is gone, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from allotment.allocator.held import Held
from allotment.allocator.outcome import Unsatisfiable
from allotment.allocator.pool import DeviceID, Pool
from allotment.allocator.semantic_pools import DEPTH_MAX, Instance, partition_pools
from allotment.allocator.strategy import BEST_FIT
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.semantic import (
    NodeResourceSlice,
    NodeResourceSliceSpec,
    ResourceInstance,
)
from allotment.api.semver import Version
from tests.allocator.trees import (
    DRIVER,
    NODE,
    ask,
    at,
    attribute,
    card,
    group,
    ids,
    leaf,
    slice_of,
    split,
)

ANY = "true"


def pool_of(*slices: NodeResourceSlice, held: tuple[DeviceID, ...] = ()) -> Pool:
    (pool,) = partition_pools(NODE, slices, held)
    return pool


def names(pool: Pool) -> list[str]:
    return [device.id.device for device in pool.devices]


def instance(pool: Pool, id: str) -> Instance:
    (found,) = [device for device in pool.devices if device.id.device == id]
    assert isinstance(found, Instance)
    return found


# --- shape ---


def test_leaves_become_devices_in_depth_first_order() -> None:
    pool = pool_of(slice_of(leaf("a"), card("b"), leaf("c")))
    assert names(pool) == [
        "a",
        "b/whole/gpu",
        "b/parts/half",
        "b/parts/rest/half/half",
        "b/parts/rest/quarters/q0",
        "b/parts/rest/quarters/q1",
        "c",
    ]


def test_slices_of_one_driver_on_a_node_are_one_pool_named_after_the_node() -> None:
    slices = [
        slice_of(leaf("z"), name="s2"),
        slice_of(leaf("y"), name="s1"),
        slice_of(leaf("y"), name="s3", on="n2"),
        slice_of(leaf("y"), name="s4", driver="a.example.com"),
    ]
    first, second = partition_pools(NODE, slices)
    assert (first.id.driver, first.id.pool, names(first)) == ("a.example.com", NODE, ["y"])
    assert (second.id.driver, second.id.pool, names(second)) == (DRIVER, NODE, ["y", "z"])


def test_a_group_without_instances_and_a_slice_without_any_offer_nothing() -> None:
    assert names(pool_of(slice_of(split("a", group("empty"))))) == []
    assert names(pool_of(slice_of())) == []


def test_leaves_that_add_nothing_share_their_attributes() -> None:
    pool = pool_of(slice_of(split("a", group("g", leaf("x"), leaf("y"), leaf("z", "4Gi")), amount="8Gi")))
    assert instance(pool, "a/g/x").maps is instance(pool, "a/g/y").maps
    assert instance(pool, "a/g/z").maps["quantities"] == {"memory": Quantity.parse("4Gi")}


# --- attributes ---


def test_the_nearest_attribute_wins() -> None:
    common = {"low": [attribute("memory", quantity="1Gi"), attribute("cores", int=1)]}
    tree = split(
        "a",
        group("by-group", leaf("x"), amount="2Gi"),
        group("by-instance", leaf("x", "3Gi"), amount="2Gi"),
        group("by-reference", leaf("x", refs=["low"]), amount="2Gi"),
        group("own-before-reference", leaf("x", "4Gi", refs=["low"])),
        group("inherited", leaf("x")),
        amount="9Gi",
    )
    pool = pool_of(slice_of(tree, common=common))
    got = {device.id.device.split("/")[1]: instance(pool, device.id.device).maps for device in pool.devices}
    assert {name: str(maps["quantities"]["memory"]) for name, maps in got.items()} == {
        "by-group": "2Gi",
        "by-instance": "3Gi",
        "by-reference": "1Gi",
        "own-before-reference": "4Gi",
        "inherited": "9Gi",
    }
    assert got["by-reference"]["ints"] == {"cores": 1}
    assert got["inherited"]["ints"] == {}


def test_the_later_of_two_references_wins() -> None:
    common = {"a": [attribute("x", int=1), attribute("y", int=1)], "b": [attribute("x", int=2)]}
    pool = pool_of(slice_of(leaf("i", refs=["a", "b"]), leaf("j", refs=["b", "a"]), common=common))
    assert instance(pool, "i").maps["ints"] == {"x": 2, "y": 1}
    assert instance(pool, "j").maps["ints"] == {"x": 1, "y": 1}


def test_a_nearer_attribute_of_another_type_hides_the_farther_one() -> None:
    tree = split("a", group("g", leaf("x", None, attribute("memory", string="plenty"))), amount="8Gi")
    maps = instance(pool_of(slice_of(tree)), "a/g/x").maps
    assert maps["strings"] == {"memory": "plenty"}
    assert maps["quantities"] == {}


def test_every_type_of_value_has_its_map() -> None:
    attributes = [
        attribute("q", quantity="1500m"),
        attribute("b", bool=False),
        attribute("i", int=0),
        attribute("is", intSlice=[2, 1]),
        attribute("s", string=""),
        attribute("ss", stringSlice=[]),
        attribute("v", version=" v12.01 "),  # spaces, a leading v, leading zeros and no patch are fine
    ]
    assert instance(pool_of(slice_of(leaf("x", None, *attributes))), "x").maps == {
        "quantities": {"q": Quantity.parse("1.5")},
        "bools": {"b": False},
        "ints": {"i": 0},
        "intSlices": {"is": [2, 1]},
        "strings": {"s": ""},
        "stringSlices": {"ss": []},
        "versions": {"v": Version.parse("12.1.0")},
    }


# --- what is refused ---


def unknown_model() -> NodeResourceSlice:
    spec = NodeResourceSliceSpec(node_name=NODE, driver_name=DRIVER)
    return NodeResourceSlice(metadata=ObjectMeta(name="slice"), spec=spec)


def deep(levels: int) -> ResourceInstance:
    found = leaf("x")
    for _ in range(levels):
        found = split("x", group("g", found))
    return found


@pytest.mark.parametrize(
    ("slices", "flaw"),
    [
        pytest.param([unknown_model()], "slice slice: has no model that we know", id="unknown model"),
        pytest.param(
            [slice_of(leaf("a"), name="ok"), unknown_model()], "has no model", id="one of two slices unknown"
        ),
        pytest.param(
            [slice_of(split("a", group("g", leaf("x", refs=["a4-quarters"]))))],
            "'a/g/x' refers to common attributes 'a4-quarters', which are not defined",
            id="dangling reference",
        ),
        pytest.param(
            [slice_of(split("a", group("g", leaf("x"), refs=["none"])))],
            "'a/g' refers to common attributes 'none'",
            id="dangling reference of a group",
        ),
        pytest.param(
            [slice_of(leaf("a"), common={"c": [attribute("x")]})],
            "common attributes 'c': attribute 'x' has no values; it must have exactly one",
            id="no value, although nobody refers to it",
        ),
        pytest.param(
            [slice_of(leaf("a", None, attribute("x", int=1, string="1")))],
            "'a': attribute 'x' has 2 values; it must have exactly one",
            id="two values",
        ),
        pytest.param(
            [slice_of(leaf("a", "1Gi", attribute("memory", int=1)))],
            "'a': attribute 'memory' is given twice",
            id="the same attribute twice in one list",
        ),
        pytest.param(
            [slice_of(leaf("a", None, attribute("x", version="new")))],
            "'a': attribute 'x': ",
            id="not a version",
        ),
        pytest.param(
            [slice_of(leaf("a", None, attribute("numa.k8s.io", int=1)))],
            "'a': attribute 'numa.k8s.io': names ending in .k8s.io are reserved",
            id="reserved attribute",
        ),
        pytest.param(
            [slice_of(split("a", group("g.k8s.io", leaf("x"))))],
            "'a/g.k8s.io': names ending in .k8s.io are reserved",
            id="reserved group",
        ),
        pytest.param(
            [slice_of(leaf("a", None, attribute("", int=1)))], "has no name", id="nameless attribute"
        ),
        pytest.param([slice_of(leaf(""))], "must not be empty", id="nameless instance"),
        pytest.param([slice_of(leaf("a/g/x"))], "contain '/'", id="a name that looks like an id"),
        pytest.param(
            [slice_of(leaf("a"), leaf("a"))], "'a' is defined twice", id="two instances of one name"
        ),
        pytest.param(
            [slice_of(leaf("a"), name="s1"), slice_of(card("a"), name="s2")],
            "slice s2: 'a' is defined twice",
            id="one name in two slices",
        ),
        pytest.param(
            [slice_of(split("a", group("g", leaf("x")), group("g", leaf("y"))))],
            "'a/g' is defined twice",
            id="two groups of one name",
        ),
        pytest.param([slice_of(deep(DEPTH_MAX + 1))], "nested deeper", id="too deep"),
    ],
)
def test_a_pool_with_a_flaw_is_invalid_and_says_why(slices: list[NodeResourceSlice], flaw: str) -> None:
    pool = pool_of(*slices)
    assert flaw in pool.invalid
    assert pool.devices == ()
    assert not pool.usable


def test_trees_may_be_deep() -> None:
    pool = pool_of(slice_of(deep(DEPTH_MAX)))
    assert len(pool.devices) == 1
    assert len(pool.devices[0].spec.consumes_counters) == DEPTH_MAX


# --- locks ---


def at_least(amount: str) -> str:
    return f'quantities["memory"] >= "{amount}"'


def test_using_one_group_locks_its_siblings() -> None:
    cards = [slice_of(card("a"))]
    assert ids(ask(cards, ANY, ANY)) == ["a/parts/half", "a/parts/rest/half/half"]
    assert ids(ask(cards, ANY, held=at("a/parts/half"))) == ["a/parts/rest/half/half"]
    assert isinstance(ask(cards, ANY, held=at("a/whole/gpu")), Unsatisfiable)


def test_a_nested_choice_is_locked_on_its_own() -> None:
    cards = [slice_of(card("a"))]
    assert ids(ask(cards, ANY, ANY, held=at("a/parts/rest/quarters/q0"))) == [
        "a/parts/half",
        "a/parts/rest/quarters/q1",
    ]
    assert isinstance(ask(cards, ANY, ANY, ANY, held=at("a/parts/rest/quarters/q0")), Unsatisfiable)


def test_three_parts_make_the_search_turn_back_twice() -> None:
    cards = [slice_of(card("a"))]
    assert ids(ask(cards, ANY, ANY, ANY)) == [
        "a/parts/half",
        "a/parts/rest/quarters/q0",
        "a/parts/rest/quarters/q1",
    ]
    assert isinstance(ask(cards, ANY, ANY, ANY, ANY), Unsatisfiable)


def test_a_lock_is_released_with_the_last_part_that_holds_it() -> None:
    cards = [slice_of(card("a"))]
    held = at("a/parts/half", "a/parts/rest/quarters/q1")
    whole = at_least("32Gi")
    assert isinstance(ask(cards, whole, held=held), Unsatisfiable)
    assert isinstance(ask(cards, whole, held=held[1:]), Unsatisfiable)
    assert ids(ask(cards, whole, held=[])) == ["a/whole/gpu"]


def test_locks_of_one_card_leave_others_alone() -> None:
    assert ids(ask([slice_of(card("a"), card("b"))], ANY, held=at("a/whole/gpu"))) == ["b/whole/gpu"]


def test_two_groups_in_use_at_once_block_their_card_and_no_other() -> None:
    """It should not happen, but two schedulers or a careless edit can bring it about."""
    held = at("a/whole/gpu", "a/parts/half")
    assert ids(ask([slice_of(card("a"), card("b"))], ANY, held=held)) == ["b/whole/gpu"]


def test_a_split_instance_cannot_be_had_itself() -> None:
    assert isinstance(ask([slice_of(split("a", group("g")))], ANY), Unsatisfiable)


def test_the_same_id_in_use_on_another_node_or_of_another_driver_does_not_matter() -> None:
    held = at("a", on="n2") + at("a", driver="other.example.com")
    assert ids(ask([slice_of(leaf("a"))], ANY, held=held)) == ["a"]


# --- capacity that shrinks ---


def test_a_part_that_is_gone_still_locks_the_other_groups() -> None:
    shrunk = split("a", group("whole", leaf("gpu")), group("parts", leaf("half")))
    held = at("a/parts/rest/quarters/q0")
    assert ids(ask([slice_of(shrunk)], ANY, held=held)) == ["a/parts/half"]
    assert isinstance(ask([slice_of(shrunk)], ANY, ANY, held=held), Unsatisfiable)


def test_a_group_that_is_gone_still_locks_the_others() -> None:
    shrunk = split("a", group("whole", leaf("gpu")))
    assert isinstance(ask([slice_of(shrunk)], ANY, held=at("a/parts/half")), Unsatisfiable)


def test_a_card_that_is_gone_locks_nothing_else() -> None:
    assert ids(ask([slice_of(card("b"))], ANY, held=at("a/parts/half"))) == ["b/whole/gpu"]


def test_an_instance_in_use_whole_locks_the_parts_it_has_since_been_split_into() -> None:
    assert isinstance(ask([slice_of(card("a"))], ANY, held=at("a")), Unsatisfiable)
    inner = at("a/parts/rest")
    assert ids(ask([slice_of(card("a"))], ANY, held=inner)) == ["a/parts/half"]
    assert isinstance(ask([slice_of(card("a"))], ANY, ANY, held=inner), Unsatisfiable)


def test_a_part_in_use_locks_the_instance_that_has_since_been_made_whole() -> None:
    slices = [slice_of(leaf("a"), leaf("b"))]
    assert ids(ask(slices, ANY, held=at("a/parts/half"))) == ["b"]
    inner = [slice_of(split("a", group("parts", leaf("half"), leaf("rest"))))]
    held = at("a/parts/rest/quarters/q0")
    assert ids(ask(inner, ANY, held=held)) == ["a/parts/half"]
    assert isinstance(ask(inner, ANY, ANY, held=held), Unsatisfiable)


def test_what_is_gone_can_never_be_chosen() -> None:
    pool = pool_of(slice_of(leaf("a")), held=tuple(at("b", "c/g/x")))
    assert names(pool) == ["a"]
    assert [device.id.device for device in pool.elsewhere] == ["b", "c/g/x"]


# --- best fit ---


def test_the_part_of_an_instance_goes_by_its_quantities_or_else_by_the_tree() -> None:
    sized = pool_of(slice_of(leaf("small", "16Gi"), card("a")))
    assert [instance(sized, name).part for name in names(sized)] == [
        Fraction(1, 2),
        Fraction(1),
        Fraction(1, 2),
        Fraction(1, 2),
        Fraction(1, 4),
        Fraction(1, 4),
    ]
    halves = group("halves", leaf("x"), split("y", group("g", leaf("1"), leaf("2"))))
    plain = pool_of(slice_of(leaf("small"), split("a", group("whole", leaf("gpu")), halves)))
    assert [instance(plain, name).part for name in names(plain)] == [
        1, 1, Fraction(1, 2), Fraction(1, 4), Fraction(1, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wish", "held", "first_fit", "best_fit"),
    [
        pytest.param("8Gi", [], "big", "a/parts/rest/quarters/q0", id="the smallest that does"),
        pytest.param(
            "8Gi",
            ["b/parts/rest/quarters/q1"],
            "big",
            "b/parts/rest/quarters/q0",
            id="a part of the card that is already broken up",
        ),
        pytest.param(
            "16Gi",
            ["b/parts/half"],
            "big",
            "b/parts/rest/half/half",
            id="half of a broken card before others",
        ),
        pytest.param(
            "16Gi", [], "big", "mid", id="a whole card of the right size before breaking a larger one"
        ),
        pytest.param("32Gi", [], "big", "a/whole/gpu", id="not the largest"),
        pytest.param("64Gi", [], "big", "big", id="unless it is needed"),
    ],
)
def test_best_fit_gives_away_what_is_least_missed(
    wish: str, held: list[str], first_fit: str, best_fit: str
) -> None:
    slices = [slice_of(leaf("big", "64Gi"), card("a"), leaf("mid", "16Gi"), card("b"))]
    assert ids(ask(slices, at_least(wish), held=at(*held))) == [first_fit]
    assert ids(ask(slices, at_least(wish), held=at(*held), strategy=BEST_FIT)) == [best_fit]


def test_the_holdings_may_be_told_apart_from_the_ids() -> None:
    """A ledger knows who holds an id; the reasons name them."""

    class Named(Held):
        def holders(self, device: DeviceID) -> list[str]:
            return ["ns/other"]

    held = at("a")
    outcome = ask([slice_of(leaf("a"))], ANY, held=held, holdings=Named(held))
    assert isinstance(outcome, Unsatisfiable)
    assert "by ns/other" in str(outcome.reasons())
