"""``allot demo``: everything together ends as its story says, with the rights of the components and no more."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from allotment.apiserver.server import ApiServer
from allotment.cli.commands import demo
from allotment.cli.commands.demo import DemoDisplay, Picture
from allotment.cli.render.demo_table import STORY, Launched, PodRow, unexpected
from allotment.daemons import demo_objects
from tests.checkout import CHECKOUT
from tests.command_line import Allot, same_as_golden

WHY = (
    "0/14 nodes: 11 have only 40Gi to 80Gi gpu, need 96Gi; 3 have no gpu; no machine helps: none of 2 instance types fits: "
    "has only 48Gi gpu, need 96Gi (2)"
)


def play(folder: Path, show: DemoDisplay | None = None) -> Picture | None:
    return asyncio.run(demo._play(folder, show or DemoDisplay(lambda picture: None)))


def test_the_whole_demo_ends_as_its_story_says_and_nothing_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers: list[str] = []
    stop = ApiServer.stop

    async def remember(server: ApiServer) -> None:
        numbers.append((await server.metrics.text()).decode())
        await stop(server)

    monkeypatch.setattr(ApiServer, "stop", remember)
    at_once = re.sub(r'-seconds: "\d+"', '-seconds: "0"', Path(demo_objects.demo_catalogue()).read_text())
    (tmp_path / "catalogue.yaml").write_text(
        at_once
    )  # who looks at it may want to see machines start; a test does not
    monkeypatch.setattr(demo_objects, "demo_catalogue", lambda: str(tmp_path / "catalogue.yaml"))
    seen: list[Picture] = []
    last = play(tmp_path / "data", DemoDisplay(seen.append))
    assert last is not None
    assert not last.missing
    assert (last.nodes, len(last.rows)) == (12, sum(workload.pods for workload in STORY))
    _tells_a_story(last.rows)
    assert [(each.type, each.price, each.state) for each in last.machines] == [("ray-2", "2.10", "gone")] * 2
    assert max(picture.nodes for picture in seen) == 14
    assert len({len(picture.rows) for picture in seen}) > 1  # they arrived one after the other
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    (text,) = numbers
    assert not re.findall(r'^apiserver_request_total\{.*code="40[13]".*$', text, re.MULTILINE)
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 22.0' in text
    waiting = dict(re.findall(r'^scheduler_pending_pods\{queue="(\w+)"\} (\d+)', text, re.MULTILINE))
    # No node will ever do for it, so that nothing wakes it that pods give back, however late.
    assert waiting == {"active": "0", "backoff": "0", "unschedulable": "1", "gated": "0"}
    assert 'allotment_resource_claims{state="reserved"}' in text


def _tells_a_story(rows: Sequence[PodRow]) -> None:
    by = {row.pod: row for row in rows}
    held = [device for row in rows if row.pod != "chat-2" for device in row.devices if "(" not in device]
    assert len(held) == len(set(held))  # nothing is promised twice
    assert by["chat-1"].devices == by["chat-2"].devices
    assert [len(by[f"training-{number}"].devices) for number in (1, 2, 3, 4)] == [4, 4, 4, 4]
    assert len(by["parts"].devices) == 3
    assert by["stream-1"].devices[0].endswith("(bandwidth=40G)")
    assert re.match(r"0/1\d nodes: .*need 96Gi; .*no machine helps: .*need 96Gi", by["too-large"].why)
    assert {by[name].node for name in by if name.startswith("render")} <= {
        row.node for row in rows if row.node.startswith("rays-")
    }


def test_ctrl_c_ends_it_before_its_end(tmp_path: Path) -> None:
    def interrupt(picture: Picture) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    assert play(tmp_path, DemoDisplay(interrupt)) is None


# --- what is shown ---


def row(pod: str, state: str = "Running", **more: object) -> PodRow:
    given = {"node": "ada", "devices": ("gpu.example.com/ada/gpu-0",), **more}
    return replace(PodRow(pod, "", (), state, "words"), **given)  # type: ignore[arg-type]  # fields of a row


WAITING = row("too-large", "Pending", node="", devices=(), why=WHY)
DONE = row("evaluation-x", "Succeeded", devices=())
ENDED = Picture(
    12,
    112,
    (
        row("notebook-1"),
        row("stream-1", devices=("net.example.com/ada-net/eth0 (bandwidth=40G)",)),
        row("early", node="lise", devices=("cards.example.com/lise/card-1--936aed18dc104f65",)),
        DONE,
        row("render-x", "Succeeded", node="rays-1234567890", devices=()),
        WAITING,
    ),
    (Launched("rays-1234567890", "ray-2", "east", "2.10", "gone"),),
    (),
    4.2,
)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Picture | None]:
    """What the play ends with, for tests of what is shown of it."""
    result: list[Picture | None] = [ENDED]

    async def played(folder: Path, stage: DemoDisplay) -> Picture | None:
        return result[0]

    monkeypatch.setattr(demo, "_play", played)
    monkeypatch.setattr("allotment.daemons.log.set_up", lambda level: None)  # both are the process's,
    monkeypatch.setattr("sys.setswitchinterval", lambda seconds: None)  # which is the tests' here
    return result


def test_the_readme_tells_the_same_story() -> None:
    shown = (CHECKOUT / "README.md").read_text().split("```text\n")[1].split("```")[0].splitlines()
    assert shown[0].startswith(f"{sum(workload.pods for workload in STORY)} pods on 12 simulated nodes")
    for workload in STORY:
        (*_, row) = (line for line in shown if line.startswith(workload.names) and " waits: " not in line)
        assert re.search(rf" {workload.state} +{re.escape(workload.words)}$", row)
    assert f"too-large waits: {WHY}" in shown


def test_in_a_pipe_it_is_a_plain_table(allot: Allot, ended: list[Picture | None]) -> None:
    ran = allot("demo")
    assert (ran.code, ran.err) == (0, "")
    same_as_golden("demo.txt", ran.out)


def test_for_programs_it_is_json(allot: Allot, ended: list[Picture | None]) -> None:
    ran = allot("demo", "-o", "json")
    told = json.loads(ran.out)
    assert ran.code == 0
    assert told["asExpected"] is True
    assert told["pods"][-1] == {
        "name": "too-large",
        "node": None,
        "devices": [],
        "state": "Pending",
        "message": WHY,
    }


def test_an_unexpected_end_is_said_and_is_the_exit_code(allot: Allot, ended: list[Picture | None]) -> None:
    ended[0] = replace(ENDED, missing=("training: 3 of 4 Running",))
    ran = allot("demo")
    assert ran.code == 1
    assert "not as expected: training: 3 of 4 Running" in ran.out


def test_one_that_was_interrupted_says_nothing(allot: Allot, ended: list[Picture | None]) -> None:
    ended[0] = None
    ran = allot("demo")
    assert (ran.code, ran.out) == (130, "")


UNEXPECTED = {
    "a pod that is missing": ([], "too-large: 0 of 1 Pending"),
    "as it should be": ([WAITING], ""),
    "one that runs and should not": (
        [replace(WAITING, state="Running", why="")],
        "too-large: 0 of 1 Pending; too-large is Running",
    ),
    "one that waits and does not say why": (
        [replace(WAITING, why="")],
        "too-large: 0 of 1 Pending; too-large is Pending",
    ),
    "one that does not say that no machine helps": (
        [replace(WAITING, why="0/12 nodes")],
        "too-large: 0 of 1 Pending; too-large is Pending (0/12 nodes)",
    ),
    "one too many": ([WAITING, replace(WAITING, pod="too-large-2")], "too-large: 2 of 1 Pending"),
}


@pytest.mark.parametrize("name", UNEXPECTED)
def test_what_is_expected_of_the_end(name: str) -> None:
    rows, sentence = UNEXPECTED[name]
    found = [each for each in unexpected(rows) if each.startswith("too-large")]
    assert found == ([sentence] if sentence else [])


def test_a_finished_pod_must_have_given_its_devices_back() -> None:
    assert any("evaluation" in each for each in unexpected([replace(DONE, devices=("d/p/x",))] * 3))
    assert not any("evaluation" in each for each in unexpected([DONE] * 3))


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "machines: 0 of 0 are not gone"),
        (["gone", "going"], "machines: 1 of 2 are not gone"),
        (["gone", "gone"], ""),
    ],
)
def test_machines_must_have_come_and_gone(states: list[str], words: str) -> None:
    machines = [Launched(str(number), "t", "z", "1", state) for number, state in enumerate(states)]
    found = [each for each in unexpected([], machines) if each.startswith("machines")]
    assert found == ([words] if words else [])


def test_a_pod_that_runs_without_devices_is_unexpected() -> None:
    assert any("early" in each for each in unexpected([row("early", devices=())]))


@pytest.mark.parametrize(
    ("target", "extras"), [("demo", False), ("test", True), ("check", True), ("venv", True)]
)
def test_who_only_looks_at_the_demo_does_not_install_what_developers_need(
    tmp_path: Path, target: str, extras: bool
) -> None:
    words = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert "install --no-deps --require-hashes" in planned
    assert ("To develop besides" not in planned) is extras, "what only developers need is cut off"
