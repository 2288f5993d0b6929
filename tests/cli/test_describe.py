"""``allot describe``: a pool, a node and a claim, from files."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import (
    HEALTHY,
    WRONG,
    Json,
    pool_counts,
    reporting_node,
    slice_of,
    team_claim,
    written,
)

AGE = re.compile(r"\(\d+d ago\)")


def describe(allot: Allot, *arguments: str, objects: tuple[Json, ...] = (*HEALTHY, *WRONG)) -> Ran:
    return allot("describe", *arguments, "--offline", "-", stdin=written(*objects))


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("pool", ("pool", "node-1")),
        ("pool-wide", ("pool", "gpu.example.com/node-2", "-o", "wide")),
        ("pool-invalid", ("pool", "gpu.example.com.node-4")),
        ("node", ("node", "node-2")),
        ("node-gone", ("node", "node-7")),
        ("claim", ("claim", "train")),
        ("claim-share", ("claim", "team-b/serve")),
        ("claim-lost", ("claim", "lost", "-n", "team-a")),
        ("claim-pending", ("claim", "waits")),
    ],
)
def test_for_people(allot: Allot, golden: str, arguments: tuple[str, ...]) -> None:
    ran = describe(allot, *arguments)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden(f"describe-{golden}.txt", AGE.sub("(AGE ago)", ran.out))


@pytest.mark.parametrize(
    "arguments", [("pool", "node-1"), ("node", "node-2"), ("claim", "lost")], ids=lambda each: each[0]
)
def test_for_programs(allot: Allot, arguments: tuple[str, ...]) -> None:
    ran = describe(allot, *arguments, "-o", "json")
    assert ran.code == 0
    same_as_golden(f"describe-{arguments[0]}.json", ran.out)
    assert yaml.safe_load(describe(allot, *arguments, "-o", "yaml").out) == json.loads(ran.out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pool", "node-11"), "there is no pool node-11\ndid you mean node-1"),
        (("node", "zz"), "there is no node zz\nallot pools shows"),
        (("claim", "trian"), "there is no claim trian\ndid you mean train?"),
        (("claim", "team-b/train"), "there is no claim team-b/train\ndid you mean team-a/train?"),
    ],
)
def test_what_is_not_there(allot: Allot, arguments: tuple[str, ...], words: str) -> None:
    ran = describe(allot, *arguments)
    assert ran.code == 1
    assert words in ran.err


def test_claims_of_one_name_in_two_namespaces(allot: Allot) -> None:
    objects = (slice_of("n", "a"), team_claim("c", namespace="x"), team_claim("c", namespace="y"))
    ran = describe(allot, "claim", "c", objects=objects)
    assert (ran.code, "in several namespaces: x, y" in ran.err) == (1, True)
    assert "Namespace:   y" in describe(allot, "claim", "c", "-n", "y", objects=objects).out


def test_pools_of_one_name_are_all_shown(allot: Allot) -> None:
    objects = (slice_of("n", "a"), {**slice_of("n", "b", driver="other"), "metadata": {"name": "s"}})
    found = json.loads(describe(allot, "pool", "n", "-o", "json", objects=objects).out)["pools"]
    assert [pool["driver"] for pool in found] == ["gpu.example.com", "other"]


def test_a_pool_goes_by_the_name_of_its_object(allot: Allot) -> None:
    named = {**pool_counts("n", 1, 0, 1), "metadata": {"name": "odd-name"}}
    ran = describe(allot, "pool", "odd-name", objects=(slice_of("n", "a"), named))
    assert "Name:        odd-name\n" in ran.out


def test_a_node_without_devices(allot: Allot) -> None:
    ran = describe(allot, "node", "bare", objects=(reporting_node("bare"), slice_of("n", "a")))
    assert ran.code == 0
    assert "DRA Resources: <none>" in ran.out


def test_what_states_a_claim_has(allot: Allot) -> None:
    def state(obj: Json) -> str:
        ran = describe(allot, "claim", "c", "-o", "json", objects=(slice_of("node-1", "a"), obj))
        return str(json.loads(ran.out)["state"])

    assert state(team_claim("c")) == "Pending"
    assert state(team_claim("c", "a")) == "Allocated"
    assert state(team_claim("c", "a", users=("p",))) == "InUse"
    leaving = team_claim("c", "a", users=("p",))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert state(leaving) == "Deleting"
