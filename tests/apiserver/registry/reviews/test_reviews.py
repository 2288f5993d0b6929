"""The kinds that answer who one is and what one may do."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from allotment.api.status import BadRequest, Invalid
from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.auth.jwt import SigningKey
from allotment.apiserver.auth.service_account import ISSUER, ServiceAccountTokens
from allotment.apiserver.registry.review import ReviewCall
from allotment.apiserver.registry.reviews import reviews
from allotment.apiserver.store.record import Obj
from tests.apiserver.auth.memory import MemoryStore, paths, rule

ANNA = Identity("anna", ("devs",), "u1", {"scopes": ("a", "b")})
NOW = "2026-01-02T03:04:05Z"


class Scene:
    """Devs may get pods in ``team`` and the path /metrics."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.role("reader", rule(["get"], ["pods"]))
        self.store.bind("reader", "group:devs", namespace="team")
        self.store.role("metrics", paths(["get"], "/metrics"))
        self.store.bind("metrics", "group:devs")
        self.store.add("serviceaccounts", "bot", "team")
        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.accounts = ServiceAccountTokens(SigningKey(pem), self.store)
        authentication = Authentication(self.accounts, lambda: 1_800_000_000)
        self.reviews = {one.kind: one for one in reviews(authentication, Authorization(self.store))}

    def ask(self, kind: str, spec: Obj, identity: Identity = ANNA, namespace: str = "", **body: Obj) -> Obj:
        review = self.reviews[kind]
        full = {"apiVersion": review.api_version, "kind": kind, "spec": spec, **body}
        return review.run(full, ReviewCall(identity, namespace, NOW))


PODS = {"verb": "get", "resource": "pods", "namespace": "team"}


def test_may_i() -> None:
    reply = Scene().ask("SelfSubjectAccessReview", {"resourceAttributes": PODS})
    assert reply["spec"] == {"resourceAttributes": PODS}
    assert reply["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "reader-binding/team" of ClusterRole "reader" to Group "devs"',
    }
    refused = Scene().ask("SelfSubjectAccessReview", {"resourceAttributes": {**PODS, "namespace": "other"}})
    assert refused["status"] == {"allowed": False}


def test_may_i_read_a_path() -> None:
    for path, expected in (("/metrics", True), ("/healthz", False)):
        attributes = {"nonResourceAttributes": {"verb": "get", "path": path}}
        assert Scene().ask("SelfSubjectAccessReview", attributes)["status"]["allowed"] is expected


def test_may_i_do_anything() -> None:
    everything = {"verb": "*", "group": "*", "resource": "*"}
    scene = Scene()
    assert scene.ask("SelfSubjectAccessReview", {"resourceAttributes": everything})["status"] == {
        "allowed": False
    }
    scene.store.role("root", rule(["*"], ["*"], ["*"]))
    scene.store.bind("root", "user:anna")
    assert scene.ask("SelfSubjectAccessReview", {"resourceAttributes": everything})["status"]["allowed"]


def test_may_they() -> None:
    spec = {"resourceAttributes": PODS, "user": "bert", "groups": ["devs"]}
    assert Scene().ask("SubjectAccessReview", spec, Identity("x"))["status"]["allowed"]
    assert not Scene().ask("SubjectAccessReview", {**spec, "groups": []}, ANNA)["status"]["allowed"]


def test_a_node_is_asked_about_with_the_selector_of_its_list() -> None:
    requirement = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
    listing = {"verb": "list", "resource": "pods", "fieldSelector": {"requirements": [requirement]}}
    spec = {"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": listing}
    assert Scene().ask("SubjectAccessReview", spec)["status"]["allowed"]
    del listing["fieldSelector"]
    assert not Scene().ask("SubjectAccessReview", spec)["status"]["allowed"]


def test_may_they_here() -> None:
    spec = {"resourceAttributes": PODS, "groups": ["devs"]}
    assert Scene().ask("LocalSubjectAccessReview", spec, namespace="team", metadata={"namespace": "team"})[
        "status"
    ]["allowed"]
    with pytest.raises(Invalid, match=r"must match metadata\.namespace"):
        Scene().ask("LocalSubjectAccessReview", spec, namespace="other", metadata={"namespace": "other"})
    with pytest.raises(BadRequest, match="must match namespace: other"):
        Scene().ask("LocalSubjectAccessReview", spec, namespace="other", metadata={"namespace": "team"})


NOT_ASKED_RIGHT: list[tuple[str, Obj, str]] = [
    (
        "SelfSubjectAccessReview",
        {},
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    ("SelfSubjectAccessReview", {"resourceAttributes": PODS, "nonResourceAttributes": {}}, "exactly one of"),
    (
        "SubjectAccessReview",
        {"resourceAttributes": PODS},
        r"spec\.user: Invalid value: \"\": at least one of user or group",
    ),
    (
        "LocalSubjectAccessReview",
        {"nonResourceAttributes": {}, "user": "x"},
        "disallowed on this kind of request",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "told"), NOT_ASKED_RIGHT)
def test_a_review_that_does_not_say_what_it_asks(kind: str, spec: Obj, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        Scene().ask(kind, spec)


@pytest.mark.parametrize(
    "spec", [None, 3, [], {"resourceAttributes": []}, {"resourceAttributes": {"verb": {}}, "groups": 3}]
)
def test_bodies_that_are_not_as_they_should_be_never_break_anything(spec: Obj) -> None:
    for kind in Scene().reviews:
        try:
            Scene().ask(kind, spec)
        except (Invalid, BadRequest):
            continue


def test_what_may_i() -> None:
    status = Scene().ask("SelfSubjectRulesReview", {"namespace": "team"})["status"]
    assert status == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
    }
    with pytest.raises(BadRequest, match="no namespace on request"):
        Scene().ask("SelfSubjectRulesReview", {})


def test_the_rules_of_a_node_are_not_all() -> None:
    node = Identity("system:node:n1", ("system:nodes",))
    status = Scene().ask("SelfSubjectRulesReview", {"namespace": "team"}, node)["status"]
    assert status["incomplete"]
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"


def test_who_am_i() -> None:
    reply = Scene().ask("SelfSubjectReview", {})
    assert reply["metadata"] == {"creationTimestamp": NOW}
    assert reply["status"]["userInfo"] == {
        "username": "anna",
        "uid": "u1",
        "groups": ["devs"],
        "extra": {"scopes": ["a", "b"]},
    }


def test_whose_token_is_this() -> None:
    scene = Scene()
    issued = scene.accounts.issue("team", "bot", "uid-of-bot", {}, 1_800_000_000)["status"]["token"]
    status = scene.ask("TokenReview", {"token": issued})["status"]
    assert status["authenticated"]
    assert status["audiences"] == [ISSUER]
    assert status["user"]["username"] == "system:serviceaccount:team:bot"
    refused = scene.ask("TokenReview", {"token": issued, "audiences": ["vault"]})["status"]
    assert "authenticated" not in refused
    assert "token audiences" in refused["error"]
    assert scene.ask("TokenReview", {"token": "x"})["status"]["error"] == "invalid bearer token"
    with pytest.raises(BadRequest, match="token is required"):
        scene.ask("TokenReview", {})
