"""``allot fit``: how many more claims of a shape fit, from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.insight.errors import NoAnswer
from allotment.insight.fit import Fit, ShapesToTry, how_many
from allotment.insight.snapshot import Snapshot
from allotment.usage.remaining import Fits, Remaining
from tests.builders.plain import claim_template
from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import (
    GPU,
    HEALTHY,
    WRONG,
    Json,
    gpu_class,
    reporting_node,
    slice_of,
    team_claim,
    written,
)


def gpu_template(name: str, count: int) -> Json:
    return claim_template(name, "gpu", allocationMode="ExactCount", count=count)


def fit(allot: Allot, tmp_path: Path, shapes: str, *options: str, objects: tuple[Json, ...]) -> Ran:
    file = tmp_path / "cluster.json"
    file.write_text(written(*objects))
    return allot("fit", "-f", "-", "--offline", str(file), *options, stdin=shapes)


def answer(ran: Ran) -> Any:
    return json.loads(ran.out)["claims"][0]


@pytest.mark.parametrize("form", ["table", "wide", "json"])
def test_every_format(allot: Allot, tmp_path: Path, form: str) -> None:
    shapes = written(team_claim("one"), gpu_template("pair", 2))
    ran = fit(allot, tmp_path, shapes, "-o", form, objects=(*HEALTHY, *WRONG))
    assert (ran.code, ran.err) == (1, "")  # no pair fits
    same_as_golden(f"fit-{form}.txt", ran.out)


def test_yaml_says_the_same_as_json(allot: Allot, tmp_path: Path) -> None:
    said = [
        fit(allot, tmp_path, written(team_claim("one")), "-o", form, objects=HEALTHY).out
        for form in ("json", "yaml")
    ]
    assert json.loads(said[0]) == yaml.safe_load(said[1])


@pytest.mark.parametrize(("count", "number", "code"), [(1, 3, 0), (2, 1, 0), (3, 1, 0), (4, 0, 1)])
def test_numbers_and_exit_codes(allot: Allot, tmp_path: Path, count: int, number: int, code: int) -> None:
    objects = (
        reporting_node("n"),
        slice_of("n", "a", "b", "c", "d"),
        gpu_class(),
        team_claim("taken", "d", pool="n"),
    )
    ran = fit(allot, tmp_path, written(team_claim("c", count=count)), "-o", "json", objects=objects)
    assert ran.code == code
    assert answer(ran)["cluster"] == {"moreFit": number, "bound": "exact"}
    assert answer(ran)["pools"] == [{"driver": GPU, "pool": "n", "moreFit": number, "bound": "exact"}]


def test_cordoned_nodes_are_left_out(allot: Allot, tmp_path: Path) -> None:
    cordoned = {**reporting_node("n"), "spec": {"unschedulable": True}}
    objects = (cordoned, reporting_node("m"), slice_of("n", "a"), slice_of("m", "a"), gpu_class())
    ran = fit(allot, tmp_path, written(team_claim("c")), objects=objects)
    assert "1 more fits in the cluster" in ran.out
    assert "note: cordoned nodes are left out: 1" in ran.err


def test_a_cluster_without_nodes_says_so() -> None:
    """On a server, where nodes can be listed and there are none."""
    seen = Snapshot({Node: [], ResourceSlice: [], DeviceClass: []})
    (found,) = how_many(ShapesToTry({"claim x": ResourceClaim()}, ()), seen)
    assert found.remaining.cluster.number == 0
    assert seen.notes == ["there are no nodes, so nothing fits anywhere"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [(ResourceSlice, "you may not list resourceslices"), (DeviceClass, "you may not list deviceclasses")],
)
def test_what_must_be_seen(kind: type[ApiStruct], words: str) -> None:
    seen = Snapshot({each: [] for each in (Node, ResourceSlice, DeviceClass) if each is not kind})
    with pytest.raises(NoAnswer, match=words):
        how_many(ShapesToTry({"claim x": ResourceClaim()}, ()), seen)


def test_without_nodes_those_in_slices_are_taken(allot: Allot, tmp_path: Path) -> None:
    ran = fit(allot, tmp_path, written(team_claim("c")), objects=(slice_of("n", "a"), gpu_class()))
    assert (ran.code, "you may see no nodes: 1 are made up from the slices" in ran.err) == (0, True)


def test_a_class_may_come_with_the_claim(allot: Allot, tmp_path: Path) -> None:
    objects = (reporting_node("n"), slice_of("n", "a"))
    assert fit(allot, tmp_path, written(team_claim("c"), gpu_class()), objects=objects).code == 0
    ran = fit(allot, tmp_path, written(team_claim("c")), objects=objects)
    assert ran.code == 1
    assert "no more fit in the cluster: " in ran.out
    assert "device class gpu" in ran.out


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (written(gpu_class()), "the files contain no ResourceClaim or ResourceClaimTemplate"),
    ],
    ids=["no claim"],
)
def test_what_cannot_be_counted(allot: Allot, tmp_path: Path, shapes: str, words: str) -> None:
    ran = fit(allot, tmp_path, shapes, objects=HEALTHY)
    assert ran.code == 2
    assert words in ran.err


def test_claims_in_the_semantic(allot: Allot) -> None:
    """Two instances of 8Gi or more a claim: each of two nodes has a card, and another that can be cut into four."""
    semantic = "examples/semantic"
    ran = allot("fit", "-f", f"{semantic}/claims.yaml", "--offline", semantic, "-o", "json")
    assert ran.code == 0, ran.err
    found = {each["claim"].rpartition("/")[2]: each for each in json.loads(ran.out)["claims"]}
    assert {name: each["cluster"]["moreFit"] for name, each in found.items()} == {
        "two-cards": 4,
        "two-small-cards": 4,
    }
    assert {each["node"]: each["moreFit"] for each in found["two-cards"]["nodes"]} == {
        "worker-1": 2,
        "worker-2": 2,
    }


def test_the_semantic_on_a_cluster_that_does_not_have_it(tmp_path: Path) -> None:
    seen = Snapshot({Node: [], ResourceSlice: [], DeviceClass: []})
    with pytest.raises(NoAnswer, match="is a v1alpha2 claim, but no noderesourceslices can be read"):
        how_many(ShapesToTry({"claim x": semantic.ResourceClaim()}, ()), seen)


def test_without_a_file_the_next_step_is_told(allot: Allot) -> None:
    ran = allot("fit")
    assert ran.code == 2
    assert "give a ResourceClaim or ResourceClaimTemplate with -f FILE" in ran.err


@pytest.mark.parametrize(
    ("all_seen", "fits", "words"),
    [
        (True, Fits(3), "3"),
        (True, Fits(3, exact=False), "at least 3"),
        (False, Fits(3), "at most 3"),  # a hidden claim may have some of them
        (False, Fits(3, exact=False), "about 3"),
        (False, Fits(0), "0"),  # hidden claims do not make room
    ],
)
def test_what_a_number_is_worth(all_seen: bool, fits: Fits, words: str) -> None:
    assert Fit("c", ResourceClaim(), Remaining(fits, {}, {}), all_seen).words(fits) == words
