"""``allot pools``: what it shows of a cluster from files, in every format."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml

from allotment.cli import main as commands
from allotment.cli.render.screen import TerminalScreen
from allotment.cli.render.usage_table import bar
from allotment.usage.summary import Summary
from tests.checkout import CHECKOUT
from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import HEALTHY, WRONG, Json, slice_of, team_claim, written


def pools(allot: Allot, *options: str, objects: tuple[Json, ...] = (*HEALTHY, *WRONG)) -> Ran:
    return allot("pools", "--offline", "-", *options, stdin=written(*objects))


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_every_format(allot: Allot, form: str) -> None:
    ran = pools(allot, "-o", form)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden(f"pools-{form}.txt", ran.out)


def test_json_and_yaml_say_the_same(allot: Allot) -> None:
    assert json.loads(pools(allot, "-o", "json").out) == yaml.safe_load(pools(allot, "-o", "yaml").out)


def test_counts_of_each_pool_add_up(allot: Allot) -> None:
    for pool in json.loads(pools(allot, "-o", "json").out)["pools"]:
        counts = pool["summary"]
        assert counts["total"] == counts["allocated"] + counts["available"] + counts["unavailable"]


def names(ran: Ran) -> list[str]:
    found: list[dict[str, Any]] = json.loads(ran.out)["pools"]
    return [pool["pool"] for pool in found]


def test_filters(allot: Allot) -> None:
    assert names(pools(allot, "--driver", "nic.example.com", "-o", "json")) == ["fabric"]
    assert names(pools(allot, "--node", "node-2", "-o", "json")) == ["node-2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--driver", "gpu.exmple.com"), "there is no driver gpu.exmple.com\ndid you mean gpu.example.com"),
        (("--node", "zz"), "there is no pool of node zz\nallot pools shows what exists"),
    ],
)
def test_a_filter_that_leaves_nothing_says_what_there_is(
    allot: Allot, options: tuple[str, ...], words: str
) -> None:
    ran = pools(allot, *options)
    assert ran.code == 1
    assert words in ran.err


def test_files_as_kubectl_saves_them_with_fields_that_we_do_not_know(allot: Allot) -> None:
    newer = slice_of("n", "a")
    newer["spec"]["notInventedYet"] = True
    assert names(pools(allot, "-o", "json", objects=(newer,))) == ["n"]


def test_the_semantic_of_kep_4381(allot: Allot) -> None:
    ran = allot("pools", "--offline", "examples/semantic", "-o", "json")
    assert ran.code == 0
    assert all(pool["summary"]["total"] for pool in json.loads(ran.out)["pools"])


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (written(team_claim("c")), "have no ResourceSlices\nsave them with: kubectl get resourceslices"),
        ("kind: [", "stdin:"),
    ],
    ids=["no slices", "no yaml"],
)
def test_files_without_an_answer_are_the_inputs_fault(allot: Allot, stdin: str, words: str) -> None:
    ran = allot("pools", "--offline", "-", stdin=stdin)
    assert ran.code == 2
    assert words in ran.err


def test_a_server_that_is_not_there_is_told_in_one_sentence(allot: Allot, tmp_path: Any) -> None:
    ran = allot("pools", "--kubeconfig", str(tmp_path / "none"))
    assert ran.code == 2
    assert "none" in ran.err


def test_files_and_a_server_do_not_go_together(allot: Allot) -> None:
    assert allot("pools", "--offline", "-", "--context", "x").code == 2


@pytest.mark.parametrize(
    ("summary", "drawn"),
    [
        (Summary(4, 2, 1, 1), "████████▒▒▒▒░░░░"),
        (Summary(1000, 1, 999), "█░░░░░░░░░░░░░░░"),  # something is never drawn as nothing
        (Summary(2, 2), "█" * 16),
        (Summary(), "░" * 16),
        (Summary(4, 2, unknown=2), "████████▒▒▒▒▒▒▒▒"),
    ],
)
def test_bars(summary: Summary, drawn: str) -> None:
    assert bar(summary)[0] == drawn


def test_a_terminal_gets_bars(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr("allotment.cli.render.screen.open_screen", TerminalScreen)
    assert "█" in pools(allot).out


def test_names_cannot_command_the_terminal(allot: Allot) -> None:
    hostile = slice_of("n", "a", pool="n")
    hostile["spec"]["driver"] = "x\x1b[2J"
    ran = pools(allot, objects=(hostile,))
    assert "\x1b" not in ran.out + ran.err


def test_kubectl_finds_the_same_commands(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-dra"] == "allotment.cli.main:plugin"
    monkeypatch.setattr("sys.argv", ["kubectl-dra", "pools", "--help"])
    assert commands.plugin() == 0
    assert "Usage: kubectl dra pools" in capfd.readouterr().out
