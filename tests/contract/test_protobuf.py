"""Request bodies in protobuf, which kubectl sends for the kinds it has Go types of."""

from __future__ import annotations

from tests.contract.api import Api

PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}


def field(number: int, value: bytes | str) -> bytes:
    """A length-delimited field, short enough for lengths of two bytes."""
    data = value.encode() if isinstance(value, str) else value
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def meta(name: str, *labels: tuple[str, str]) -> bytes:
    return field(
        1, field(1, name) + b"".join(field(11, field(1, key) + field(2, value)) for key, value in labels)
    )


def test_a_namespace(api: Api, fresh: str) -> None:
    body = envelope("v1", "Namespace", meta(fresh, ("team", "a")))
    made = api.request("POST", "/api/v1/namespaces", body, headers=PROTOBUF).must(201)
    assert made["metadata"]["name"] == fresh
    assert made["metadata"]["labels"]["team"] == "a"


def test_a_config_map(api: Api, configmaps: str) -> None:
    raw = (
        meta("a") + field(2, field(1, "k") + field(2, "v")) + field(3, field(1, "b") + field(2, b"\x00\xff"))
    )
    made = api.request("POST", configmaps, envelope("v1", "ConfigMap", raw), headers=PROTOBUF).must(201)
    assert (made["data"], made["binaryData"]) == ({"k": "v"}, {"b": "AP8="})


def test_a_review(api: Api) -> None:
    attributes = field(2, "get") + field(5, "pods")  # ResourceAttributes: verb, resource
    raw = field(2, field(1, attributes))
    body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", raw)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    told = api.request("POST", path, body, headers=PROTOBUF).must(201)
    assert told["status"]["allowed"] is True
    assert told["spec"]["resourceAttributes"] == {"verb": "get", "resource": "pods"}


def test_a_pod_with_numbers_and_lists(api: Api, pods: str) -> None:
    container = field(1, "main") + field(2, "i:1") + field(3, "sh") + field(3, "-c")
    spec = field(2, container) + bytes([4 << 3, 7])  # containers; terminationGracePeriodSeconds = 7
    body = envelope("v1", "Pod", meta("a") + field(2, spec))
    made = api.request("POST", pods, body, headers=PROTOBUF).must(201)
    assert made["spec"]["containers"][0]["command"] == ["sh", "-c"]
    assert made["spec"]["terminationGracePeriodSeconds"] == 7


def test_options_of_a_deletion(api: Api, configmaps: str) -> None:
    api.post(configmaps, {"metadata": {"name": "a"}}).must(201)
    body = envelope("v1", "DeleteOptions", field(2, field(1, "not-this-uid")))  # preconditions.uid
    reply = api.request("DELETE", f"{configmaps}/a", body, headers=PROTOBUF)
    assert (reply.status, reply.reason) == (409, "Conflict")


def test_what_is_no_protobuf(api: Api, configmaps: str) -> None:
    for body in (b"hello", b"k8s\x00\xff\xff\xff", b"k8s\x00"):
        reply = api.request("POST", configmaps, body, headers=PROTOBUF)
        assert (reply.status, reply.reason) == (400, "BadRequest"), body
