"""No device is promised twice, and nothing is overdrawn by a decision: named cases, then random writes against a sum."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.conversion import v1alpha2
from allotment.api.status import Conflict
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.admissions.allocations import CLAIMS, SLICES, Allocations
from allotment.apiserver.registry.kinds import resource_claim
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key
from tests.apiserver.registry.admissions.shelf import Shelf
from tests.thoroughness import examples

Json = dict[str, Any]

DRIVER = "gpu.example.com"
SHARE = "0f8fad5b-d9cb-469f-a165-70867728950"
STATUS_WRITE = Write(Operation.UPDATE, ADMINISTRATOR, "2026-01-01T00:00:00Z", "status")
(RESOURCE,) = resource_claim.RESOURCES


def result(device: str, *, pool: str = "node-1", share: int | None = None, **more: Any) -> Json:
    shared = {"shareID": f"{SHARE}{share}"} if share is not None else {}
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **shared, **more}


def claim_with(name: str, *results: Json, namespace: str = "team-a") -> Json:
    status = {"allocation": {"devices": {"results": list(results)}}} if results else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {}},
        "status": status,
    }


def pool_slice(
    *devices: Json, counters: Json | None = None, pool: str = "node-1", generation: int = 1
) -> Json:
    sets = [
        {"name": name, "counters": {counter: {"value": value} for counter, value in amounts.items()}}
        for name, amounts in (counters or {}).items()
    ]
    spec: Json = {"driver": DRIVER, "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1}}
    return {"metadata": {}, "spec": {**spec, "devices": list(devices), "sharedCounters": sets}}


def device(name: str, *, draws: Json | None = None, groups: tuple[str, ...] = (), **more: Any) -> Json:
    uses = (
        [
            {
                "counterSet": "card",
                "counters": {n: {"value": v} for n, v in draws.items()},
                "compatibilityGroups": list(groups),
            }
        ]
        if draws is not None
        else []
    )
    return {"name": name, "consumesCounters": uses, **more}


class Server:
    """Status writes as the pipeline makes them: ask, then store."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.allocations = Allocations(self.shelf.as_store())

    def publish(self, name: str, slice: Json) -> None:
        self.shelf.put(Key(SLICES, "", name), {**slice, "metadata": {"name": name}})

    def write(self, obj: Json) -> None:
        obj = copy.deepcopy(obj)
        self.allocations.admit(RESOURCE, obj, obj, STATUS_WRITE)
        metadata = obj["metadata"]
        self.shelf.put(Key(CLAIMS, metadata["namespace"], metadata["name"]), obj)
        self.allocations.validate()

    def refused(self, obj: Json) -> str:
        with pytest.raises(Conflict) as caught:
            self.write(obj)
        self.allocations.validate()
        return caught.value.message


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_device_is_promised_once(server: Server) -> None:
    server.write(claim_with("first", result("gpu-0")))
    assert server.refused(claim_with("second", result("gpu-1"), result("gpu-0"))) == (
        'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "second": '
        "device gpu-0 of pool node-1 of driver gpu.example.com is already allocated to claim first"
    )
    server.write(claim_with("second", result("gpu-1"), result("gpu-0", pool="node-2")))


def test_nobody_learns_the_name_of_a_claim_elsewhere(server: Server) -> None:
    server.write(claim_with("secret", result("gpu-0"), namespace="team-b"))
    message = server.refused(claim_with("mine", result("gpu-0")))
    assert message.endswith("is already allocated to a claim in another namespace")
    assert "secret" not in message
    assert "team-b" not in message


def test_what_is_given_back_can_be_promised_again(server: Server) -> None:
    server.write(claim_with("first", result("gpu-0")))
    server.write(claim_with("first"))
    server.write(claim_with("second", result("gpu-0")))
    server.shelf.delete(Key(CLAIMS, "team-a", "second"))
    server.write(claim_with("third", result("gpu-0")))


def test_a_write_that_promises_nothing_new_passes(server: Server) -> None:
    held = claim_with("first", result("gpu-0"))
    server.write(held)
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    server.write(held)


def test_admin_access_takes_nothing(server: Server) -> None:
    server.write(claim_with("user", result("gpu-0")))
    server.write(claim_with("admin", result("gpu-0", adminAccess=True)))
    server.write(claim_with("user"))
    server.write(claim_with("next", result("gpu-0")))


def test_a_device_is_not_twice_in_one_claim(server: Server) -> None:
    assert "in the claim twice" in server.refused(claim_with("c", result("gpu-0"), result("gpu-0")))


def test_shares_of_a_device_stay_within_its_capacity(server: Server) -> None:
    server.publish(
        "s",
        pool_slice(device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})),
    )
    server.write(claim_with("a", result("gpu-0", share=1, consumedCapacity={"memory": "6Gi"})))
    assert "too little of capacity memory left: 1Gi short" in server.refused(
        claim_with("b", result("gpu-0", share=2, consumedCapacity={"memory": "5Gi"}))
    )
    server.write(claim_with("b", result("gpu-0", share=2, consumedCapacity={"memory": "4Gi"})))
    assert "already allocated to claim a, b" in server.refused(claim_with("c", result("gpu-0")))


def test_a_device_that_cannot_be_shared_has_one_holder(server: Server) -> None:
    server.publish("s", pool_slice(device("gpu-0")))
    server.write(claim_with("a", result("gpu-0", share=1)))
    assert "already allocated to claim a" in server.refused(claim_with("b", result("gpu-0", share=2)))
    server.write(claim_with("a"))
    assert "cannot be shared" in server.refused(
        claim_with("b", result("gpu-0", share=1), result("gpu-0", share=2))
    )


def test_counters_are_not_overdrawn(server: Server) -> None:
    server.publish("counters", pool_slice(counters={"card": {"memory": "10Gi"}}))
    server.publish("devices", pool_slice(*(device(f"part-{n}", draws={"memory": "4Gi"}) for n in range(3))))
    server.write(claim_with("a", result("part-0"), result("part-1")))
    assert "2Gi of memory in counter set card short" in server.refused(claim_with("b", result("part-2")))
    server.write(claim_with("a"))
    server.write(claim_with("b", result("part-2")))


def test_nothing_new_comes_from_a_pool_that_its_driver_shrank(server: Server) -> None:
    devices = [device(f"part-{n}", draws={"memory": "4Gi"}) for n in range(3)]
    server.publish("devices", pool_slice(*devices))
    server.publish("counters", pool_slice(counters={"card": {"memory": "12Gi"}}))
    held = claim_with("a", result("part-0"), result("part-1"))
    server.write(held)
    server.write(claim_with("b", result("part-2")))
    server.write(claim_with("b"))
    server.publish("counters", pool_slice(counters={"card": {"memory": "7Gi"}}, generation=2))
    assert "its pool is overdrawn" in server.refused(claim_with("b", result("part-2")))
    server.write(held | {"metadata": {**held["metadata"], "labels": {"still": "possible"}}})
    server.write(claim_with("a"))
    server.write(claim_with("b", result("part-2")))


def test_groups_that_exclude_each_other_are_not_promised_together(server: Server) -> None:
    server.publish("counters", pool_slice(counters={"card": {"memory": "10Gi"}}))
    ways = [device(f"d-{n}", draws={"memory": "1Gi"}, groups=(way,)) for n, way in enumerate(("a", "a", "b"))]
    server.publish("devices", pool_slice(*ways))
    server.write(claim_with("x", result("d-0")))
    server.write(claim_with("y", result("d-1")))
    assert "no compatibility group" in server.refused(claim_with("z", result("d-2")))
    server.write(claim_with("x"))
    server.write(claim_with("y"))
    server.write(claim_with("z", result("d-2")))


def semantic(name: str, *ids: str) -> Json:
    data = {"nodeName": "node-1", "partitionable": {"instances": [{"id": id} for id in ids]}}
    handles = [{"driverName": DRIVER, "semanticData": data}] if ids else []
    status = {"status": {"allocation": {"resourceHandles": handles}}} if ids else {}
    return v1alpha2.to_v1(
        {
            "apiVersion": v1alpha2.API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"resourceClassName": "gpus"},
            **status,
        }
    )


def test_seed_0s_instances_count_too(server: Server) -> None:
    server.write(semantic("a", "gpu-1/halves/half-0"))
    assert "already allocated to claim a" in server.refused(semantic("b", "gpu-1/halves/half-0"))
    assert "already in use by way of 'halves' by claim a" in server.refused(
        semantic("b", "gpu-1/whole/gpu-1")
    )
    assert "already in use by way of 'halves' by claim a" in server.refused(semantic("b", "gpu-1"))
    server.write(semantic("b", "gpu-1/halves/half-1"))
    server.write(semantic("a"))
    server.write(semantic("b"))
    server.write(semantic("a", "gpu-1/whole/gpu-1"))


def test_both_forms_share_the_devices(server: Server) -> None:
    server.write(claim_with("v1", result("gpu-0")))
    assert "already allocated to claim v1" in server.refused(semantic("old", "gpu-0"))


def test_a_failed_commit_takes_promises_back(server: Server) -> None:
    server.write(claim_with("first", result("gpu-0")))
    server.shelf.roll_back(1)
    server.allocations.validate()
    server.write(claim_with("second", result("gpu-0")))


def test_books_of_a_store_that_was_filled_otherwise_hold_what_they_can(server: Server) -> None:
    for name in ("a", "b"):
        server.shelf.put(Key(CLAIMS, "team-a", name), claim_with(name, result("gpu-0")))
    server.shelf.delete(Key(CLAIMS, "team-a", "a"))
    assert "claim b" in server.refused(claim_with("c", result("gpu-0")))


# --- random writes against a sum over everything ---

DEVICES = ("d0", "d1", "d2", "d3")


class Model:
    """All claims and slices; every question is answered by adding up from scratch."""

    def __init__(self) -> None:
        self.claims: dict[str, Json] = {}
        self.slices: dict[str, Json] = {}

    def possible(self, name: str, obj: Json) -> bool:
        before, fresh = list(_results(self.claims.get(name))), []
        for each in _results(obj):
            if each in before:
                before.remove(each)
            elif not each.get("adminAccess"):
                fresh.append(each)
        others = [
            each
            for other, held in self.claims.items()
            if other != name
            for each in _results(held)
            if not each.get("adminAccess")
        ]
        mine = [each for each in _results(obj) if not each.get("adminAccess")]
        return not any(self._wrong(each, mine, others) for each in fresh) and self._drawable(
            fresh, mine, others
        )

    def _wrong(self, wanted: Json, mine: list[Json], others: list[Json]) -> bool:
        same = [each for each in others if each["device"] == wanted["device"]]
        twice = [each for each in mine if each["device"] == wanted["device"]]
        spec = self._devices().get(wanted["device"])
        exclusive = "shareID" not in wanted or (spec is not None and not spec.get("allowMultipleAllocations"))
        if any("shareID" not in each for each in same) or (exclusive and same):
            return True
        if len(twice) > 1 and (exclusive or any("shareID" not in each for each in twice)):
            return True
        used: Counter[str] = Counter()
        for each in (*same, *twice):
            used.update({n: int(v) for n, v in each.get("consumedCapacity", {}).items()})
        capacity = spec.get("capacity", {}) if spec else {}
        return spec is not None and any(
            amount > int(capacity.get(n, {"value": "0"})["value"]) for n, amount in used.items()
        )

    def _drawable(self, fresh: list[Json], mine: list[Json], others: list[Json]) -> bool:
        fresh_draws = [each["device"] for each in fresh if self._use(each["device"])]
        if not fresh_draws:
            return True
        totals = self._totals()
        if any(not self._use(name)["counters"].keys() <= totals.keys() for name in fresh_draws):
            return False
        before = {each["device"] for each in others}
        after = before | {each["device"] for each in mine}
        if self._overdrawn(before) or self._overdrawn(after):
            return False
        newly = {each for each in fresh_draws if each not in before}
        return not newly or self._go_together(after)

    def _go_together(self, devices: set[str]) -> bool:
        groups = [
            set(self._use(name)["compatibilityGroups"]) for name in sorted(devices) if self._sound(name)
        ]
        return not any(groups) or (all(groups) and bool(set.intersection(*groups)))

    def contradictory(self) -> bool:
        """Whether a driver has made devices in use incompatible: what goes with them then is anybody's guess."""
        held = [each for claim in self.claims.values() for each in _results(claim)]
        return not self._go_together({each["device"] for each in held if not each.get("adminAccess")})

    def _overdrawn(self, devices: set[str]) -> bool:
        drawn: Counter[str] = Counter()
        for name in devices:
            if self._sound(name):
                drawn.update({n: int(v["value"]) for n, v in self._use(name)["counters"].items()})
        return any(amount > self._totals()[n] for n, amount in drawn.items())

    def _sound(self, name: str) -> bool:
        use = self._use(name)
        return bool(use) and use["counters"].keys() <= self._totals().keys()

    def _use(self, name: str) -> Json:
        uses = self._devices().get(name, {}).get("consumesCounters", [])
        return uses[0] if uses else {}

    def _devices(self) -> dict[str, Json]:
        return {each["name"]: each for slice in self._in_order() for each in slice["spec"]["devices"]}

    def _totals(self) -> dict[str, int]:
        sets = {each["name"]: each for slice in self._in_order() for each in slice["spec"]["sharedCounters"]}
        return {n: int(c["value"]) for n, c in sets.get("card", {"counters": {}})["counters"].items()}

    def _in_order(self) -> list[Json]:
        named = sorted(self.slices.items(), key=lambda pair: (pair[1]["spec"]["pool"]["generation"], pair[0]))
        return [slice for _, slice in named]


def _results(obj: Json | None) -> list[Json]:
    found: list[Json] = (
        (obj or {}).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    )
    return found


def _random_slice(dice: random.Random) -> Json:
    counters = {"card": {n: str(dice.randint(0, 9)) for n in dice.sample(["m", "c"], dice.randint(1, 2))}}
    grouped = dice.random() < 0.3
    devices = [
        device(
            name,
            draws={n: str(dice.randint(0, 4)) for n in dice.sample(["m", "c"], dice.randint(0, 2))} or None,
            groups=tuple(dice.sample(["a", "b"], dice.randint(0, 2))) if grouped else (),
            allowMultipleAllocations=dice.random() < 0.5,
            capacity={"x": {"value": str(dice.randint(0, 6))}},
        )
        for name in dice.sample(DEVICES, dice.randint(0, 4))
    ]
    return pool_slice(
        *devices, counters=counters if dice.random() < 0.8 else None, pool="p", generation=dice.randint(1, 2)
    )


def _random_claim(dice: random.Random, name: str) -> Json:
    if dice.random() < 0.3:
        return claim_with(name)
    results = []
    for number in range(dice.randint(1, 2)):
        more: Json = {"adminAccess": True} if dice.random() < 0.15 else {}
        if dice.random() < 0.5:
            more |= {
                "share": dice.randint(0, 2) * 3 + number,
                "consumedCapacity": {"x": str(dice.randint(0, 4))},
            }
        results.append(result(dice.choice(DEVICES), pool="p", **more))
    return claim_with(name, *results)


@given(st.randoms(use_true_random=False))
@settings(max_examples=examples(150), deadline=None)
def test_random_writes_are_judged_as_a_sum_over_everything_would(dice: random.Random) -> None:
    server, model = Server(), Model()
    history: list[tuple[dict[str, Json], dict[str, Json]]] = []
    for _ in range(dice.randint(1, 40)):
        step = dice.random()
        before = (dict(model.claims), dict(model.slices))
        if step < 0.2:
            name = dice.choice(["s0", "s1"])
            model.slices[name] = _random_slice(dice)
            server.publish(name, copy.deepcopy(model.slices[name]))
        elif step < 0.3 and history:
            count = dice.randint(1, min(3, len(history)))
            server.shelf.roll_back(count)
            model.claims, model.slices = (dict(part) for part in history[-count])
            del history[-count:]
            continue
        else:
            name = dice.choice(["c0", "c1", "c2"])
            obj = _random_claim(dice, name)
            if model.contradictory():
                continue
            if not model.possible(name, obj):
                server.refused(obj)
                continue
            server.write(obj)
            model.claims[name] = obj
        history.append(before)
        server.allocations.validate()
