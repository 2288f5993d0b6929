"""The checker accepts recorded answers and objects to spoilt ones."""

import copy
from typing import Any

import pytest

from tests.bruteforce import check_answer
from tests.corpus import corpus

Json = dict[str, Any]


def test_recorded_answers_are_valid() -> None:
    wrong = {}
    for case in corpus("allocator_cases.json"):
        if case["expectResults"] and len(case["claimsToAllocate"]) == len(case["expectResults"]):
            complaints = check_answer(case, case["expectResults"])
            if complaints:
                wrong[case["name"]] = complaints
    assert wrong == {}


def problem() -> Json:
    """Two exclusive devices that draw on one counter, one device in shares; a claim for one of each kind."""
    counted = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
    devices = [
        {"name": "d0", "attributes": {"model": {"string": "a"}}, "consumesCounters": counted},
        {"name": "d1", "attributes": {"model": {"string": "b"}}, "consumesCounters": counted},
        {
            "name": "d2",
            "attributes": {"model": {"string": "b"}},
            "taints": [{"key": "t", "effect": "NoSchedule"}],
        },
        {
            "name": "s0",
            "attributes": {"model": {"string": "a"}},
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10Gi"}},
        },
    ]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
    where = {"driver": "driver", "pool": pool, "nodeName": "node"}
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    exactly = {"deviceClassName": "class", "allocationMode": "ExactCount", "count": 1}
    share = {**exactly, "capacity": {"requests": {"memory": "4Gi"}}}
    return {
        "node": {"metadata": {"name": "node"}},
        "slices": [
            {"metadata": {"name": "one"}, "spec": {**where, "devices": devices}},
            {"metadata": {"name": "two"}, "spec": {**where, "sharedCounters": counters}},
        ],
        "classes": [{"metadata": {"name": "class"}, "spec": {}}],
        "claims": [
            {
                "metadata": {"name": "claim"},
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": "whole", "exactly": exactly},
                            {"name": "share", "exactly": share},
                        ],
                        "constraints": [{"matchAttribute": "driver/model"}],
                    }
                },
            }
        ],
        "allocatedCapacityDevices": [
            {"driver": "driver", "pool": "pool", "device": "s0", "consumedCapacity": {"memory": "6Gi"}}
        ],
    }


def answer() -> list[Json]:
    place = {"driver": "driver", "pool": "pool"}
    share = {"shareID": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "consumedCapacity": {"memory": "4Gi"}}
    selector = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}
        ]
    }
    return [
        {
            "devices": {
                "results": [
                    {"request": "whole", **place, "device": "d0"},
                    {"request": "share", **place, "device": "s0", **share},
                ]
            },
            "nodeSelector": selector,
        }
    ]


def test_a_valid_answer_has_no_complaints() -> None:
    assert check_answer(problem(), answer()) == []


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("device", "d1", "matchAttribute"),
        ("device", "d2", "taint"),
        ("device", "d9", "not usable"),
        ("request", "other", "alternatives"),
        ("adminAccess", True, "adminAccess"),
        ("shareID", "x", "shareID"),
        ("consumedCapacity", {"memory": "1"}, "consumedCapacity"),
    ],
)
def test_a_spoilt_device_is_noticed(field: str, value: Any, complaint: str) -> None:
    spoilt = answer()
    spoilt[0]["devices"]["results"][0][field] = value
    assert any(complaint in c for c in check_answer(problem(), spoilt))


def test_a_device_in_use_is_noticed() -> None:
    held = problem() | {"allocatedDevices": [{"driver": "driver", "pool": "pool", "device": "d0"}]}
    complaints = check_answer(held, answer())
    assert any("in use" in c for c in complaints)
    assert any("overdrawn" in c for c in complaints), (
        "its counters are drawn once by the holder and once more by us"
    )


def test_a_missing_device_and_a_missing_claim_are_noticed() -> None:
    spoilt = answer()
    del spoilt[0]["devices"]["results"][0]
    assert any("alternatives" in c for c in check_answer(problem(), spoilt))
    assert any("results for" in c for c in check_answer(problem(), []))


def test_capacity_counters_and_double_use_are_summed_over_claims() -> None:
    twice = problem()
    twice["claims"] = [twice["claims"][0], copy.deepcopy(twice["claims"][0])]
    complaints = check_answer(twice, answer() * 2)
    assert any("given away 2 times" in c for c in complaints)
    assert any("memory is overdrawn" in c for c in complaints)
    assert any("counters are overdrawn" in c for c in complaints)


def test_a_wrong_node_selector_is_noticed() -> None:
    spoilt = answer()
    del spoilt[0]["nodeSelector"]
    assert any("nodeSelector" in c for c in check_answer(problem(), spoilt))
