"""The words of a refusal, which clients show to people, and the rules about rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.status import Forbidden
from allotment.apiserver.auth.authorization import Authorization, refusal
from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.rule import Rule, compact, uncovered
from tests.apiserver.auth.memory import MemoryStore
from tests.thoroughness import examples

ANNA = Identity("anna")

WORDS = [
    (
        Attributes(ANNA, "list", "", "v1", "pods", namespace="team"),
        'pods is forbidden: User "anna" cannot list resource "pods" in API group "" in the namespace "team"',
        {"kind": "pods"},
    ),
    (
        Attributes(ANNA, "update", "apps", "v1", "deployments", "scale", "team", "web"),
        'deployments.apps "web" is forbidden: User "anna" cannot update resource "deployments/scale" in API group '
        '"apps" in the namespace "team"',
        {"name": "web", "group": "apps", "kind": "deployments"},
    ),
    (
        Attributes(ANNA, "get", "", "v1", "nodes", name="n1"),
        'nodes "n1" is forbidden: User "anna" cannot get resource "nodes" in API group "" at the cluster scope',
        {"name": "n1", "kind": "nodes"},
    ),
    (Attributes(ANNA, "get", path="/metrics"), 'forbidden: User "anna" cannot get path "/metrics"', {}),
    (
        Attributes(Identity("<b>&"), "get", path="/metrics"),
        'forbidden: User "&lt;b&gt;&amp;" cannot get path "/metrics"',
        {},
    ),
]


@pytest.mark.parametrize(("asked", "message", "details"), WORDS)
def test_a_refusal_is_worded_as_kubernetes_does(
    asked: Attributes, message: str, details: dict[str, str]
) -> None:
    with pytest.raises(Forbidden) as caught:
        Authorization(MemoryStore()).require(asked)
    assert caught.value.message == message
    assert caught.value.details == details
    assert refusal(asked, "because").message == f"{message}: because"


def test_a_rule_is_told_as_refusals_to_escalate_tell_it() -> None:
    rule = Rule(("get", "list"), ("", "apps"), ("pods",), ("a",))
    assert (
        str(rule) == '{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
    )
    assert str(Rule(("get",), paths=("/x",))) == '{NonResourceURLs:["/x"], Verbs:["get"]}'


def test_what_is_missing_is_joined_by_verb() -> None:
    missing = uncovered(
        [Rule(("get",), ("",), ("pods",))], [Rule(("get", "list", "watch"), ("",), ("pods",))]
    )
    assert [str(rule) for rule in compact(missing)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}'
    ]


def test_a_rule_made_to_be_slow_is_not_covered_and_not_multiplied_out() -> None:
    many = tuple(str(number) for number in range(1000))
    assert uncovered([Rule(many, many, many, many)], [Rule(many, many, many, many)], limit=100)


_VALUES = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2).map(tuple)
_RESOURCES = st.lists(st.sampled_from(["p", "p/s", "*/s", "*"]), min_size=1, max_size=2).map(tuple)
_NAMES = st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple)
_PATHS = st.lists(st.sampled_from(["/a", "/a/*", "/a*", "*"]), min_size=1, max_size=2).map(tuple)
_RULES = st.one_of(
    st.builds(Rule, _VALUES, _VALUES, _RESOURCES, _NAMES),
    st.builds(lambda verbs, urls: Rule(verbs, paths=urls), _VALUES, _PATHS),
)
_QUESTIONS = [
    Attributes(ANNA, verb, group, "", resource, subresource, name=name)
    for verb in ("a", "b", "other")
    for group in ("a", "b", "other")
    for resource in ("p", "other")
    for subresource in ("", "s", "other")
    for name in ("", "x", "y", "other")
] + [Attributes(ANNA, verb, path=path) for verb in ("a", "other") for path in ("/a", "/ab", "/a/b", "/other")]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_RULES, max_size=3), st.lists(_RULES, max_size=3))
def test_rules_that_are_covered_grant_nothing_new(owned: list[Rule], wanted: list[Rule]) -> None:
    """The promise behind the check against escalation, question by question."""
    if uncovered(owned, wanted):
        return
    for asked in _QUESTIONS:
        if any(rule.allows(asked) for rule in wanted):
            assert any(rule.allows(asked) for rule in owned)


@given(st.lists(_RULES, max_size=3))
def test_everybody_covers_what_they_have(owned: list[Rule]) -> None:
    assert uncovered(owned, owned) == []


@given(_RULES)
def test_rules_survive_the_way_to_json_and_back(rule: Rule) -> None:
    assert Rule.from_json(rule.to_json()) == rule
