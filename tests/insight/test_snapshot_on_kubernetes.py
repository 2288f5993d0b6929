"""Every command that looks at a cluster, on the real API server, which has no ResourcePools: as an administrator, and as a
service account that may see devices and the claims of one namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.client.client import Client
from tests.cli.pseudo_terminal import in_terminal
from tests.cli.served import gpu_class, gpu_pod, gpus
from tests.cli.test_up import ask
from tests.command_line import Allot
from tests.daemons.test_components_on_kubernetes import Real
from tests.insight import fleet
from tests.insight.test_snapshot import RBAC, may_list
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes
MINE, OTHERS, NODE, ACCOUNT = "seen-mine", "seen-others", "lovelace", "seen-reader"


def role(name: str, rules: list[dict[str, Any]], namespace: str = "") -> list[dict[str, Any]]:
    """A role for the account; without a namespace, of the whole cluster."""
    prefix, meta = ("", {"name": name, "namespace": namespace}) if namespace else ("Cluster", {"name": name})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}
    ref = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
    version = f"{RBAC}/v1"
    binding = {"apiVersion": version, "kind": f"{prefix}RoleBinding", "metadata": meta, "roleRef": ref}
    return [
        {"apiVersion": version, "kind": f"{prefix}Role", "metadata": meta, "rules": rules},
        {**binding, "subjects": [subject]},
    ]


def held_claim(name: str, namespace: str, *devices: str, count: int = 1) -> dict[str, Any]:
    return fleet.team_claim(name, *devices, namespace=namespace, pool=NODE, count=count)


HELD = [held_claim("held", MINE, "gpu-0"), held_claim("secret", OTHERS, "gpu-1")]
WAITING = held_claim("pair", MINE, count=2)


@pytest.fixture(scope="module")
def real(kubernetes: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """Three devices, two of them held, one by a claim that the account may not see; and a pod that wants two."""
    server = Real(kubernetes, tmp_path_factory.mktemp("seen"))
    account = {"name": ACCOUNT, "namespace": "kube-system"}
    brought = [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (MINE, OTHERS)),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        *role("seen-devices", [may_list("resourceslices", "deviceclasses")]),
        *role("seen-mine", [may_list("resourceclaims"), may_list("pods", group="")], MINE),
        gpu_class(),
        *gpus(NODE, 3),
        *({key: value for key, value in each.items() if key != "status"} for each in (*HELD, WAITING)),
        gpu_pod("waits", "nobody", namespace=MINE, resourceClaimName="pair"),
    ]
    server.apply(brought)

    async def hold(client: Client) -> None:
        claims = client.plain("resource.k8s.io/v1", "resourceclaims")
        for each in HELD:
            meta = each["metadata"]
            await claims.patch(
                meta["name"], {"status": each["status"]}, meta["namespace"], subresource="status"
            )

        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none"}
        pods = client.plain("v1", "pods")  # as if its scheduler ran, and had looked at it
        await pods.patch("waits", {"status": {"conditions": [told]}}, MINE, subresource="status")

    ask(server.admin, hold)
    yield server
    server.remove(brought)


@pytest.fixture
def shape(tmp_path: Path) -> str:
    file = tmp_path / "claim.json"
    file.write_text(fleet.written(held_claim("one", MINE)))
    return str(file)


def of_node(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Other tests use this server too."""
    return next(each for each in found if each.get("node") == NODE)


def run(allot: Allot, kubeconfig: str, *arguments: str) -> Any:
    ran = allot(*arguments, "-n", MINE, "--kubeconfig", kubeconfig, "-o", "json")
    assert ran.code in (0, 1), ran.err
    if ACCOUNT in kubeconfig:
        assert "secret" not in ran.out + ran.err
    return json.loads(ran.out)


def test_an_administrator_sees_everything(allot: Allot, real: Real, shape: str) -> None:
    admin = str(real.admin)
    pools = of_node(run(allot, admin, "pools")["pools"])
    assert (pools["summary"]["allocated"], pools["summary"]["available"], pools["hidden"]) == (2, 1, 0)
    (node,) = run(allot, admin, "describe", "node", NODE)["pools"]
    holders = [each.get("heldBy", [{}])[0].get("name") for each in node["devices"]]
    assert holders == ["held", "secret", None]
    assert [each["pool"] for each in run(allot, admin, "describe", "pool", NODE)["pools"]] == [NODE]
    assert run(allot, admin, "describe", "claim", f"{OTHERS}/secret")["devices"][0]["device"] == "gpu-1"
    (fits,) = run(allot, admin, "fit", "-f", shape)["claims"]
    assert of_node(fits["nodes"]) == {"node": NODE, "moreFit": 1, "bound": "exact"}
    told = run(allot, admin, "explain", "pod", f"{MINE}/waits")
    assert told["state"] == "FitsNowhere"
    assert "fits with count ≤ 1" in {each["words"].partition(" (")[0] for each in told["remedies"]}
    assert run(allot, admin, "explain", "claim", f"{MINE}/pair")["state"] == "FitsNowhere"
    top = run(allot, admin, "top")
    assert of_node(top["nodes"])["summary"]["allocated"] == 2
    waits = next(each for each in top["pending"] if each["pod"] == f"{MINE}/waits")
    assert (waits["state"], waits["reason"]) == ("FitsNowhere", told["reason"])
    assert not [each for each in run(allot, admin, "doctor")["findings"] if NODE in each["name"]]


def test_an_account_is_told_what_is_not_known(allot: Allot, real: Real, shape: str) -> None:
    account = real.kubeconfig(ACCOUNT)
    document = run(allot, account, "pools")
    pool = of_node(document["pools"])
    assert (pool["summary"]["allocated"], pool["summary"]["available"], pool["hidden"]) == (1, None, None)
    assert any(note.startswith("no ResourcePools can be read") for note in document["notes"])
    (node,) = run(allot, account, "describe", "node", NODE)["pools"]
    assert [each["state"] for each in node["devices"]] == ["Allocated", "Unknown", "Unknown"]
    assert run(allot, account, "describe", "claim", "held")["devices"][0]["device"] == "gpu-0"
    (fits,) = run(allot, account, "fit", "-f", shape)["claims"]
    assert of_node(fits["nodes"]) == {"node": NODE, "moreFit": 2, "bound": "atMost"}
    told = run(allot, account, "explain", "claim", "pair")
    assert (told["state"], told["certain"], told["hidden"]["held"]) == ("MayFit", False, None)
    assert run(allot, account, "explain", "pod", "waits")["state"] == "MayFit"
    top = run(allot, account, "top")
    assert of_node(top["nodes"])["summary"]["available"] is None
    assert [(each["pod"], each["state"]) for each in top["pending"]] == [(f"{MINE}/waits", "MayFit")]
    assert not [each for each in run(allot, account, "doctor")["findings"] if OTHERS in json.dumps(each)]


def test_a_scenario_is_tried_and_nothing_is_written(allot: Allot, real: Real, tmp_path: Path) -> None:
    waits = {"kind": "Pod", "namespace": MINE, "name": "waits"}
    steps = [
        {"resizePool": {"driver": fleet.GPU, "pool": NODE, "devices": 4}, "expect": {"running": [f"{MINE}/waits"]}},
        {"drainNode": NODE},
        {"delete": waits},
        {"removeNode": {"name": NODE, "force": True}},
    ]  # fmt: skip
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"apiVersion": "allotment.dev/v1", "kind": "Scenario", "steps": steps}))
    before = versions(real)
    told = run(allot, str(real.admin), "whatif", str(scenario))
    assert [each["done"] for each in told["steps"]] == [True, False, True, True]
    (placed,) = told["steps"][0]["changes"]
    assert (placed["pod"], placed["change"], placed["to"]) == (f"{MINE}/waits", "placed", NODE)
    assert f"{MINE}/waits" in told["steps"][1]["refused"]["by"]
    run(allot, real.kubeconfig(ACCOUNT), "whatif", str(scenario))
    assert versions(real) == before


def versions(real: Real) -> dict[str, str]:
    """Of all that a scenario could have touched. Other tests use this server too, so only of what is ours."""
    found = {}

    async def read(client: Client) -> None:
        for api_version, plural in (
            ("v1", "pods"),
            ("v1", "nodes"),
            ("resource.k8s.io/v1", "resourceclaims"),
            ("resource.k8s.io/v1", "resourceslices"),
        ):
            for each in (await client.plain(api_version, plural).list("")).items:
                meta = each["metadata"]
                if meta.get("namespace") in (MINE, OTHERS) or meta["name"].startswith(NODE):
                    found[f"{plural} {meta.get('namespace')}/{meta['name']}"] = meta["resourceVersion"]

    ask(real.admin, read)
    assert found
    return found


def test_the_live_view_follows(real: Real) -> None:
    with in_terminal("top", "--kubeconfig", str(real.admin), columns=120, lines=50) as terminal:
        terminal.until(lambda seen: "NODES" in seen)
        terminal.press(f"/{NODE}\r")
        terminal.until(lambda seen: f"{NODE}  ██░" in seen)

        async def release(client: Client) -> None:
            claims = client.plain("resource.k8s.io/v1", "resourceclaims")
            await claims.patch("secret", {"status": {"allocation": None}}, OTHERS, subresource="status")

        ask(real.admin, release)
        terminal.until(lambda seen: f"{NODE}  █░░" in seen)
        terminal.press("q")
        assert terminal.ended() == 0
