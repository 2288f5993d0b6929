"""What a client gets when it asks for something that cannot be: a Status with code, reason, message and details."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import claim, configmap
from tests.contract.api import Api

NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


def test_the_whole_of_a_status(api: Api, configmaps: str) -> None:
    reply = api.get(f"{configmaps}/nope")
    assert reply.header("content-type") == "application/json"
    assert reply.must(404) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "configmaps"},
        "code": 404,
    }


def test_details_of_a_group(api: Api, claims: str) -> None:
    reply = api.get(f"{claims}/nope")
    assert reply.message == 'resourceclaims.resource.k8s.io "nope" not found'
    assert reply.json["details"] == {"name": "nope", "group": "resource.k8s.io", "kind": "resourceclaims"}


CASES: dict[str, tuple[str, str, Any, int, str, str]] = {
    "an unknown kind": ("GET", "/api/v1/namespaces/default/nopes", None, 404, "NotFound", NO_RESOURCE),
    "an unknown kind of a group": (
        "GET",
        "/apis/resource.k8s.io/v1/nopes",
        None,
        404,
        "NotFound",
        NO_RESOURCE,
    ),
    "an unknown subresource": (
        "GET",
        "/api/v1/namespaces/default/configmaps/x/nope",
        None,
        404,
        "NotFound",
        NO_RESOURCE,
    ),
    "a post to an object": (
        "POST",
        "/api/v1/namespaces/default/configmaps/x",
        {},
        405,
        "MethodNotAllowed",
        NO_METHOD,
    ),
    "a put to a collection": (
        "PUT",
        "/api/v1/namespaces/default/configmaps",
        {},
        405,
        "MethodNotAllowed",
        NO_METHOD,
    ),
    "a patch of a collection": (
        "PATCH",
        "/api/v1/namespaces/default/configmaps",
        {},
        405,
        "MethodNotAllowed",
        NO_METHOD,
    ),
    "a post to all namespaces": (
        "POST",
        "/api/v1/configmaps",
        configmap("x"),
        405,
        "MethodNotAllowed",
        NO_METHOD,
    ),
    "a cluster's kind in a namespace": (
        "GET",
        "/api/v1/namespaces/default/nodes",
        None,
        404,
        "NotFound",
        NO_RESOURCE,
    ),
    "a body of another version": (
        "POST",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "x"}},
        400,
        "BadRequest",
        "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version (resource.k8s.io/v1)",
    ),
    "a body cut short": (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        b'{"metadata":',
        400,
        "BadRequest",
        'the object provided is unrecognized (must be of type ConfigMap): couldn\'t get version/kind; json parse error: unexpected end of JSON input ({"metadata":)',
    ),
    "a name that is a number": (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        b'{"metadata":{"name":5}}',
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(api: Api, case: str) -> None:
    method, path, body, *expected = CASES[case]
    reply = api.request(method, path, body)
    assert [reply.status, reply.reason, reply.message] == expected


def test_a_body_of_another_kind(api: Api, configmaps: str) -> None:
    reply = api.post(configmaps, claim("x"))
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith('ResourceClaim in version "v1" cannot be handled as a ConfigMap: ')


@pytest.mark.parametrize(
    "path", ["/nope", "/apis/nope.k8s.io/v1/x", "/apis/nope.k8s.io", "/api/v2", "/apis/apps/v9/x"]
)
def test_paths_of_nothing(api: Api, path: str) -> None:
    assert api.get(path).status == 404


def test_a_body_in_an_unknown_format(api: Api, configmaps: str) -> None:
    reply = api.request("POST", configmaps, b"hello", headers={"Content-Type": "text/plain"})
    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")
    assert reply.message == (
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_a_reply_in_an_unknown_format(api: Api, configmaps: str) -> None:
    reply = api.get(configmaps, headers={"Accept": "text/plain"})
    assert (reply.status, reply.reason) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "*/*",
        "application/vnd.kubernetes.protobuf, application/json",
        "application/json;q=0.5, */*;q=0.1",
    ],
)
def test_json_is_had_by_whoever_can_read_it(api: Api, configmaps: str, accept: str) -> None:
    reply = api.get(configmaps, headers={"Accept": accept})
    assert reply.status == 200
    if not (api.real and "protobuf" in accept):  # ours writes no protobuf, and the client said it reads JSON
        assert reply.header("content-type") == "application/json"


def test_a_body_in_yaml(api: Api, configmaps: str) -> None:
    text = b"metadata:\n  name: a\ndata:\n  k: v\n"
    made = api.request("POST", configmaps, text, headers={"Content-Type": "application/yaml"}).must(201)
    assert made["data"] == {"k": "v"}


def test_a_reply_in_yaml(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a", k="v")).must(201)
    reply = api.get(f"{configmaps}/a", headers={"Accept": "application/yaml"})
    assert reply.status == 200
    assert reply.header("content-type") == "application/yaml"
    assert b"\ndata:\n  k: v\n" in b"\n" + reply.body


def test_a_body_that_is_too_large(api: Api, configmaps: str) -> None:
    reply = api.post(configmaps, configmap("a", k="x" * (4 << 20)))
    assert (reply.status, reply.reason) == (413, "RequestEntityTooLarge")
    assert "limit is 3145728" in reply.message


def test_data_that_is_too_large(api: Api, configmaps: str) -> None:
    reply = api.post(configmaps, configmap("a", k="x" * (1 << 20), l="y"))
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message == 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes'


def test_every_error_of_an_object_is_told_at_once(api: Api, pods: str) -> None:
    bad = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "A", "image": ""}, {"name": "b"}]}}
    reply = api.post(pods, bad)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.json["details"]["name"] == "a"
    assert reply.json["details"]["kind"] == "Pod"
    fields = {(cause["field"], cause["reason"]) for cause in reply.causes}
    assert fields >= {
        ("spec.containers[0].name", "FieldValueInvalid"),
        ("spec.containers[0].image", "FieldValueRequired"),
        ("spec.containers[1].image", "FieldValueRequired"),
    }
