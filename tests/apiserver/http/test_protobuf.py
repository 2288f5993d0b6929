"""Protobuf bodies: read as the bytes that Kubernetes' own Go code writes, and never more than refused."""

import json
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.schema.conform import conform
from allotment.api.schema.schema import schema_of
from allotment.api.status import BadRequest
from allotment.apiserver.http.protobuf import MAGIC, decode_protobuf

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("protobuf.jsonl").read_text().splitlines()
]
"""Objects, each with the body that k8s.io/apimachinery 0.37 makes of it."""
BODIES = [b64decode(case["protobuf"]) for case in CASES]


def number(value: int) -> bytes:
    """A varint."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def field(key: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def body(api_version: str, kind: str, raw: bytes, *more: bytes) -> bytes:
    type_meta = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, type_meta) + field(2, raw) + b"".join(more)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case['object']['apiVersion']} {case['object']['kind']}" for case in CASES]
)
def test_bodies_written_by_kubernetes_are_read(case: dict[str, Any]) -> None:
    made = decode_protobuf(b64decode(case["protobuf"]))
    assert made == case["object"]
    schema = schema_of(made["apiVersion"], made["kind"])
    assert conform(schema, made).obj is made  # nothing that the schema does not have, all in canonical form


def test_the_cases_have_what_is_special_about_the_form() -> None:
    objects = {case["object"]["kind"]: case["object"] for case in CASES}
    pod = objects["Pod"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 0  # set to zero is not absent
    assert pod["containers"][0]["readinessProbe"] == {"tcpSocket": {"port": 8080}}  # an inlined message
    assert objects["SubjectAccessReview"]["spec"]["extra"]["scopes"] == ["a", "b"]  # a message around a list
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == "50%"
    assert objects["Lease"]["spec"]["acquireTime"] == "2026-01-02T03:04:05.000600Z"


def test_numbers_that_nobody_knows_are_skipped() -> None:
    metadata = field(1, b"a") + field(900, b"new") + field(901, 7) + number(902 << 3 | 1) + bytes(8)
    made = decode_protobuf(body("v1", "ConfigMap", field(1, metadata) + field(99, b"x"), field(7, b"y")))
    assert made == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_numbers_may_come_packed() -> None:
    groups = field(1, b"") + field(4, number(1) + number(300))
    made = decode_protobuf(body("v1", "Pod", field(2, field(14, groups))))
    assert made["spec"]["securityContext"]["supplementalGroups"] == [1, 300]


def test_an_invalid_character_does_not_reach_the_store() -> None:
    made = decode_protobuf(body("v1", "ConfigMap", field(1, field(1, b"a\xff"))))
    assert made["metadata"]["name"] == "a\ufffd"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "does not begin with the four bytes"),
        (b'{"kind":"Pod"}', "does not begin with the four bytes"),
        (MAGIC, "Object 'Kind' is missing"),
        (MAGIC + field(1, field(2, b"Pod")), "Object 'apiVersion' is missing"),
        (body("v1", "Pot", b""), 'no kind "Pot" is registered for version "v1"'),
        (body("resource.k8s.io/v1alpha2", "ResourceClass", b""), "no kind"),  # ours have no protobuf form
        (body("v1", "Pod", b"", field(3, b"gzip")), 'content encoding "gzip" is not supported'),
        (body("v1", "Pod", b"\x0a\x7f"), "longer than what is left"),
        (body("v1", "Pod", b"\xff" * 11), "more than 64 bits"),
        (body("v1", "Pod", b"\x0b"), "unknown form 3"),
        (body("v1", "Pod", b"\x02\x00"), "number 0"),
        (body("v1", "Pod", field(1, 5)), "should be of type message"),
        (body("v1", "Pod", field(2, field(4, b"x"))), "should be a number of type int64"),
        (body("v1", "Pod", field(2, field(7, 1))), "should be a map"),
        (body("v1", "Pod", field(1, field(8, field(1, 2**62)))), "outside the years"),
    ],
)
def test_malformed_bodies_are_refused_with_a_reason(raw: bytes, why: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_protobuf(raw)
    assert why in caught.value.message


@pytest.mark.parametrize("text", [b"{", b"[" * 1000 + b"]" * 1000, b"k8s\x00"])
def test_json_inside_that_cannot_be_read_is_refused(text: bytes) -> None:
    config = field(2, field(1, field(1, b"d") + field(2, field(1, text))))
    raw = field(2, field(1, field(3, config)))
    with pytest.raises(BadRequest, match="JSON inside it"):
        decode_protobuf(body("resource.k8s.io/v1", "ResourceClaim", raw))


def test_messages_inside_one_another_are_bounded() -> None:
    schema = field(5, b"string")
    for _ in range(2000):
        schema = field(28, schema)  # not
    raw = field(2, field(7, field(1, b"v1") + field(4, field(1, schema))))
    with pytest.raises(BadRequest, match="inside one another"):
        decode_protobuf(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))


@given(st.binary(max_size=60), st.sampled_from([("v1", "Pod"), ("policy/v1", "Eviction"), ("v1", "Event")]))
def test_no_bytes_do_more_than_be_refused(raw: bytes, kind: tuple[str, str]) -> None:
    for sent in (raw, MAGIC + raw, body(*kind, raw)):
        with suppress(BadRequest):
            decode_protobuf(sent)


@given(st.data(), st.sampled_from(BODIES))
def test_no_damage_to_a_good_body_does_more_than_be_refused(data: st.DataObject, good: bytes) -> None:
    at = data.draw(st.integers(0, len(good) - 1))
    damaged = good[:at] + data.draw(st.binary(max_size=4)) + good[at + data.draw(st.integers(0, 4)) :]
    with suppress(BadRequest):
        json.dumps(decode_protobuf(damaged))
    with suppress(BadRequest):
        decode_protobuf(good[:at])
