"""x-kubernetes-validations: what rules see, what they say, and what they may cost."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.status import told_as_cause
from allotment.apiserver.registry.custom.declarations import escaped
from allotment.apiserver.registry.custom.rules import OBJECT_BUDGET, RuleTree, rule_tree
from allotment.apiserver.registry.custom.structural import Structural
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, Raw, array, obj, rule

Told = list[tuple[str, str]]


def tree(schema: Raw) -> RuleTree:
    made = rule_tree(Structural(obj(x=schema)), root=True)
    assert made is not None
    return made


def run(schema: Raw, value: Any, old: Any = None, ratchet: bool = False) -> Told:
    verdict = tree(schema).run({"x": value}, {"x": old} if old is not None else None, ratchet)
    return [(str(error.path), told_as_cause(error)) for error in verdict.errors]


KEPT: dict[str, tuple[Raw, Any]] = {
    "a field": ({**obj(a=WHOLE), **rule("self.a > 1")}, {"a": 2}),
    "names are escaped": (
        {**obj(namespace=TEXT, **{"a-b": TEXT}), **rule("self.__namespace__ == self.a__dash__b")},
        {"namespace": "x", "a-b": "x"},
    ),
    "reserved words may stand after a dot": (
        {**obj(metadata=obj(namespace=TEXT), **{"if": WHOLE}), **rule("self.metadata.namespace == 'x' && self.if == 1")},
        {"metadata": {"namespace": "x"}, "if": 1},
    ),
    "and be asked for": ({**obj(namespace=TEXT), **rule("!has(self.namespace) && !has(self.__namespace__)")}, {}),
    "an optional that is absent has nothing": (
        {**obj(a=obj(b=obj(c=TEXT))), **rule("!has(self.?a.b) && !has(self.?a.b.c) && !has(optional.none().b)")},
        {},
    ),
    "times are times": (
        {"type": "string", "format": "date-time", **rule("self > timestamp('2020-01-01T00:00:00Z')")},
        "2021-01-01T00:00:00Z",
    ),
    "dates, too": ({"type": "string", "format": "date", **rule("self.getFullYear() == 2021")}, "2021-01-01"),
    "durations": ({"type": "string", "format": "duration", **rule("self < duration('1h')")}, "2m"),
    "bytes": ({"type": "string", "format": "byte", **rule("size(self) == 2")}, "YWI="),
    "numbers are doubles": ({"type": "number", **rule("self > 1.5")}, 2),
    "either is what it is": (
        {"x-kubernetes-int-or-string": True, **rule("type(self) == int ? self > 0 : self.endsWith('%')")},
        "5%",
    ),
    "null where it may stand": (
        {**obj(a={**TEXT, "nullable": True}), **rule("!has(self.a) || dyn(self.a) == null")},
        {"a": None},
    ),
    "maps": ({"type": "object", "additionalProperties": WHOLE, **rule("self.all(k, v, k != 'x' && v > 0)")}, {"a": 1}),
    "what is absent": ({**obj(a=WHOLE), **rule("!has(self.a)")}, {}),
    "a change, where nothing was": ({**WHOLE, **rule("self == oldSelf")}, 1),
    "quantities": ({**TEXT, **rule("quantity(self).isGreaterThan(quantity('1'))")}, "2"),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: str) -> None:
    schema, value = KEPT[case]
    assert run(schema, value) == []


BROKEN: dict[str, tuple[Raw, Any, Told]] = {
    "told by its text": (
        {**WHOLE, **rule("self > 1")},
        1,
        [("x", "Invalid value: 1: failed rule: self > 1")],
    ),
    "by its message, without the object": (
        {**obj(a=WHOLE), **rule("self.a > 1", message=" too small ")},
        {"a": 1},
        [("x", "Invalid value: too small")],
    ),
    "by its expression": (
        {**WHOLE, **rule("self > 1", message="m", messageExpression="'not ' + string(self)")},
        1,
        [("x", "Invalid value: 1: not 1")],
    ),
    "by its message where the expression fails": (
        {**WHOLE, **rule("self > 1", message="m", messageExpression="string(1 / (self - 1))")},
        1,
        [("x", "Invalid value: 1: m")],
    ),
    "at a field, for a reason": (
        {**obj(a=WHOLE), **rule("self.a > 1", fieldPath=".a", reason="FieldValueForbidden", message="m")},
        {"a": 1},
        [("x.a", "Forbidden: m")],
    ),
    "in every element": (
        array({**WHOLE, **rule("self > 1", message="m")}, maxItems=9),
        [2, 1, 0],
        [("x[1]", "Invalid value: 1: m"), ("x[2]", "Invalid value: 0: m")],
    ),
    "in values of maps": (
        {"type": "object", "additionalProperties": {**WHOLE, **rule("self > 1", message="m")}},
        {"k": 1},
        [("x[k]", "Invalid value: 1: m")],
    ),
    "it cannot be evaluated": (
        array(WHOLE, **rule("self[2] > 1")),
        [1],
        [("x", 'Invalid value: "array": index out of bounds: 2 evaluating rule: self[2] > 1')],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(case: str) -> None:
    schema, value, expected = BROKEN[case]
    assert run(schema, value) == expected


def test_a_rule_that_does_not_fit_the_value() -> None:
    (told,) = run({"x-kubernetes-int-or-string": True, **rule("self > 1")}, "a")
    assert "call arguments did not match a supported operator" in told[1]


def test_what_kubernetes_does_not_offer_to_rules_is_not_there() -> None:
    (told,) = run({**WHOLE, **rule("cel.bind(x, self, x > 1)")}, 2)
    assert "undeclared reference to 'cel'" in told[1]


def test_changes_are_judged_where_there_was_something() -> None:
    schema = {**WHOLE, **rule("self >= oldSelf", message="may not shrink")}
    assert run(schema, 2, 1) == []
    assert run(schema, 1, 2) == [("x", "Invalid value: 1: may not shrink")]


def test_a_rule_may_ask_whether_there_was_something() -> None:
    once = {
        **TEXT,
        **rule("!oldSelf.hasValue() || oldSelf.value() == self", optionalOldSelf=True, message="once"),
    }
    assert run(once, "a") == []
    assert run(once, "a", "a") == []
    assert run(once, "b", "a") == [("x", 'Invalid value: "b": once')]


def test_elements_are_matched_by_their_keys() -> None:
    items = obj(id=TEXT, n={**WHOLE, **rule("self >= oldSelf", message="shrank")})
    schema = array(
        items, maxItems=9, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    )
    old = [{"id": "a", "n": 1}, {"id": "b", "n": 5}]
    assert run(schema, [{"id": "b", "n": 5}, {"id": "a", "n": 1}, {"id": "c", "n": 0}], old) == []
    assert run(schema, [{"id": "b", "n": 4}], old) == [("x[0].n", "Invalid value: 4: shrank")]


def test_what_did_not_change_is_only_warned_of() -> None:
    schema = obj(a={**WHOLE, **rule("self > 1", message="m")}, b=TEXT)
    verdict = tree(schema).run({"x": {"a": 1, "b": "2"}}, {"x": {"a": 1, "b": "1"}}, ratchet=True)
    assert (verdict.errors, [error.message for error in verdict.warnings]) == ([], ["m"])
    assert run(schema, {"a": 0}, {"a": 1}, ratchet=True) == [("x.a", "Invalid value: 0: m")]


def test_every_object_has_a_name_and_a_kind() -> None:
    made = rule_tree(
        Structural({**obj(), **rule("self.metadata.name.startsWith('a') && self.kind == 'K'")}), root=True
    )
    assert made is not None
    head = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "abc"}}
    assert made.run(head).errors == []
    assert [str(error.path) for error in made.run({**head, "kind": "L"}).errors] == ["<nil>"]


def test_metadata_shows_two_names_unless_the_schema_declares_it_whole() -> None:
    whole = {"apiVersion": TEXT, "kind": TEXT, "metadata": obj(name=TEXT, generateName=TEXT, namespace=TEXT)}
    asks = rule("self.metadata.namespace == 'x'")
    head = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "namespace": "x"}}
    shown = rule_tree(Structural({**obj(**whole), **asks}), root=True)
    assert shown is not None
    assert shown.run(head).errors == []
    hidden = rule_tree(Structural({**obj(metadata=obj(namespace=TEXT)), **asks}), root=True)
    assert hidden is not None
    assert "undefined field 'namespace'" in hidden.rules[0].problem


def test_rules_about_names_have_a_bounded_cost() -> None:
    made = rule_tree(
        Structural({**obj(), **rule("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")}), root=True
    )
    assert made is not None
    assert made.rules[0].max_cost < 10_000


def test_a_costly_rule_is_stopped() -> None:
    ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    schema = {**TEXT, **rule(f"{ten}.all(a, {ten}.all(b, !self.contains('b')))")}
    assert run(schema, "a" * 10_000) == []
    (told,) = run(schema, "a" * 200_000)
    assert "actual cost limit exceeded" in told[1]


@pytest.mark.soak
def test_a_rule_of_many_cheap_steps_is_stopped() -> None:
    schema = array(WHOLE, **rule("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"))
    (told,) = run(schema, list(range(300)))
    assert "actual cost limit exceeded" in told[1]


def test_all_rules_of_an_object_share_a_budget() -> None:
    inner = array(WHOLE, **rule("self.all(a, self.all(b, a + b >= 0))"))
    schema = array(inner)
    value = [list(range(300))] * 40
    verdict = tree(schema).run({"x": value})
    assert verdict.budget < 0
    assert OBJECT_BUDGET > 0
    assert "running out of cost budget" in verdict.errors[-1].message


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("size", "size"),
        ("namespace", "__namespace__"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("1a", None),
        ("a b", None),
        ("", None),
    ],
)
def test_names_in_rules(name: str, known_as: str | None) -> None:
    assert escaped(name) == known_as
