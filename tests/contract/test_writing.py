"""Creating and replacing: what the server fills in, what it refuses, and how it finds out that someone was faster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.builders.plain import claim, configmap, lease, node
from tests.contract.api import Api, Reply

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def refused(reply: Reply) -> tuple[int, str, str]:
    return reply.status, reply.reason, reply.message


def test_create_fills_in_what_identifies_it(api: Api, namespace: str, configmaps: str) -> None:
    made = api.post(configmaps, {"metadata": {"name": "a", "uid": "mine"}, "data": {"k": "v"}}).must(201)
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"]) == ("a", namespace)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])
    assert api.get(f"{configmaps}/a").must() == made


def test_generate_name_adds_five_signs(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, {"metadata": {"generateName": "g-"}}).must(201)
    assert re.fullmatch(r"g-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "g-"


def test_a_name_wins_over_generate_name(api: Api, configmaps: str) -> None:
    assert (
        api.post(configmaps, {"metadata": {"name": "n", "generateName": "g-"}}).must(201)["metadata"]["name"]
        == "n"
    )


def test_a_long_generate_name_is_cut(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, {"metadata": {"generateName": "g" * 100}}).must(201)
    assert re.fullmatch(r"g{58}[a-z0-9]{5}", made["metadata"]["name"])


def test_create_drops_what_the_server_decides(api: Api, configmaps: str) -> None:
    sent = {
        "name": "a",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    meta = api.post(configmaps, {"metadata": {**sent, "selfLink": "/x"}}).must(201)["metadata"]
    assert "deletionTimestamp" not in meta
    assert meta["creationTimestamp"] > "2020-01-02"


CREATE_REFUSED: dict[str, tuple[Any, int, str, str]] = {
    "without a name": (
        {"metadata": {}},
        422,
        "Invalid",
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "with a revision": (
        {"metadata": {"name": "x", "resourceVersion": "77"}},
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    ),
    "in another namespace": (
        {"metadata": {"name": "x", "namespace": "other"}},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "with a bad name": (
        {"metadata": {"name": "UP_case"}},
        422,
        "Invalid",
        "ConfigMap \"UP_case\" is invalid: metadata.name: Invalid value: \"UP_case\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
    "with a bad key": (
        {"metadata": {"name": "x"}, "data": {"a b": "c"}},
        422,
        "Invalid",
        "ConfigMap \"x\" is invalid: data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ),
    "with a bad annotation": (
        {"metadata": {"name": "x", "annotations": {"": "v"}}},
        422,
        "Invalid",
        "ConfigMap \"x\" is invalid: [metadata.annotations: Invalid value: \"\": name part must be non-empty, metadata.annotations: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]",
    ),
    "with a bad finalizer": (
        {"metadata": {"name": "x", "finalizers": ["loose"]}},
        422,
        "Invalid",
        'ConfigMap "x" is invalid: metadata.finalizers[0]: Invalid value: "loose": name is neither a standard finalizer name nor is it fully qualified',
    ),
    "with an owner without a uid": (
        {"metadata": {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}},
        422,
        "Invalid",
        'ConfigMap "x" is invalid: metadata.ownerReferences[0].uid: Required value: must not be empty',
    ),
}


@pytest.mark.parametrize("case", CREATE_REFUSED)
def test_create_is_refused(api: Api, configmaps: str, case: str) -> None:
    body, *expected = CREATE_REFUSED[case]
    assert list(refused(api.post(configmaps, body))) == expected


def test_create_of_what_exists(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.post(configmaps, configmap("a"))
    assert refused(reply) == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert reply.json["details"] == {"name": "a", "kind": "configmaps"}


def test_create_of_what_exists_in_a_group(api: Api, claims: str) -> None:
    api.post(claims, claim("a")).must(201)
    reply = api.post(claims, claim("a"))
    assert refused(reply) == (409, "AlreadyExists", 'resourceclaims.resource.k8s.io "a" already exists')
    assert reply.json["details"] == {"name": "a", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_create_in_a_namespace_that_is_not(api: Api, fresh: str) -> None:
    reply = api.post(f"/api/v1/namespaces/{fresh}/configmaps", configmap("a"))
    assert refused(reply) == (404, "NotFound", f'namespaces "{fresh}" not found')


def test_a_stale_update_is_a_conflict(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="1")).must(201)
    api.patch(f"{configmaps}/a", {"data": {"k": "2"}}).must()
    reply = api.put(f"{configmaps}/a", {**made, "data": {"k": "3"}})
    assert refused(reply) == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}')
    assert reply.json["details"] == {"name": "a", "kind": "configmaps"}
    assert api.get(f"{configmaps}/a").must()["data"] == {"k": "2"}


def test_a_stale_update_is_a_conflict_in_a_group(api: Api, claims: str) -> None:
    made = api.post(claims, claim("a")).must(201)
    api.patch(f"{claims}/a", {"metadata": {"labels": {"x": "y"}}}).must()
    reply = api.put(f"{claims}/a", made)
    text = f'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "a": {MODIFIED}'
    assert refused(reply) == (409, "Conflict", text)
    assert reply.json["details"] == {"name": "a", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_an_update_without_a_revision_overwrites(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="1")).must(201)
    new = api.put(f"{configmaps}/a", configmap("a", k="2")).must(200)
    assert new["data"] == {"k": "2"}
    assert [new["metadata"][key] for key in ("uid", "creationTimestamp")] == [
        made["metadata"][key] for key in ("uid", "creationTimestamp")
    ]


def test_some_kinds_insist_on_a_revision(api: Api, fresh: str) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = {"plural": f"{fresh}s", "kind": "Thing", "singular": fresh}
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "metadata": {"name": f"{fresh}s.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    api.post(crds, crd).must(201)
    reply = api.put(f"{crds}/{fresh}s.example.com", crd)
    assert refused(reply) == (
        422,
        "Invalid",
        f'customresourcedefinitions.apiextensions.k8s.io "{fresh}s.example.com" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    )


def test_an_update_of_what_is_not(api: Api, configmaps: str) -> None:
    reply = api.put(f"{configmaps}/a", configmap("a"))
    assert refused(reply) == (404, "NotFound", 'configmaps "a" not found')


def test_an_update_creates_a_lease(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/a"
    assert api.put(path, lease("a")).must(201)["spec"]["holderIdentity"] == "me"


def test_an_update_to_another_name(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.put(f"{configmaps}/a", configmap("b"))
    assert refused(reply) == (
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    )


def test_an_update_with_another_uid(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    reply = api.put(f"{configmaps}/a", {"metadata": {"name": "a", "uid": "5"}})
    assert (reply.status, reply.reason) == (409, "Conflict")
    uid = made["metadata"]["uid"]
    assert reply.message.startswith('Operation cannot be fulfilled on configmaps "a": ')
    assert reply.message.endswith(f"Precondition failed: UID in precondition: 5, UID in object meta: {uid}")


def test_an_immutable_config_map_stays(api: Api, configmaps: str) -> None:
    api.post(configmaps, {**configmap("a", k="1"), "immutable": True}).must(201)
    reply = api.patch(f"{configmaps}/a", {"data": {"k": "2"}})
    assert refused(reply) == (
        422,
        "Invalid",
        'ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set',
    )
    assert reply.causes == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: field is immutable when `immutable` is set",
            "field": "data",
        }
    ]


def test_a_secrets_plain_data_is_encoded_and_its_type_stays(api: Api, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    made = api.post(secrets, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}).must(201)
    assert (made["data"], made["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in made
    reply = api.patch(f"{secrets}/s", {"type": "x"})
    assert refused(reply) == (
        422,
        "Invalid",
        'Secret "s" is invalid: type: Invalid value: "x": field is immutable',
    )


def test_nodes_are_of_no_namespace(api: Api, fresh: str) -> None:
    made = api.post("/api/v1/nodes", node(fresh)).must(201)
    assert "namespace" not in made["metadata"]
    assert api.get(f"/api/v1/nodes/{fresh}").must() == made
