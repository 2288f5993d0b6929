"""What commands show to people with different rights, on the embedded server and with real identities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from allotment.api.status import NotFound
from allotment.client.client import Client
from allotment.client.form import Obj
from tests.cli.served import Served, gpu_pod
from tests.cli.test_up import ask, greeting, up
from tests.command_line import Allot
from tests.insight.fleet import (
    GPU,
    NIC,
    V1,
    gpu_class,
    pool_counts,
    reporting_node,
    slice_of,
    team_claim,
    written,
)

RBAC = "rbac.authorization.k8s.io"


def role(name: str, user: str, rules: list[Obj], namespace: str = "") -> list[Obj]:
    """A role and its binding; without a namespace, of the whole cluster."""
    prefix, meta = ("", {"name": name, "namespace": namespace}) if namespace else ("Cluster", {"name": name})
    subject = {"kind": "User", "apiGroup": RBAC, "name": user}
    ref = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": f"{prefix}Role", "metadata": meta, "rules": rules},
        {"apiVersion": f"{RBAC}/v1", "kind": f"{prefix}RoleBinding", "metadata": meta, "roleRef": ref, "subjects": [subject]},
    ]  # fmt: skip


def may_list(*resources: str, group: str = "resource.k8s.io") -> Obj:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list"]}


ANN, BEN, CAT, EVE = "ann", "ben", "cat", "eve"
"""Ann may list everything, Ben devices and the claims and pods of team-a, Cat devices alone, Eve devices and all pods."""

OBJECTS = [
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "team-b")),
    *role("all", ANN, [may_list("*"), may_list("nodes", "pods", group="")]),
    *role("devices", BEN, [may_list("resourceslices", "deviceclasses")]),
    *role("mine", BEN, [may_list("resourceclaims"), may_list("pods", group="")], "team-a"),
    *role("devices-only", CAT, [may_list("resourceslices", "deviceclasses")]),
    *role("pods", EVE, [may_list("resourceslices", "deviceclasses"), may_list("pods", group="")]),
    reporting_node("node-1"),
    reporting_node("node-2"),
    gpu_class(),
    slice_of("node-1", "gpu-0", "gpu-1", "gpu-2", "gpu-3"),
    slice_of("node-2", "gpu-0", "gpu-1"),
    slice_of("node-9", "nic-0", driver=NIC),  # there is no such node
    team_claim("three", count=3),
    team_claim("five", count=5),
    gpu_pod("waits", "default-scheduler", namespace="team-a", resourceClaimName="five"),
]
CLAIMS = [
    team_claim("mine", "gpu-0"),
    team_claim("secret", "gpu-1", "gpu-2", namespace="team-b", count=2),
    team_claim("secret-2", "gpu-0", "gpu-1", namespace="team-b", pool="node-2", count=2),
]


async def fill(client: Client) -> None:
    for each in CLAIMS:
        claims, meta = client.plain(V1, "resourceclaims"), each["metadata"]
        await claims.create({key: value for key, value in each.items() if key != "status"})
        await claims.patch(meta["name"], {"status": each["status"]}, meta["namespace"], subresource="status")


async def beat(client: Client, when: str = "") -> None:
    """As the controller that counts: its heartbeat, which lasts as long as one may."""
    leases = client.plain("coordination.k8s.io/v1", "leases")
    renewed = when or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "counter", "leaseDurationSeconds": 3600, "renewTime": renewed}
    try:
        await leases.patch("allotment-pools", {"spec": spec}, "kube-system")
    except NotFound:
        meta = {"name": "allotment-pools", "namespace": "kube-system"}
        await leases.create(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        )


async def publish(client: Client) -> None:
    """As the controller that counts: of node-1 only, so that node-2 has no counts."""
    pools = client.plain("resource.k8s.io/v1beta2", "resourcepools", namespaced=False)
    counts = pool_counts("node-1", 4, 3, 1)
    await pools.create({key: value for key, value in counts.items() if key != "status"})
    await pools.patch(counts["metadata"]["name"], {"status": counts["status"]}, subresource="status")
    await beat(client)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("seen") / "data"
    with up(folder, "--no-scheduler", "--no-controllers") as process:
        greeting(process)
        server = Served(folder)
        server.create(*OBJECTS)
        ask(server.admin, fill)
        ask(Path(server.kubeconfig("allotment:controllers")), publish)
        yield server


def shown(allot: Allot, fleet: Served, user: str, *arguments: str) -> Any:
    ran = allot(*arguments, "--kubeconfig", fleet.kubeconfig(user), "-o", "json")
    assert ran.code == 0, ran.err
    if user != ANN:
        assert "secret" not in ran.out + ran.err  # never a name of a claim that they may not see
    return json.loads(ran.out)


@pytest.mark.parametrize(
    ("user", "node_1", "hidden_1", "node_2", "hidden_2"),
    [
        (ANN, (4, 3, 1, 0), 0, (2, 2, 0, 0), 0),
        (BEN, (4, 3, 1, 0), 2, (2, 0, None, None), None),  # counts of node-1 are published, of node-2 not
        (CAT, (4, 3, 1, 0), 3, (2, 0, None, None), None),
    ],
)
def test_pools_by_rights(
    allot: Allot,
    fleet: Served,
    user: str,
    node_1: tuple[int | None, ...],
    hidden_1: int | None,
    node_2: tuple[int | None, ...],
    hidden_2: int | None,
) -> None:
    found = shown(allot, fleet, user, "pools", "-n", "team-a", "--driver", GPU)["pools"]
    counts = [
        tuple(pool["summary"][name] for name in ("total", "allocated", "available", "unavailable"))
        for pool in found
    ]
    assert counts == [node_1, node_2]
    assert [pool["hidden"] for pool in found] == [hidden_1, hidden_2]


@pytest.mark.parametrize(
    ("user", "states"),
    [
        (ANN, ["Allocated", "Allocated", "Allocated", "Available"]),
        (BEN, ["Allocated", "Unknown", "Unknown", "Unknown"]),
        (CAT, ["Unknown"] * 4),
    ],
)
def test_devices_by_rights(allot: Allot, fleet: Served, user: str, states: list[str]) -> None:
    (pool,) = shown(allot, fleet, user, "describe", "pool", "node-1", "-n", "team-a")["pools"]
    assert [device["state"] for device in pool["devices"]] == states


def told(allot: Allot, fleet: Served, user: str, *arguments: str) -> tuple[int, str, str]:
    ran = allot(*arguments, "--kubeconfig", fleet.kubeconfig(user))
    assert "secret" not in ran.out + ran.err
    return ran.code, ran.out, ran.err


def test_people_are_told_how_many_devices_hidden_claims_hold(allot: Allot, fleet: Served) -> None:
    code, out, err = told(allot, fleet, BEN, "describe", "pool", "node-1", "-n", "team-a")
    assert code == 0
    assert "gpu-0   Allocated  team-a/mine" in out
    assert "2 of these 3 devices are held by claims you may not see." in out
    assert "note: you may list resourceclaims only in namespace team-a, not in all" in err
    code, out, _ = told(allot, fleet, BEN, "describe", "node", "node-2", "-n", "team-a")
    assert code == 0
    assert "Available:   unknown" in out
    assert "How many of these 2 devices are held by claims you may not see is unknown." in out


def test_claims_by_rights(allot: Allot, fleet: Served) -> None:
    assert shown(allot, fleet, BEN, "describe", "claim", "team-a/mine")["devices"][0]["device"] == "gpu-0"
    ran = allot("describe", "claim", "team-b/secret", "--kubeconfig", fleet.kubeconfig(BEN))
    assert ran.code == 2
    assert "you may not list resourceclaims in namespace team-b" in ran.err
    code, _, err = told(allot, fleet, CAT, "describe", "claim", "mine")
    assert (code, "you may not list resourceclaims" in err) == (2, True)


def test_all_claims_or_no_answer(allot: Allot, fleet: Served) -> None:
    assert shown(allot, fleet, ANN, "pools", "-A")["notes"] == []
    code, _, err = told(allot, fleet, BEN, "pools", "-A")
    assert (code, "you may not list resourceclaims of all namespaces" in err) == (2, True)


def test_without_slices_pools_are_as_published(allot: Allot, fleet: Served) -> None:
    found = shown(allot, fleet, "dan", "pools")  # who has no rights but those of everybody
    assert [(pool["driver"], pool["pool"], pool["summary"]["available"]) for pool in found["pools"]] == [
        (GPU, "node-1", 1)
    ]
    assert [note.partition(":")[0].partition(";")[0] for note in found["notes"]] == [
        "you may not list resourceclaims in namespace default",
        "you may not list resourceslices",  # and no word of taints, which the counts know of
    ]
    code, out, _ = told(allot, fleet, "dan", "describe", "node", "node-1")
    assert (code, "Available:   1" in out) == (0, True)


@pytest.mark.parametrize("command", [("pools",), ("describe", "node", "node-1"), ("top", "--once")])
def test_counts_that_nobody_keeps_up_are_not_stated_as_fact(
    allot: Allot, fleet: Served, command: tuple[str, ...]
) -> None:
    stale = "counts of ResourcePools are as of 2026-01-01 00:00:00 UTC: the counter is not running"
    counter = Path(fleet.kubeconfig("allotment:controllers"))
    ask(counter, partial(beat, when="2026-01-01T00:00:00.000000Z"))
    try:
        for user in ("dan", BEN):
            assert any(stale in note for note in shown(allot, fleet, user, *command)["notes"]), user
        assert not any(
            stale in note for note in shown(allot, fleet, ANN, *command)["notes"]
        )  # who counts herself
    finally:
        ask(counter, beat)
    assert not any("counter" in note for note in shown(allot, fleet, "dan", *command)["notes"])


@pytest.mark.parametrize(
    ("user", "bound", "number"), [(ANN, "exact", 1), (BEN, "atMost", 5), (CAT, "atMost", 6)]
)
def test_fit_by_rights(
    allot: Allot, fleet: Served, tmp_path: Path, user: str, bound: str, number: int
) -> None:
    file = tmp_path / "claim.json"
    file.write_text(written(team_claim("more")))
    (found,) = shown(allot, fleet, user, "fit", "-f", str(file), "-n", "team-a")["claims"]
    assert (found["cluster"]["bound"], found["cluster"]["moreFit"]) == (bound, number)


@pytest.mark.parametrize(
    ("user", "hidden", "devices", "pending"),
    [
        (ANN, 0, [3, 2, 0], [("team-a/waits", "FitsNowhere")]),
        (BEN, None, [3, 0, 0], [("team-a/waits", "FitsNowhere")]),
        (CAT, None, [3, 0, 0], []),
        (EVE, None, [3, 0, 0], [("team-a/waits", "Waits")]),  # sees the pod, and not what it asks for
    ],
)
def test_the_overview_by_rights(
    allot: Allot,
    fleet: Served,
    user: str,
    hidden: int | None,
    devices: list[int],
    pending: list[tuple[str, str]],
) -> None:
    found = shown(allot, fleet, user, "top", "-n", "team-a")
    assert found["hidden"] == hidden
    assert [each["summary"]["allocated"] for each in found["nodes"]] == devices
    assert [(each["pod"], each["state"]) for each in found["pending"]] == pending


def test_the_overview_without_slices_is_as_published(allot: Allot, fleet: Served) -> None:
    found = shown(allot, fleet, "dan", "top", "-n", "team-a")
    assert [(each["node"], each["summary"]["available"]) for each in found["nodes"]] == [("node-1", 1)]
    assert found["pending"] == []


@pytest.mark.parametrize(("user", "found"), [(ANN, ["NodeGone"]), (BEN, []), (CAT, [])])
def test_the_doctor_by_rights(allot: Allot, fleet: Served, user: str, found: list[str]) -> None:
    """Who does not see nodes is not told that one is gone, but that it cannot be known."""
    ran = allot("doctor", "-n", "team-a", "--kubeconfig", fleet.kubeconfig(user), "-o", "json")
    document = json.loads(ran.out)
    assert [each["kind"] for each in document["findings"]] == found
    assert ran.code == (1 if found else 0)
    told = any(note.startswith("you may not list nodes: whether nodes exist") for note in document["notes"])
    assert told is (user != ANN)


@pytest.mark.parametrize(
    ("user", "name", "state", "hidden", "offered"),
    [
        (ANN, "claim three", "FitsNowhere", None, ["with count ≤ 1", "if claim team-b/secret is released"]),
        (BEN, "claim three", "MayFit", {"held": None, "of": 5}, []),
        (ANN, "claim five", "FitsNowhere", None, ["with count ≤ 1"]),
        (BEN, "claim five", "FitsNowhere", {"held": None, "of": 5}, ["with count ≤ 3"]),
        (ANN, "pod waits", "FitsNowhere", None, ["with count ≤ 1"]),
        (BEN, "pod waits", "FitsNowhere", {"held": None, "of": 5}, ["with count ≤ 3"]),
    ],
)
def test_explanations_by_rights(
    allot: Allot, fleet: Served, user: str, name: str, state: str, hidden: Any, offered: list[str]
) -> None:
    arguments = (*name.split(), "-n", "team-a", "--kubeconfig", fleet.kubeconfig(user), "-o", "json")
    ran = allot("explain", *arguments)
    document = json.loads(ran.out)
    assert (ran.code, document["state"], document.get("hidden")) == (int(state != "MayFit"), state, hidden)
    assert [
        each["words"].removeprefix("fits ").partition(" (")[0] for each in document["remedies"]
    ] == offered
    if user != ANN:
        assert "secret" not in ran.out + ran.err


def test_who_may_not_see_a_pod_or_claim_is_told_so(allot: Allot, fleet: Served) -> None:
    for user, asked, words in (
        (CAT, ("pod", "waits"), "you may not list pods in namespace team-a"),
        (CAT, ("claim", "five"), "you may not list resourceclaims in namespace team-a"),
        ("dan", ("pod", "waits"), "you may not list pods in namespace team-a"),
        (
            EVE,
            ("pod", "waits"),
            "you may not list resourceclaims in namespace team-a, and the pod uses some there",
        ),
    ):
        code, _, err = told(allot, fleet, user, "explain", *asked, "-n", "team-a")
        assert (code, words in err) == (2, True), err


def test_people_are_told_what_an_explanation_does_not_know(allot: Allot, fleet: Served) -> None:
    _, out, err = told(allot, fleet, BEN, "explain", "pod", "team-a/waits")
    assert (
        "How many of the 5 devices that no claim you may see holds are held by claims you may not see is unknown."
        in out
    )
    assert "this considers only what you may see; claims that you may not see may be in the way" in out
    assert "note: you may not see pods of other namespaces: what they use on nodes is not counted" in err


def test_scenarios_by_rights(allot: Allot, fleet: Served, tmp_path: Path) -> None:
    """Three devices for the taking, as far as Ben sees; Ann sees that there is one. Whose the others are he is not told."""
    scenario = tmp_path / "scenario.json"
    steps = [
        {"delete": {"kind": "Pod", "namespace": "team-a", "name": "waits"}},
        {"submit": {"manifests": [gpu_pod("three", "", namespace="team-a", resourceClaimName="three")]}},
        {"resizePool": {"driver": GPU, "pool": "node-1", "devices": 0}},
        {"removeNode": {"name": "node-1", "force": True}},
    ]
    scenario.write_text(json.dumps({"apiVersion": "allotment.dev/v1", "kind": "Scenario", "steps": steps}))
    found = {}
    for user in (ANN, BEN):
        arguments = ("-n", "team-a", "--kubeconfig", fleet.kubeconfig(user), "-o", "json")
        ran = allot("whatif", str(scenario), *arguments)
        assert (user == ANN) is ("secret" in ran.out + ran.err), ran.err
        found[user] = json.loads(ran.out)
    assert [found[user]["steps"][1]["running"] for user in (ANN, BEN)] == [0, 1]
    assert (
        "you may list resourceclaims only in namespace team-a, not in all; -n names others"
        in found[BEN]["notes"]
    )
    assert any("you may not see pods of other namespaces" in note for note in found[BEN]["notes"])
    code, _, err = told(allot, fleet, "dan", "whatif", str(scenario))
    assert (code, "you may not list resourceslices" in err) == (2, True)
