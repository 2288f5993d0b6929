"""Acting as somebody else, and everything that one needs for it."""

from __future__ import annotations

import pytest

from allotment.api.status import BadRequest, Forbidden
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.identity import ADMINISTRATOR, Attributes, Identity
from allotment.apiserver.auth.impersonation import impersonated
from tests.apiserver.auth.memory import MemoryStore, rule

ANNA = Identity("anna", ("system:authenticated",))
AUTHENTICATION = "authentication.k8s.io"


def listing(identity: Identity = ANNA) -> Attributes:
    return Attributes(identity, "list", "", "v1", "pods", namespace="team")


def headers(**wanted: str | list[str]) -> list[tuple[bytes, bytes]]:
    """``user="x"``, ``group=[…]``, ``extra_KEY=…`` as the headers that ask for it."""
    found = [(b"accept", b"*/*")]
    for key, values in wanted.items():
        name = f"impersonate-{key.replace('_', '-')}".encode()
        found += [(name, value.encode()) for value in ([values] if isinstance(values, str) else values)]
    return found


def rights(*rules: dict[str, list[str]]) -> Authorization:
    store = MemoryStore()
    store.role("given", *rules)
    store.bind("given", "user:anna")
    return Authorization(store)


def test_without_headers_one_is_oneself() -> None:
    assert impersonated(headers(), listing(), rights()) is ANNA


def test_masters_may_be_anybody() -> None:
    wanted = headers(user="bert", group=["a", "b"], uid="u", extra_scopes=["x", "y"])
    assert impersonated(wanted, listing(ADMINISTRATOR), rights()) == Identity(
        "bert", ("a", "b", "system:authenticated"), "u", {"scopes": ("x", "y")}
    )


GROUPS = [
    ("bert", [], ("system:authenticated",)),
    ("bert", ["devs"], ("devs", "system:authenticated")),
    ("bert", ["system:authenticated"], ("system:authenticated",)),
    ("bert", ["system:unauthenticated"], ("system:unauthenticated",)),
    ("system:anonymous", [], ("system:unauthenticated",)),
    (
        "system:serviceaccount:team:bot",
        [],
        ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"),
    ),
    ("system:serviceaccount:team:bot", ["devs"], ("devs", "system:authenticated")),
]


@pytest.mark.parametrize(("user", "groups", "expected"), GROUPS)
def test_the_groups_that_come_with_a_name(user: str, groups: list[str], expected: tuple[str, ...]) -> None:
    allowed = rights(rule(["impersonate"], ["users", "groups", "serviceaccounts"]))
    assert impersonated(headers(user=user, group=groups), listing(), allowed).groups == expected


NEEDED = [
    # headers, the rule that is enough, what the refusal without it is about
    ({"user": "bert"}, [rule(["impersonate"], ["users"], names=["bert"])], "users"),
    (
        {"user": "bert", "group": ["devs"]},
        [rule(["impersonate"], ["users"]), rule(["impersonate"], ["groups"], names=["devs"])],
        "groups",
    ),
    (
        {"user": "bert", "uid": "u"},
        [rule(["impersonate"], ["users"]), rule(["impersonate"], ["uids"], [AUTHENTICATION])],
        "uids",
    ),
    (
        {"user": "bert", "extra_scopes": "x"},
        [
            rule(["impersonate"], ["users"]),
            rule(["impersonate"], ["userextras/scopes"], [AUTHENTICATION], ["x"]),
        ],
        "userextras",
    ),
    (
        {"user": "system:serviceaccount:team:bot"},
        [rule(["impersonate"], ["serviceaccounts"])],
        "serviceaccounts",
    ),
]


@pytest.mark.parametrize(("wanted", "rules", "about"), NEEDED, ids=[row[2] for row in NEEDED])
def test_each_part_needs_its_right(
    wanted: dict[str, str | list[str]], rules: list[dict[str, list[str]]], about: str
) -> None:
    assert impersonated(headers(**wanted), listing(), rights(*rules)).name == wanted["user"]
    with pytest.raises(Forbidden):
        impersonated(headers(**wanted), listing(), rights(*rules[:-1]))


def test_one_of_many_groups_that_is_not_allowed_is_enough_to_refuse() -> None:
    allowed = rights(rule(["impersonate"], ["users"]), rule(["impersonate"], ["groups"], names=["devs"]))
    assert impersonated(headers(user="bert", group=["devs"]), listing(), allowed)
    with pytest.raises(Forbidden):
        impersonated(headers(user="bert", group=["devs", "system:masters"]), listing(), allowed)


def test_the_right_to_a_service_account_can_be_a_namespaces() -> None:
    store = MemoryStore()
    store.role("as-bots", rule(["impersonate"], ["serviceaccounts"]))
    store.bind("as-bots", "user:anna", namespace="team")
    allowed = Authorization(store)
    assert impersonated(headers(user="system:serviceaccount:team:bot"), listing(), allowed)
    with pytest.raises(Forbidden):
        impersonated(headers(user="system:serviceaccount:kube-system:bot"), listing(), allowed)


def test_the_refusal_names_what_the_newest_way_would_need() -> None:
    with pytest.raises(Forbidden) as caught:
        impersonated(headers(user="bert"), listing(), rights())
    assert caught.value.message == (
        'pods is forbidden: User "anna" cannot impersonate-on:user-info:list resource "pods" in API group "" '
        'in the namespace "team"'
    )


@pytest.mark.parametrize("wanted", [{"group": ["a"]}, {"uid": "u"}, {"extra_a": "b"}])
def test_groups_without_a_user_are_a_bad_request(wanted: dict[str, str | list[str]]) -> None:
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        impersonated(headers(**wanted), listing(ADMINISTRATOR), rights())


def test_more_values_than_anybody_needs_are_a_bad_request() -> None:
    many = headers(user="bert", group=[f"g{number}" for number in range(65)])
    with pytest.raises(BadRequest, match="more than 64"):
        impersonated(many, listing(ADMINISTRATOR), rights())


def test_keys_of_extra_values_are_unescaped() -> None:
    wanted = [(b"impersonate-user", b"bert"), (b"impersonate-extra-example.com%2fscopes", b"x")]
    assert impersonated(wanted, listing(ADMINISTRATOR), rights()).extra == {"example.com/scopes": ("x",)}


# --- constrained


def test_constrained_impersonation_is_for_the_granted_requests_only() -> None:
    allowed = rights(
        rule(["impersonate:user-info"], ["users"], [AUTHENTICATION], ["bert"]),
        rule(["impersonate-on:user-info:list"], ["pods"]),
    )
    assert impersonated(headers(user="bert"), listing(), allowed).name == "bert"
    with pytest.raises(Forbidden):
        impersonated(headers(user="carl"), listing(), allowed)
    deleting = Attributes(ANNA, "delete", "", "v1", "pods", namespace="team", name="p")
    with pytest.raises(Forbidden):
        impersonated(headers(user="bert"), deleting, allowed)


@pytest.mark.parametrize("group", ["system:masters", ""])
def test_constrained_impersonation_never_gives(group: str) -> None:
    everything = rights(
        rule(["impersonate:user-info"], ["*"], ["*"]), rule(["impersonate-on:user-info:list"], ["*"], ["*"])
    )
    assert impersonated(headers(user="bert", group=["x"]), listing(), everything)
    with pytest.raises(Forbidden, match="group is not allowed"):
        impersonated(headers(user="bert", group=[group]), listing(), everything)


def test_a_node_comes_with_its_group_only_in_its_mode() -> None:
    as_node = rights(
        rule(["impersonate:arbitrary-node"], ["nodes"], [AUTHENTICATION], ["n1"]),
        rule(["impersonate-on:arbitrary-node:list"], ["pods"]),
    )
    identity = impersonated(headers(user="system:node:n1"), listing(), as_node)
    assert identity.groups == ("system:nodes", "system:authenticated")
    with pytest.raises(Forbidden):
        impersonated(headers(user="system:node:n2"), listing(), as_node)
    with pytest.raises(Forbidden):  # not with groups
        impersonated(headers(user="system:node:n1", group=["x"]), listing(), as_node)
    as_user = rights(rule(["impersonate"], ["users"]))
    assert impersonated(headers(user="system:node:n1"), listing(), as_user).groups == (
        "system:authenticated",
    )


def test_an_agent_may_be_allowed_to_be_the_node_it_runs_on() -> None:
    store = MemoryStore()
    store.role(
        "agent",
        rule(["impersonate:associated-node"], ["nodes"], [AUTHENTICATION]),
        rule(["impersonate-on:associated-node:list"], ["pods"]),
    )
    store.bind("agent", "account:team/agent")
    allowed = Authorization(store)
    node = {"authentication.kubernetes.io/node-name": ("n1",)}
    agent = Identity("system:serviceaccount:team:agent", (), "", node)
    assert impersonated(headers(user="system:node:n1"), listing(agent), allowed).name == "system:node:n1"
    with pytest.raises(Forbidden):
        impersonated(headers(user="system:node:n2"), listing(agent), allowed)
