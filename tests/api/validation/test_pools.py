"""Pools and questions about them: one row per rule."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.codec import decode
from allotment.api.pools import (
    ResourcePool,
    ResourcePoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
)
from allotment.api.validation import (
    validate_pool_status_answer,
    validate_pool_status_request,
    validate_resource_pool,
    validate_resource_pool_status,
)
from tests.api.validation.builders import shown
from tests.api.validation.examples import POOL_STATUS_ANSWER, POOL_STATUS_REQUEST

SPEC = {"driver": "gpu.example.com", "poolName": "node-1", "nodeName": "node-1"}
CONDITION = {
    "type": "Complete",
    "status": "True",
    "reason": "AllSlicesPresent",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


def pool(**spec: Any) -> ResourcePool:
    return decode(ResourcePool, {"metadata": {"name": "p"}, "spec": {**SPEC, **spec}})


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({}, []),
        ({"nodeName": None}, []),
        ({"poolName": "rack/shelf-1"}, []),  # pool names may have slashes
        ({"driver": ""}, ["spec.driver: required"]),
        ({"driver": "example.com/gpu"}, ["spec.driver: invalid"]),  # KEP-5677's own example
        ({"driver": "x" * 64}, ["spec.driver: too_long"]),
        ({"poolName": ""}, ["spec.poolName: required"]),
        ({"poolName": "a//b"}, ["spec.poolName: invalid"]),
        ({"poolName": "x" * 254}, ["spec.poolName: too_long", "spec.poolName: invalid"]),
        ({"nodeName": ""}, ["spec.nodeName: invalid"]),
    ],
)
def test_what_a_pool_is_about(spec: Any, errors: list[str]) -> None:
    assert shown(validate_resource_pool(pool(**spec))) == errors


SUMMARY = {
    "totalDevices": 8,
    "allocatedDevices": 3,
    "availableDevices": 4,
    "unavailableDevices": 1,
    "partiallyAllocatedDevices": 2,
}


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({}, []),
        ({"summary": SUMMARY, "conditions": [CONDITION], "validationErrors": ["x"] * 10}, []),
        ({"validationErrors": ["x"] * 10, "truncatedErrorCount": 11}, []),
        # each device is in one state
        ({"summary": {**SUMMARY, "totalDevices": 9}}, ["status.summary.totalDevices: invalid"]),
        ({"summary": {**SUMMARY, "unavailableDevices": 0}}, ["status.summary.totalDevices: invalid"]),
        (
            {"summary": {**SUMMARY, "partiallyAllocatedDevices": 4}},
            ["status.summary.partiallyAllocatedDevices: invalid"],
        ),
        (
            {"summary": {**SUMMARY, "availableDevices": -1, "unavailableDevices": 6}},
            ["status.summary.availableDevices: invalid"],
        ),
        ({"validationErrors": ["x"] * 11}, ["status.validationErrors: too_many"]),
        ({"validationErrors": ["x" * 1025]}, ["status.validationErrors[0]: too_long"]),
        (
            {"validationErrors": ["x"] * 10, "truncatedErrorCount": 10},
            ["status.truncatedErrorCount: invalid"],
        ),
        ({"truncatedErrorCount": -1}, ["status.truncatedErrorCount: invalid"]),
        ({"observedSliceCount": -1}, ["status.observedSliceCount: invalid"]),
        ({"expectedSliceCount": -1}, ["status.expectedSliceCount: invalid"]),
        ({"observedGeneration": -1}, ["status.observedGeneration: invalid"]),
        ({"conditions": [CONDITION, CONDITION]}, ["status.conditions[1]: duplicate"]),
        ({"conditions": [{**CONDITION, "reason": ""}]}, ["status.conditions[0].reason: required"]),
        ({"conditions": [{**CONDITION, "status": "Yes"}]}, ["status.conditions[0].status: not_supported"]),
    ],
)
def test_counts_add_up(status: Any, errors: list[str]) -> None:
    assert shown(validate_resource_pool_status(decode(ResourcePoolStatus, status))) == errors


def question(**spec: Any) -> ResourcePoolStatusRequest:
    body = {"metadata": {"name": "q"}, "spec": {"driver": "gpu.example.com", **spec}}
    return decode(ResourcePoolStatusRequest, body)


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({}, []),
        ({"poolName": "a/b", "limit": 1, "defaultPartitionTypeAttribute": "a.example.com/profile"}, []),
        ({"limit": 1000}, []),
        ({"driver": "GPU.example.com"}, []),
        ({"driver": "x" * 64}, []),  # longer than a slice's may be, as upstream
        ({"driver": ""}, ["spec.driver: required"]),
        ({"driver": "a/b"}, ["spec.driver: invalid"]),
        ({"poolName": ""}, ["spec.poolName: invalid"]),
        ({"poolName": "/a"}, ["spec.poolName: invalid"]),
        ({"limit": 0}, ["spec.limit: invalid"]),
        ({"limit": 1001}, ["spec.limit: invalid"]),
        ({"defaultPartitionTypeAttribute": "profile"}, ["spec.defaultPartitionTypeAttribute: invalid"]),
    ],
)
def test_a_question(spec: Any, errors: list[str]) -> None:
    assert shown(validate_pool_status_request(question(**spec))) == errors


ONE = {"driver": "gpu.example.com", "poolName": "node-1", "generation": 1}
KIND = {"attribute": "a.example.com/profile", "type": "Half", "total": 2, "allocatable": 1}
CAPACITY = {"name": "memory", "total": "1", "consumed": "0", "available": "1"}


def answer(**status: Any) -> ResourcePoolStatusRequestStatus:
    return decode(ResourcePoolStatusRequestStatus, {"poolCount": 1, **status})


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({"pools": [ONE], "conditions": [CONDITION]}, []),
        ({"poolCount": None}, ["status.poolCount: required"]),
        ({"poolCount": -1}, ["status.poolCount: invalid"]),
        ({"pools": [ONE] * 1001}, ["status.pools: too_many"]),
        (
            {"pools": [{"generation": -1}]},
            [
                "status.pools[0].driver: required",
                "status.pools[0].poolName: required",
                "status.pools[0].generation: invalid",
            ],
        ),
        (
            {"pools": [{**ONE, "resourceSliceCount": 0, "totalDevices": -1}]},
            ["status.pools[0].resourceSliceCount: invalid", "status.pools[0].totalDevices: invalid"],
        ),
        ({"pools": [{**ONE, "nodeName": "A"}]}, ["status.pools[0].nodeName: invalid"]),
        ({"pools": [{**ONE, "validationError": "x" * 257}]}, ["status.pools[0].validationError: too_long"]),
        (
            {"pools": [{**ONE, "partitionSummary": [KIND, KIND]}]},
            ["status.pools[0].partitionSummary[1]: duplicate"],
        ),
        (
            {"pools": [{**ONE, "partitionSummary": [{"total": 1}]}]},
            [
                "status.pools[0].partitionSummary[0].attribute: required",
                "status.pools[0].partitionSummary[0].type: required",
                "status.pools[0].partitionSummary[0].allocatable: required",
            ],
        ),
        (
            {"pools": [{**ONE, "shareableSummary": {"capacity": [CAPACITY] * 33}}]},
            [
                "status.pools[0].shareableSummary.fullyAvailableDevices: required",
                "status.pools[0].shareableSummary.partiallyAvailableDevices: required",
                "status.pools[0].shareableSummary.capacity: too_many",
            ],
        ),
    ],
)
def test_an_answer(status: Any, errors: list[str]) -> None:
    assert shown(validate_pool_status_answer(answer(**status), None)) == errors


def test_the_examples_are_sound_and_ten_conditions_are_not_too_many() -> None:
    assert validate_pool_status_request(decode(ResourcePoolStatusRequest, POOL_STATUS_REQUEST)) == []
    many = [{**CONDITION, "type": f"T{number}"} for number in range(11)]
    whole = {**POOL_STATUS_ANSWER, "conditions": many[:10]}
    assert validate_pool_status_answer(decode(ResourcePoolStatusRequestStatus, whole), None) == []
    assert shown(validate_pool_status_answer(answer(conditions=many), None)) == [
        "status.conditions: too_many"
    ]


def test_a_question_is_answered_once() -> None:
    assert validate_pool_status_answer(None, None) == []
    assert validate_pool_status_answer(answer(), answer()) == []
    assert shown(validate_pool_status_answer(answer(poolCount=2), answer())) == ["status: invalid"]
    assert shown(validate_pool_status_answer(None, answer())) == ["status: invalid"]
