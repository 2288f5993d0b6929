"""fieldValidation: unknown and repeated fields are an error, a warning, or nobody's business."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders.plain import claim, configmap, deployment, pod
from tests.contract.api import JSON, MERGE, STRATEGIC, Api

TYPO = {**configmap("a"), "dta": {"k": "v"}}
NESTED = {"metadata": {"name": "a", "nme": "x"}, "data": {"k": "v"}}
TWICE = b'{"metadata":{"name":"a","name":"a"},"data":{"k":"v","k":"w"}}'

CASES: dict[str, tuple[Any, list[str]]] = {
    "an unknown field": (TYPO, ['unknown field "dta"']),
    "an unknown field within": (NESTED, ['unknown field "metadata.nme"']),
    "both, as they come": (
        b'{"dta":1,"metadata":{"name":"a","nme":1,"name":"a","nme":2},"dta":2,"data":{"k":"v","k":"w","k":"x"},"zz":{"a":1,"a":2}}',
        [
            'unknown field "dta"',
            'unknown field "metadata.nme"',
            'duplicate field "metadata.name"',
            'duplicate field "data.k"',
            'unknown field "zz"',
        ],
    ),
    "repeated fields": (TWICE, ['duplicate field "metadata.name"', 'duplicate field "data.k"']),
}


@pytest.mark.parametrize("case", CASES)
def test_strict_refuses(api: Api, configmaps: str, case: str) -> None:
    body, faults = CASES[case]
    reply = api.post(f"{configmaps}?fieldValidation=Strict", body)
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message == (
        f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {", ".join(faults)}'
    )
    assert api.get(f"{configmaps}/a").status == 404


@pytest.mark.parametrize("query", ["?fieldValidation=Warn", ""])
@pytest.mark.parametrize("case", CASES)
def test_warn_warns_and_is_the_default(api: Api, configmaps: str, case: str, query: str) -> None:
    body, faults = CASES[case]
    reply = api.post(f"{configmaps}{query}", body)
    assert reply.status == 201
    assert reply.warnings == faults
    assert "dta" not in reply.json


@pytest.mark.parametrize("case", CASES)
def test_ignore_says_nothing(api: Api, configmaps: str, case: str) -> None:
    reply = api.post(f"{configmaps}?fieldValidation=Ignore", CASES[case][0])
    assert (reply.status, reply.warnings) == (201, [])


def test_an_unknown_way(api: Api, configmaps: str) -> None:
    reply = api.post(f"{configmaps}?fieldValidation=Foo", configmap("a"))
    assert (reply.status, reply.message) == (
        422,
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
    )


def test_update(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.put(f"{configmaps}/a?fieldValidation=Strict", TYPO)
    assert reply.status == 400
    assert reply.message.endswith('strict decoding error: unknown field "dta"')


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(MERGE, {"dta": {"k": "v"}}, id="merge"),
        pytest.param(STRATEGIC, {"dta": {"k": "v"}}, id="strategic"),
        pytest.param(JSON, [{"op": "add", "path": "/dta", "value": {}}], id="json"),
    ],
)
def test_patches(api: Api, configmaps: str, kind: str, patch: Any) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.patch(f"{configmaps}/a?fieldValidation=Strict", patch, kind)
    assert reply.status == 422
    assert reply.message.endswith('strict decoding error: unknown field "dta"')
    warned = api.patch(f"{configmaps}/a?fieldValidation=Warn", patch, kind)
    assert (warned.status, warned.warnings) == (200, ['unknown field "dta"'])


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        pytest.param(MERGE, '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"', id="merge"),
        pytest.param(STRATEGIC, '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"', id="strategic"),
        pytest.param(
            MERGE,
            '{"dta": {}, "data": {}, "data": {"a": "2"}}',
            'duplicate field "data", unknown field "dta"',
            id="the patch's own faults go before what it leads to",
        ),
        pytest.param(
            MERGE,
            '{"zz": 1, "metadata": {"y": 1, "x": 1}, "data": {"a": "2"}, "bb": 1}',
            'unknown field "bb", unknown field "metadata.x", unknown field "metadata.y", unknown field "zz"',
            id="what it leads to by name",
        ),
        pytest.param(
            JSON,
            '[{"op": "add", "path": "/data", "value": {"a": "1"}, "value": {"a": "2"}}]',
            'json patch duplicate field "[0].value"',
            id="json",
        ),
        pytest.param(
            JSON,
            '[{"op": "add", "path": "/data", "value": {"a": "2"}, "prefix": "/"}]',
            'json patch unknown field "[0].prefix"',
            id="a field that operations do not have",
        ),
    ],
)
def test_the_text_of_patches(api: Api, configmaps: str, kind: str, text: str, told: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.patch(f"{configmaps}/a?fieldValidation=Strict", text.encode(), kind)
    assert reply.status == 422
    assert reply.message.endswith(f"strict decoding error: {told}")
    for way in ("Warn", "Ignore"):
        loose = api.patch(f"{configmaps}/a?fieldValidation={way}", text.encode(), kind)
        assert loose.must(200)["data"] == {"a": "2"}
        assert loose.warnings == (told.split(", ") if way == "Warn" else [])


def test_deep_in_lists(api: Api, pods: str) -> None:
    body = pod(
        "a", containers=[{"name": "x", "image": "i", "imagee": "j", "env": [{"name": "E", "valu": "1"}]}]
    )
    reply = api.post(f"{pods}?fieldValidation=Strict", body)
    assert reply.message.endswith(
        'strict decoding error: unknown field "spec.containers[0].imagee", unknown field "spec.containers[0].env[0].valu"'
    )


def test_in_claims(api: Api, claims: str) -> None:
    body = json.loads(json.dumps(claim("a")).replace('"exactly"', '"exactl"'))
    reply = api.post(f"{claims}?fieldValidation=Strict", body)
    assert reply.message == (
        'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: '
        'unknown field "spec.devices.requests[0].exactl"'
    )


def test_in_deployments(api: Api, namespace: str) -> None:
    body = deployment("a")
    body["spec"]["replica"] = 3
    reply = api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments?fieldValidation=Strict", body)
    assert reply.message.endswith('strict decoding error: unknown field "spec.replica"')


def test_in_custom_objects(api: Api, namespace: str, fresh: str) -> None:
    """Repeated fields as they come, then unknown ones by name."""
    group = f"{fresh}.example.com"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": f"widgets.{group}"}, "spec": spec},
    ).must(201)
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    api.eventually(lambda: api.get(path).status == 200 or None, "the kind is served")
    body = (
        f'{{"apiVersion":"{group}/v1","kind":"Widget","z":{{"a":1,"a":2}},"spec":{{"y":1,"size":1,"size":2,"x":1}},'
        '"metadata":{"name":"a","name":"a"}}'
    ).encode()
    reply = api.post(f"{path}?fieldValidation=Strict", body)
    assert reply.status == 400
    told = reply.message.partition("strict decoding error: ")[2].split(", ")
    assert told == [
        'duplicate field "z.a"',
        'duplicate field "spec.size"',
        'duplicate field "metadata.name"',
        'unknown field "spec.x"',
        'unknown field "spec.y"',
        'unknown field "z"',
    ]
