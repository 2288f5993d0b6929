"""Decisions by roles: random ones against a slow judge, and the rules' corners by name."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, Rbac
from allotment.apiserver.auth.role_rules import RoleRules
from allotment.apiserver.auth.rule import Rule, uncovered
from allotment.apiserver.store.record import Key, Obj
from tests.apiserver.auth.memory import MemoryStore, paths, rule
from tests.apiserver.auth.slow_rbac import Judge
from tests.thoroughness import examples

ANNA = Identity("anna", ("devs", "system:authenticated"))


def ask(identity: Identity = ANNA, verb: str = "get", resource: str = "pods", **more: str) -> Attributes:
    return Attributes(identity, verb, resource=resource, **more)  # type: ignore[arg-type]  # `fields` is not a str


def granted(*rules: dict[str, list[str]]) -> Rbac:
    """Anna's rights, cluster-wide, are these rules."""
    store = MemoryStore()
    store.role("given", *rules)
    store.bind("given", "user:anna")
    return Rbac(store)


CORNERS = [
    ("a verb that is granted", rule(["get"], ["pods"]), ask(), True),
    ("another verb", rule(["get"], ["pods"]), ask(verb="list"), False),
    ("another group", rule(["get"], ["pods"], ["apps"]), ask(), False),
    ("any verb", rule(["*"], ["pods"]), ask(verb="brew"), True),
    ("any group", rule(["get"], ["pods"], ["*"]), ask(group="x.io"), True),
    ("a subresource is not its resource", rule(["get"], ["pods"]), ask(subresource="log"), False),
    ("nor is the resource its subresource", rule(["get"], ["pods/log"]), ask(), False),
    ("any resource has all subresources", rule(["get"], ["*"]), ask(subresource="log"), True),
    ("pods/* means nothing", rule(["get"], ["pods/*"]), ask(subresource="log"), False),
    ("the scale of anything", rule(["get"], ["*/scale"]), ask(resource="x", subresource="scale"), True),
    ("the scale of anything is not the thing", rule(["get"], ["*/scale"]), ask(resource="x"), False),
    ("a name that is granted", rule(["get"], ["pods"], names=["a"]), ask(name="a"), True),
    ("another name", rule(["get"], ["pods"], names=["a"]), ask(name="b"), False),
    ("no name where names are needed", rule(["list"], ["pods"], names=["a"]), ask(verb="list"), False),
    ("a name of * is just a name", rule(["get"], ["pods"], names=["*"]), ask(name="a"), False),
    ("a rule without groups grants no resource", rule(["get"], ["pods"], []), ask(), False),
    ("a path", paths(["get"], "/healthz"), Attributes(ANNA, "get", path="/healthz"), True),
    ("a longer path", paths(["get"], "/healthz"), Attributes(ANNA, "get", path="/healthz/x"), False),
    ("paths below", paths(["get"], "/healthz/*"), Attributes(ANNA, "get", path="/healthz/x"), True),
    ("the path above", paths(["get"], "/healthz/*"), Attributes(ANNA, "get", path="/healthz"), False),
    ("all paths", paths(["get"], "*"), Attributes(ANNA, "get", path="/metrics"), True),
    (
        "a star inside a path is a letter",
        paths(["get"], "/a/*/b"),
        Attributes(ANNA, "get", path="/a/x/b"),
        False,
    ),
    ("paths are no resources", paths(["*"], "*"), ask(), False),
    ("resources are no paths", rule(["*"], ["*"], ["*"]), Attributes(ANNA, "get", path="/metrics"), False),
]


@pytest.mark.parametrize(
    ("told", "given_rule", "asked", "expected"), CORNERS, ids=[row[0] for row in CORNERS]
)
def test_one_rule(told: str, given_rule: dict[str, list[str]], asked: Attributes, expected: bool) -> None:
    assert granted(given_rule).decide(asked).allowed is expected


def test_a_decision_says_which_binding_allowed_it() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]))
    store.role("local", rule(["get"], ["secrets"]), namespace="team")
    store.bind("reader", "group:devs", name="devs-read")
    store.bind("local", "account:team/bot", "user:anna", namespace="team", cluster_role=False)
    rbac = Rbac(store)
    assert (
        rbac.decide(ask()).reason
        == 'RBAC: allowed by ClusterRoleBinding "devs-read" of ClusterRole "reader" to Group "devs"'
    )
    bot = Identity("system:serviceaccount:team:bot")
    assert (
        rbac.decide(ask(bot, resource="secrets", namespace="team")).reason
        == 'RBAC: allowed by RoleBinding "local-binding/team" of Role "local" to ServiceAccount "bot/team"'
    )


def test_a_binding_in_a_namespace_grants_there_only() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]))
    store.bind("reader", "user:anna", namespace="team")
    rbac = Rbac(store)
    assert rbac.decide(ask(namespace="team")).allowed
    assert not rbac.decide(ask(namespace="other")).allowed
    assert not rbac.decide(ask()).allowed


def test_a_role_in_a_namespace_cannot_be_bound_to_the_cluster() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]), namespace="team")
    store.bind("reader", "user:anna", cluster_role=False)
    assert not Rbac(store).decide(ask(namespace="team")).allowed


def test_a_service_account_without_a_namespace_is_one_of_the_bindings_namespace() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]))
    store.bind("reader", "account:/bot", namespace="team")
    store.bind("reader", "account:/stray", name="cluster-wide")
    rbac = Rbac(store)
    assert rbac.decide(ask(Identity("system:serviceaccount:team:bot"), namespace="team")).allowed
    assert not rbac.decide(ask(Identity("system:serviceaccount::stray"), namespace="team")).allowed


def test_every_change_counts_at_once() -> None:
    store = MemoryStore()
    rbac = Rbac(store)
    assert not rbac.decide(ask()).allowed
    role = store.role("reader", rule(["get"], ["pods"]))
    assert not rbac.decide(ask()).allowed
    binding = store.bind("reader", "user:anna")
    assert rbac.decide(ask()).allowed
    store.role("reader", rule(["list"], ["pods"]))
    assert not rbac.decide(ask()).allowed
    store.role("reader", rule(["get"], ["pods"]))
    store.bind("reader", "user:bert")
    assert not rbac.decide(ask()).allowed
    store.bind("reader", "user:anna")
    store.delete(role.key)
    assert not rbac.decide(ask()).allowed
    store.role("reader", rule(["get"], ["pods"]))
    assert rbac.decide(ask()).allowed
    store.delete(binding.key)
    assert not rbac.decide(ask()).allowed


def test_a_write_that_was_not_committed_never_counted() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]))
    rbac = Rbac(store)
    store.undo(store.bind("reader", "user:anna"), None)
    assert not rbac.decide(ask()).allowed


def test_a_binding_of_a_missing_role_grants_nothing_and_the_refusal_says_so() -> None:
    store = MemoryStore()
    store.bind("ghost", "user:anna")
    decision = Rbac(store).decide(ask())
    assert not decision.allowed
    assert decision.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "ghost" not found'


def test_aggregation_follows_labels_through_other_aggregations() -> None:
    store = MemoryStore()
    store.role("all", aggregates={"matchLabels": {"to": "all"}})
    store.role("some", labels={"to": "all"}, aggregates={"matchLabels": {"to": "some"}})
    store.bind("all", "user:anna")
    rbac = Rbac(store)
    assert not rbac.decide(ask()).allowed
    store.role("part", rule(["get"], ["pods"]), labels={"to": "some"})
    assert rbac.decide(ask()).allowed
    store.role("part", rule(["get"], ["pods"]))
    assert not rbac.decide(ask()).allowed


def test_roles_that_aggregate_each_other_do_not_hang() -> None:
    store = MemoryStore()
    store.role("a", labels={"x": "1"}, aggregates={"matchLabels": {"x": "1"}})
    store.role("b", labels={"x": "1"}, aggregates={"matchLabels": {"x": "1"}})
    store.role("c", rule(["get"], ["pods"]), labels={"x": "1"})
    store.bind("a", "user:anna")
    assert Rbac(store).decide(ask()).allowed


def test_an_aggregated_role_has_no_rules_of_its_own() -> None:
    store = MemoryStore()
    store.role("all", rule(["get"], ["pods"]), aggregates={"matchLabels": {"to": "all"}})
    store.bind("all", "user:anna")
    assert not Rbac(store).decide(ask()).allowed


def test_what_is_remembered_stays_bounded() -> None:
    rbac = granted(rule(["get"], ["pods"]))
    for number in range(5_000):
        rbac.decide(ask(Identity(f"user-{number}")))
        rbac.decide(ask(resource=f"kind-{number}"))
        rbac.decide(ask(name=f"pod-{number}"))
    assert len(rbac._grants) <= 4096
    assert all(len(grants.answers) <= 4096 for grants in rbac._grants.values())
    assert rbac.decide(ask()).allowed


# --- random roles against the slow judge

_NAMES = st.sampled_from(["a", "b"])
_RULES = st.one_of(
    st.builds(
        rule,
        st.lists(st.sampled_from(["get", "list", "*"]), max_size=2),
        st.lists(st.sampled_from(["pods", "pods/log", "jobs", "*", "*/log"]), max_size=2),
        st.lists(st.sampled_from(["", "batch", "*"]), max_size=2),
        st.lists(_NAMES, max_size=1),
    ),
    st.builds(
        lambda verbs, urls: paths(verbs, *urls),
        st.lists(st.sampled_from(["get", "*"]), max_size=2),
        st.lists(st.sampled_from(["/a", "/a/*", "/b*", "*"]), max_size=2),
    ),
)
_LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.just("1"), max_size=2)
_SUBJECTS = st.lists(
    st.sampled_from(["user:anna", "user:bert", "group:devs", "account:n/bot", "account:/bot"]), max_size=2
)
_IDENTITIES = (
    ANNA,
    Identity("bert"),
    Identity("system:serviceaccount:n:bot", ("system:serviceaccounts",)),
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("cluster role"),
            _NAMES,
            st.lists(_RULES, max_size=3),
            _LABELS,
            st.none() | st.builds(lambda labels: {"matchLabels": labels}, _LABELS),
        ),
        st.tuples(st.just("role"), _NAMES, st.lists(_RULES, max_size=3), st.sampled_from(["n", "m"])),
        st.tuples(st.just("bind"), _NAMES, _SUBJECTS, st.sampled_from(["", "n", "m"]), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 5)),
    ),
    max_size=12,
)


def _questions() -> list[Attributes]:
    found = [
        Attributes(identity, verb, group, "v1", resource, subresource, namespace, name)
        for identity in _IDENTITIES
        for verb in ("get", "list")
        for group in ("", "batch")
        for resource in ("pods", "jobs")
        for subresource in ("", "log")
        for namespace in ("", "n", "m")
        for name in ("", "a", "b")
    ]
    found += [
        Attributes(identity, verb, path=path)
        for identity in _IDENTITIES
        for verb in ("get", "post")
        for path in ("/", "/a", "/a/x", "/bc")
    ]
    return found


@settings(max_examples=examples(60), deadline=None)
@given(_STEPS)
def test_random_roles_and_bindings_decide_as_the_slow_judge_does(steps: list[tuple[object, ...]]) -> None:
    store = MemoryStore()
    rbac = Rbac(store)
    for step in steps:
        _take(store, step)
    judge = Judge(store)
    wrong = [asked for asked in _questions() if rbac.decide(asked).allowed is not judge.allows(asked)]
    assert not wrong


def _take(store: MemoryStore, step: tuple[object, ...]) -> None:
    match step:
        case ("cluster role", str(name), list(rules), dict(labels), aggregates):
            store.role(name, *rules, labels=labels, aggregates=aggregates)  # type: ignore[arg-type]  # drawn as such
        case ("role", str(name), list(rules), str(namespace)):
            store.role(name, *rules, namespace=namespace)
        case ("bind", str(name), list(subjects), str(namespace), bool(cluster_role)):
            store.bind(name, *subjects, namespace=namespace, cluster_role=cluster_role)
        case ("delete", int(index)):
            keys = list(store._records)
            if index < len(keys):
                store.delete(keys[index])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_RULES, min_size=33, max_size=80))
def test_a_large_role_grants_what_its_rules_grant_one_by_one(drawn: list[dict[str, list[str]]]) -> None:
    rules = tuple(map(Rule.from_json, drawn))
    role = RoleRules(rules)
    for verb in ("get", "list", "brew", "*"):
        for group in ("", "batch", "other", "*"):
            for resource in ("pods", "jobs", "others", "*"):
                for subresource in ("", "log", "scale"):
                    question = (verb, group, resource, subresource)
                    holding = [rule for rule in rules if rule.holds_for_resource(*question)]
                    granting = role.granting(question)
                    assert granting.any == any(not rule.names for rule in holding)
                    named = {name for rule in holding for name in rule.names}
                    assert granting.any or granting.names == named
                    assert granting.names <= named
                    assert role.granting(question) == granting


QUICK = 0.05
"""Seconds of the processor, for a machine that is busy; to go through all rules took ten times as long."""


def test_rules_without_end_in_a_namespace_do_not_make_its_requests_slow() -> None:
    """Whoever administers a namespace writes as many as they like there and gives them to everybody."""
    store = MemoryStore()
    rbac = Rbac(store)
    for number in range(8):
        rules = [rule([f"verb-{each}"], [f"kind-{number}"], ["x"]) for each in range(5_000)]
        store.role(f"r{number}", *rules, namespace="team")
        store.bind(f"r{number}", "group:system:authenticated", namespace="team", cluster_role=False)
    store.role("viewer", rule(["get"], ["pods"]))
    store.bind("viewer", "user:anna")

    begun = time.thread_time()
    for verb in ("get", "list", "watch"):
        store.bind("viewer", "user:bert", name="another")  # whatever was remembered of bindings is gone
        assert rbac.decide(ask(verb=verb, namespace="team")).allowed == (verb == "get")
    assert rbac.decide(ask(verb="verb-4999", group="x", resource="kind-7", namespace="team")).allowed
    assert rbac.count_of_rules(ANNA, "team") == 40_001
    assert time.thread_time() - begun < QUICK


def test_of_very_many_rules_that_are_owned_only_so_many_are_made_ready_to_be_compared() -> None:
    taken = 0

    def owned() -> Iterator[Rule]:
        nonlocal taken
        while True:
            taken += 1
            yield Rule(("get",), ("",), ("pods",))

    assert uncovered(owned(), [Rule(("get",), ("",), ("pods",))]) == [Rule(("*",), ("*",), ("*",))]
    assert taken < 30_000


def test_a_question_that_many_rules_are_about_is_gone_into_once() -> None:
    store = MemoryStore()
    rbac = Rbac(store)
    rules = [rule(["get"], ["pods"], ["other"]), rule(["get"], ["jobs"]), rule(["brew"], ["pods"])]
    store.role("many", *rules * 5_000)
    store.bind("many", "user:anna")
    assert not rbac.decide(ask()).allowed
    begun = time.thread_time()
    for _ in range(50):
        store.bind("many", "user:bert", name="another")
        assert not rbac.decide(ask()).allowed
    assert time.thread_time() - begun < QUICK


def test_a_subject_of_an_unknown_kind_is_nobody() -> None:
    store = MemoryStore()
    store.role("reader", rule(["get"], ["pods"]))
    reference: Obj = {"kind": "ClusterRole", "name": "reader"}
    store.put(
        Key(CLUSTER_ROLE_BINDINGS, "", "odd"),
        {"metadata": {"name": "odd"}, "roleRef": reference, "subjects": [{"kind": "Robot", "name": "anna"}]},
    )
    store.put(
        Key(ROLE_BINDINGS, "n", "odder"),
        {
            "metadata": {"name": "odder"},
            "roleRef": {"kind": "Rolle", "name": "reader"},
            "subjects": [{"kind": "User", "name": "anna"}],
        },
    )
    store.put(Key(CLUSTER_ROLES, "", "broken"), {"metadata": {"name": "broken"}, "rules": None})
    assert not Rbac(store).decide(ask(namespace="n")).allowed
