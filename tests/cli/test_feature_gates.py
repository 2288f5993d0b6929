"""``--feature-gates``: what can be switched off, and words that are wrong."""

from __future__ import annotations

from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

from allotment.autoscaler.simulate.simulation import start_simulation
from allotment.cli.options.feature_gates import DEVICES, GATES, feature_gates_option
from allotment.controllers import names
from allotment.scheduler.diagnosis import NoNode
from tests.builders.typed import node, pod
from tests.command_line import Allot

GATE = "DRAResourceAvailabilityVisibility"


@click.command()
@feature_gates_option
def told(switched_off: frozenset[str]) -> None:
    click.echo(",".join(sorted(switched_off)) or "nothing")


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ((), "nothing"),
        (("--feature-gates", f"{GATE}=true"), "nothing"),
        (("--feature-gates", f"{GATE}=false"), "pools"),
        (("--feature-gates", f" {GATE} = False "), "pools"),
        (("--feature-gates", f"{GATE}=true,{GATE}=false"), "pools"),  # the last word counts, as in Kubernetes
    ],
)
def test_what_is_switched_off(given: tuple[str, ...], off: str) -> None:
    ran = CliRunner().invoke(told, list(given))
    assert (ran.exit_code, ran.output.strip()) == (0, off)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("Nope=true", f"'Nope' is not one of {GATE}"),
        ("", f"'' is not one of {GATE}"),
        (GATE, f"write {GATE}=true or {GATE}=false"),
        (f"{GATE}=maybe", f"write {GATE}=true or {GATE}=false"),
    ],
)
def test_words_that_are_wrong(given: str, words: str) -> None:
    ran = CliRunner().invoke(told, ["--feature-gates", given])
    assert ran.exit_code == 2
    assert words in ran.output


def test_gates_switch_controllers_that_there_are() -> None:
    assert {part for parts in GATES.values() for part in parts} <= {*names.NAMES, DEVICES}


def test_without_dynamic_resource_allocation_claims_are_left_alone(allot: Allot, tmp_path: object) -> None:
    with (
        patch("uvloop.run", lambda running: running.close()),
        patch("allotment.daemons.log.set_up", lambda level: None),
        patch("allotment.cli.commands.up._serve") as serve,
    ):
        gate = "DynamicResourceAllocation=false"
        ran = allot("up", "--data-dir", f"{tmp_path}/data", "--feature-gates", gate)
    assert ran.code == 0, ran.err
    wanted, _ = serve.call_args.args[1]
    assert not {"claims", "pools", "parameters", "device-taints"} & set(wanted.controllers)
    there = start_simulation([node("n", cpu=8)], configuration=wanted.scheduler)
    assert there.fits(pod("plain", cpu=1)) == "n"
    refused = there.fits(pod("p", claims=["c"]))
    assert isinstance(refused, NoNode)
    assert refused.words == "uses resource claims, and the feature gate DynamicResourceAllocation is off"


@pytest.mark.parametrize("given", ["true", "false"])
def test_up_runs_the_controller_while_its_gate_is_on(allot: Allot, tmp_path: object, given: str) -> None:
    with (
        patch("uvloop.run", lambda running: running.close()),
        patch("allotment.daemons.log.set_up", lambda level: None),
        patch("allotment.cli.commands.up._serve") as serve,
    ):
        ran = allot("up", "--data-dir", f"{tmp_path}/data", "--feature-gates", f"{GATE}={given}")
    assert ran.code == 0, ran.err
    wanted, _ = serve.call_args.args[1]
    assert wanted.controllers == tuple(name for name in names.NAMES if given == "true" or name != "pools")


def test_a_controller_cannot_be_named_and_switched_off(allot: Allot) -> None:
    ran = allot("controllers", "--only", "claims,pools", "--feature-gates", f"{GATE}=false")
    assert ran.code == 2
    assert "--only names pools, which --feature-gates switches off" in ran.err
