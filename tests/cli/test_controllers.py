"""``allot controllers``: alone against a server."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from allotment.api.codec import to_builtins
from allotment.controllers import names, suite
from tests.autoscaler import build
from tests.checkout import CHECKOUT
from tests.cli.served import (
    Served,
    component,
    gpu_class,
    gpu_pod,
    gpu_template,
    gpus,
    interrupted,
    said,
    served,
)
from tests.command_line import Allot

__all__ = ["served"]  # a fixture


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process leave its logs alone."""
    monkeypatch.setattr("allotment.daemons.log.set_up", lambda level: None)


def test_alone_they_make_claims_and_serve_their_numbers(served: Served) -> None:
    served.create(gpu_class(), gpu_template("one"), gpu_pod("p", "nobody", resourceClaimTemplateName="one"))
    kubeconfig = served.kubeconfig("allotment:controllers")
    with component("controllers", "--kubeconfig", kubeconfig, "--metrics-port", "0") as process:
        assert (
            said(process, "controllers: ")
            == "controllers: claims, device-taints, pools, parameters, workloads, nodes, volumes, overlays"
        )
        url = said(process, "metrics are at").split()[-1]
        made = served.until("resourceclaims", lambda obj: True, "resource.k8s.io/v1")
        assert made["metadata"]["ownerReferences"][0]["name"] == "p"
        with urllib.request.urlopen(url, timeout=60) as answer:
            numbers = answer.read().decode()
        assert 'allotment_resource_claims{state="pending"} ' in numbers
        assert "allotment_semantic_parameter_kinds" in numbers
        assert interrupted(process) == 0


def test_overlays_are_held_against_the_catalogue(served: Served) -> None:
    for name in ("one", "two"):  # both say what the same type has, with the same weight
        made = build.overlay(name, build.is_type("gpu-l4-1"), dynamicResources=build.gpus(1))
        served.create(to_builtins(made))
    options = ("--kubeconfig", served.kubeconfig("allotment:controllers"), "--only", "overlays")
    catalog = str(CHECKOUT / "examples" / "autoscaling" / "catalogue.yaml")
    with component("controllers", *options, "--catalog", catalog, "--metrics-port", "0") as process:
        told = served.until("nodeoverlays", lambda obj: obj.get("status"), "karpenter.sh/v1alpha1")
        [condition, _] = told["status"]["conditions"]
        assert condition["reason"] == "Conflict"
        assert condition["message"].startswith("gpu-l4-1: driver gpu.example.com: overlay ")
        assert interrupted(process) == 0


def test_a_catalogue_that_is_wrong_is_told_before_anything_runs(
    allot: Allot, quiet: None, tmp_path: Path
) -> None:
    file = tmp_path / "types.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n")
    for command in ("controllers", "up"):
        ran = allot(command, "--catalog", str(file))
        assert ran.code == 2
        assert f"{file}:1: Node node-1: does not belong in a catalogue" in ran.err


def test_only_those_that_are_named_need_rights(allot: Allot, quiet: None, served: Served) -> None:
    ran = allot(
        "controllers", "--kubeconfig", served.kubeconfig("jane"), "--only", "claims", "--no-leader-elect"
    )
    assert ran.code == 1
    assert (
        "controllers lacks rights: it may not list,watch,create,delete,patch resourceclaims.resource.k8s.io"
        in ran.err
    )
    assert "deployments" not in ran.err
    assert "leases" not in ran.err


def test_pools_are_counted_by_nobody_but_the_controllers_user(
    allot: Allot, quiet: None, served: Served
) -> None:
    ran = allot("controllers", "--kubeconfig", str(served.admin), "--only", "pools")
    assert ran.code == 1
    assert "this server lets only the user allotment:controllers write them" in ran.err
    assert "allot kubeconfig --user allotment:controllers" in ran.err
    with component("controllers", "--kubeconfig", str(served.admin)) as process:
        assert "allotment:controllers" in said(process, "the controller pools does not run: ")
        assert "pools" not in said(process, "controllers: ")


def test_pools_are_counted_until_their_gate_is_off_and_then_stay_as_they_are(served: Served) -> None:
    served.create(*gpus("counted", 2))
    kubeconfig = served.kubeconfig("allotment:controllers")
    version, name = "resource.k8s.io/v1beta2", "gpu.example.com.counted"
    with component("controllers", "--kubeconfig", kubeconfig, "--only", "pools") as process:
        made = served.until("resourcepools", lambda obj: obj["metadata"]["name"] == name, version)
        assert made["status"]["summary"]["availableDevices"] == 2
        assert interrupted(process) == 0
    off = "DRAResourceAvailabilityVisibility=false"
    with component("controllers", "--kubeconfig", kubeconfig, "--feature-gates", off) as process:
        assert "pools" not in said(process, "controllers: ")
        said(process, "at work")
        assert served.until("resourcepools", lambda obj: obj["metadata"]["name"] == name, version) == made
        assert interrupted(process) == 0


WRONG = {
    "unknown": ("claims,pods", "'pods' is not one of claims, device-taints, pools, parameters"),
    "none": (",", "name some of claims"),
}


@pytest.mark.parametrize("name", WRONG)
def test_names_that_are_wrong(allot: Allot, name: str) -> None:
    given, words = WRONG[name]
    ran = allot("controllers", "--only", given)
    assert ran.code == 2
    assert words in ran.err


def test_every_controller_can_be_named_and_says_what_it_writes() -> None:
    assert set(names.ALL) == set(suite.RIGHTS)
    assert all(
        any(not line.startswith("get,list,watch: ") for line in suite.RIGHTS[name]) for name in names.ALL
    )
