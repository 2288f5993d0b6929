"""``allot doctor``: each thing that can be wrong, found and told with the next step."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import yaml

from allotment.api.claim_marks import STANDS_IN_FOR
from allotment.insight.findings import KINDS
from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import (
    HEALTHY,
    OLD,
    WRONG,
    Json,
    reporting_node,
    running_pod,
    slice_of,
    team_claim,
    written,
)


def doctor(allot: Allot, *options: str, objects: tuple[Json, ...] = (*HEALTHY, *WRONG)) -> Ran:
    return allot("doctor", "--offline", "-", *options, stdin=written(*objects))


def kinds(ran: Ran) -> list[str]:
    return [each["kind"] for each in json.loads(ran.out)["findings"]]


@pytest.mark.parametrize("form", ["table", "json"])
def test_every_format(allot: Allot, form: str) -> None:
    ran = doctor(allot, "-o", form)
    assert (ran.code, ran.err) == (1, "")
    same_as_golden(f"doctor-{form}.txt", ran.out)


def test_yaml_says_the_same_as_json(allot: Allot) -> None:
    assert yaml.safe_load(doctor(allot, "-o", "yaml").out) == json.loads(doctor(allot, "-o", "json").out)


def test_a_healthy_cluster(allot: Allot) -> None:
    ran = doctor(allot, objects=HEALTHY)
    assert (ran.code, ran.out) == (0, "Nothing is wrong with 3 pools and 3 claims of all namespaces.\n")


GPUS = slice_of("node-1", "gpu-0", "gpu-1")


def dated(obj: Json, **times: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **times}}


def allocated_at(obj: Json, when: str) -> Json:
    allocation = {**obj["status"]["allocation"], "allocationTimestamp": when}
    return {**obj, "status": {**obj["status"], "allocation": allocation}}


def runs(*claims: str, phase: str = "Running", made: str = "") -> Json:
    """Pod ``p`` on a node with these claims, and one that was made for it."""
    obj = running_pod("p", phase=phase)
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    if made:
        obj["status"]["resourceClaimStatuses"] = [{"name": "made", "resourceClaimName": made}]
        entries.append({"name": "made", "resourceClaimTemplateName": "t"})
    obj["spec"] = {"containers": [], "nodeName": "node-1", "resourceClaims": entries}
    return obj


def stand_in(name: str) -> Json:
    """The claim that keeps the devices of one that was removed for pod ``p``."""
    obj = team_claim(f"{name}-held", "gpu-0", users=("p",))
    obj["metadata"]["annotations"] = {STANDS_IN_FOR: name}
    return obj


def test_whether_the_devices_of_a_claim_that_was_removed_are_kept(allot: Allot) -> None:
    assert "its devices may be given to others" in doctor(allot, objects=(GPUS, runs("c"))).out
    kept = doctor(allot, objects=(GPUS, runs("c"), stand_in("c"))).out
    assert "claim c-held keeps its devices until it ends" in " ".join(kept.split())


JUST_NOW = "2999-12-31T00:00:00Z"  # however long ago this file was read


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ((GPUS, team_claim("c", "gpu-0")), ["Unreserved"]),
        ((GPUS, team_claim("c")), []),  # waits, and holds nothing
        (
            (GPUS, dated(team_claim("c", "gpu-0"), creationTimestamp=JUST_NOW)),
            [],
        ),  # a reservation may be on its way
        ((GPUS, allocated_at(team_claim("c", "gpu-0"), JUST_NOW)), []),
        ((GPUS, allocated_at(team_claim("c", "gpu-0"), OLD)), ["Unreserved"]),
        ((GPUS, team_claim("c", "gpu-0", users=("p",)), running_pod("other")), ["UsersGone"]),
        ((GPUS, team_claim("c", "gpu-0", users=("p",)), running_pod("p", phase="Failed")), ["UsersGone"]),
        ((GPUS, team_claim("c", "gpu-0", users=("p", "q")), running_pod("q")), []),
        ((GPUS, team_claim("c", "gpu-0", users=("p",))), []),  # no pods were given: nothing is known of them
        ((GPUS, dated(team_claim("c", "gpu-0"), deletionTimestamp=OLD)), ["DeletionStuck"]),
        (
            (GPUS, dated(team_claim("c", "gpu-0", users=("p",)), deletionTimestamp=OLD)),
            [],
        ),  # until its users end
        ((GPUS, runs("c")), ["ClaimGone"]),
        ((GPUS, runs(made="p-made")), ["ClaimGone"]),
        ((GPUS, runs("c"), team_claim("c", "gpu-0", users=("p",))), []),
        ((GPUS, runs("c"), team_claim("c")), ["ClaimGone"]),  # made anew
        ((GPUS, runs("c"), stand_in("c")), ["ClaimGone"]),
        ((GPUS, runs("c", phase="Pending")), []),  # its kubelet waits
        ((GPUS, runs("c", phase="Succeeded")), []),
        ((GPUS, team_claim("c", "gpu-7", users=("p",))), ["DeviceVanished"]),
        ((GPUS, team_claim("c", "a", pool="gone", users=("p",))), ["DeviceVanished"]),
        ((GPUS, team_claim("c", "a", driver="other", users=("p",))), ["DriverGone"]),
        (
            (GPUS, team_claim("c", "gpu-0", users=("p",)), team_claim("d", "gpu-0", users=("p",))),
            ["PromisedTwice"],
        ),
        ((slice_of("n", "a", count=2),), ["PoolIncomplete"]),
        (
            (GPUS, {**slice_of("node-1", "gpu-9", generation=0), "metadata": {"name": "s"}}),
            ["StaleGeneration"],
        ),
        ((GPUS, reporting_node("node-1")), []),
        ((GPUS, reporting_node("node-2")), ["NodeGone"]),
        ((GPUS, reporting_node("node-1", ready="Unknown")), ["NodeNotReady"]),
        ((slice_of("n", "a", owner="uid-n"), reporting_node("n")), []),
        ((slice_of("n", "a", owner="uid-before"), reporting_node("n")), ["NodeGone"]),
        ((slice_of("fabric", "a", node=""), reporting_node("n")), []),  # for all nodes
    ],
)
def test_what_is_found(allot: Allot, objects: tuple[Json, ...], found: list[str]) -> None:
    ran = doctor(allot, "-o", "json", objects=objects)
    assert kinds(ran) == found
    assert ran.code == (1 if found else 0)


def test_what_is_wrong_is_told_by_kind_with_a_next_step(allot: Allot) -> None:
    findings = json.loads(doctor(allot, "-o", "json").out)["findings"]
    assert all(each["nextStep"] and each["message"] for each in findings)
    order = [each["kind"] for each in findings]
    assert order == sorted(order, key=list(KINDS).index)


def test_claims_of_one_namespace(allot: Allot) -> None:
    objects = (GPUS, team_claim("c", "gpu-0", namespace="x"), team_claim("c", "gpu-1", namespace="y"))
    found = json.loads(doctor(allot, "-n", "x", "-o", "json", objects=objects).out)["findings"]
    assert [each["namespace"] for each in found] == ["x"]


def test_what_is_wrong_elsewhere_is_not_said_to_be_well(allot: Allot) -> None:
    objects = (GPUS, team_claim("c", "gpu-0", namespace="x"), team_claim("free", namespace="y"))
    assert kinds(doctor(allot, "-o", "json", objects=objects))
    ran = doctor(allot, "-n", "y", "-n", "z", objects=objects)
    assert (ran.code, ran.out) == (0, "Nothing is wrong with 1 pool and 1 claim of namespaces y, z.\n")


def test_many_findings_are_cut_short(allot: Allot) -> None:
    names = [f"gpu-{number}" for number in range(30)]
    objects = (slice_of("node-1", *names), *(team_claim(f"c-{name}", name) for name in names))
    ran = doctor(allot, objects=objects)
    assert "Unreserved (30)" in ran.out
    assert "... and 10 more; -o wide shows all" in ran.out
    assert Counter(kinds(doctor(allot, "-o", "json", objects=objects))) == {"Unreserved": 30}
