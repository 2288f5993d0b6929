"""The same question gets the same answer: twice, and in whatever order objects come in."""

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from allotment.allocator.fleet import Fleet
from allotment.allocator.outcome import Allocated
from tests.allocator.build import ANY, claim, device, match, mine, node, request, slice_
from tests.allocator.oracle import answer, asked
from tests.problems import random_problem

Json = dict[str, Any]


def shuffled(problem: Json, rng: random.Random) -> Json:
    """The same objects in another order. Claims, requests and devices have an order that counts; these have none."""
    changed = dict(problem)
    for field in (
        "slices",
        "classes",
        "allocatedDevices",
        "allocatedSharedDeviceIDs",
        "allocatedCapacityDevices",
    ):
        changed[field] = rng.sample(problem[field], len(problem[field]))
    return changed


def consistent(problem: Json) -> bool:
    """Whether the slices of each generation of a pool announce one number of slices. If they do not, the first one is
    believed, by upstream and so by us, and then their order counts."""
    announced: dict[tuple[str, str, int], int] = {}
    for each in problem["slices"]:
        pool = each["spec"]["pool"]
        key = (each["spec"]["driver"], pool["name"], pool["generation"])
        if announced.setdefault(key, pool["resourceSliceCount"]) != pool["resourceSliceCount"]:
            return False
    return True


@pytest.mark.parametrize("batch", range(4))
def test_asked_twice(batch: int) -> None:
    for seed in range(batch * 50, (batch + 1) * 50):
        problem = random_problem(random.Random(seed))
        assert answer(asked(problem)) == answer(asked(json.loads(json.dumps(problem)))), f"seed {seed}"


@pytest.mark.parametrize("batch", range(4))
def test_objects_in_another_order(batch: int) -> None:
    for seed in range(batch * 100, (batch + 1) * 100):
        rng = random.Random(seed)
        problem = random_problem(rng)
        if not consistent(problem):
            continue
        expected, other = answer(asked(problem)), answer(asked(shuffled(problem, rng)))
        assert (other["ok"], other["results"], other["reasons"]) == (
            expected["ok"],
            expected["results"],
            expected["reasons"],
        ), f"seed {seed}"
        # Of several things that are wrong another one may be told first, but it stays an error.
        assert bool(other["error"]) == bool(expected["error"]), f"seed {seed}"


def _fleet(order: random.Random) -> Fleet:
    slices = [
        slice_(
            *[device(f"d{i}", root=(i + n) // 2, model="ab"[i % 2]) for i in range(4)],
            name=f"s{n}",
            pool=f"p{n}",
            on=f"n{n}",
        )
        for n in range(6)
    ]
    slices.append(slice_(device("net", root=0, model="a"), name="net", pool="net", everywhere=True))
    nodes = [node(f"n{n}") for n in range(6)]
    return Fleet(order.sample(nodes, 6), order.sample(slices, 7), [ANY])


def test_a_fleet_that_was_told_of_its_objects_in_another_order() -> None:
    histories = set()
    for seed in range(8):
        fleet = _fleet(random.Random(seed))
        history = []
        for number in range(12):
            wanted = [
                claim(
                    request("r", f"{mine('model')} == 'a'"),
                    request("s"),
                    name=f"c{number}",
                    constraints=[match("root")],
                )
            ]
            found = fleet.find(wanted)
            if isinstance(found, Allocated):
                fleet.commit(wanted, found)
                history.append((found.node, *[each.device for each in found.results[0].devices.results]))
        fleet.validate()
        histories.add(tuple(history))
    assert len(histories) == 1


_PROGRAM = """
import hashlib, json, random
from tests.allocator.oracle import answer, asked
from tests.problems import random_problem
digest = hashlib.sha256()
for seed in range(100):
    told = answer(asked(random_problem(random.Random(seed))))
    digest.update(json.dumps(told, sort_keys=True).encode())
print(digest.hexdigest())
"""


def test_the_seed_of_hashes_does_not_matter() -> None:
    """Sets of strings are ordered differently in every process; nothing may depend on it."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
