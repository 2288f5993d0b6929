"""The core is deterministic: a recorded run replays to the same instructions, in any process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace as changed

import pytest

from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.client.places import PLACES
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, ProfileSpec
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure
from allotment.scheduler.event_log import (
    BrokenLog,
    EventLog,
    ReplayDifference,
    configuration_of,
    opening,
    record,
    replay,
)
from allotment.scheduler.instruction import Bind, Instruction
from tests.builders.typed import node, pod
from tests.checkout import CHECKOUT
from tests.scheduler.walk import CONFIGURATION, Walk


def recorded(seed: int, steps: int = 150) -> list[str]:
    """The log of a walk whose scheduler never crashed: a crash would begin another log."""
    lines: list[str] = []
    walk = Walk(seed, faults=False)
    log = EventLog(lines.append)

    def hear(event: Event, instructions: list[Instruction]) -> None:
        log(event)
        for instruction in instructions:
            log(instruction)

    walk.seats[0].heard = hear
    walk.seats[0].crash()  # so that the log has the beginning too
    walk.run(steps)
    return lines


def fresh() -> Scheduler:
    return Scheduler(Cluster(), CONFIGURATION.rosters(), backoff=CONFIGURATION.backoff)


@pytest.mark.parametrize("seed", range(3))
def test_a_recorded_run_replays_to_the_same_instructions(seed: int) -> None:
    lines = recorded(seed)
    assert any('"instruction"' in line for line in lines)

    assert replay(lines, fresh()) is None


def digest(seed: int) -> str:
    return hashlib.sha256("".join(recorded(seed, 250)).encode()).hexdigest()


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    """In a process whose sets have another order."""
    script = f"from tests.scheduler.test_replay import digest; print(digest({seed}))"
    root = CHECKOUT
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root / 'src'}:{root}"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_order_of_sets_does_not_matter() -> None:
    assert digest_elsewhere(12, "1") == digest(12)


# --- what a log tells when it differs ---


def simple() -> list[str]:
    lines: list[str] = []
    log, core = EventLog(lines.append), fresh()
    for event in (Tick(1.0), Changed(None, node("n")), Changed(None, pod("p", cpu=1)), Turn(1)):
        log(event)
        for instruction in core.handle(event):
            log(instruction)
    return lines


def test_an_instruction_that_is_not_in_the_log() -> None:
    difference = replay(simple()[:4], fresh())

    assert isinstance(difference, ReplayDifference)
    assert difference.line == 5
    assert difference.logged is None
    assert difference.said is not None
    assert difference.said["instruction"] == "Bind"


def test_another_instruction_than_in_the_log() -> None:
    lines = [line.replace('"node":"n"', '"node":"other"') for line in simple()]

    difference = replay(lines, fresh())

    assert difference is not None
    assert difference.logged is not None
    assert difference.logged["node"] == "other"
    assert "line 5" in str(difference)


def test_an_instruction_that_is_not_said() -> None:
    lines = simple()
    again = record(Bind(9, "default", "q", "uid", "n"))

    difference = replay([*lines, again], fresh())

    assert difference is not None
    assert difference.said is None


def test_an_event_before_all_instructions_were_said() -> None:
    lines = [*simple()[:4], record(Tick(2.0)) + "\n"]

    difference = replay(lines, fresh())

    assert difference is not None
    assert difference.logged is None


@pytest.mark.parametrize("event", [Done(1, 2, "u"), Failed(1, WriteFailure.TAKEN, "why"), Tick(2.5), Turn(3)])
def test_replies_are_heard_as_they_were(event: Event) -> None:
    assert replay([record(event)], fresh()) is None


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "{}",
        '{"event": "Tick", "instruction": "Bind"}',
        '{"event": "Rumour"}',
        '{"event": "Tick"}',
        '{"event": "Failed", "id": 1, "why": "because", "message": ""}',
        '{"event": "Changed", "kind": "Secret", "object": {"metadata": {"name": "s"}}}',
        '{"event": "Changed", "kind": "Pod", "object": {"metadata": {"name": "p"}}, "appeared": false, "gone": true}',
    ],
)
def test_a_line_that_no_core_heard_or_said(line: str) -> None:
    with pytest.raises(BrokenLog, match="line 1 of the log"):
        replay([line], fresh())


@pytest.mark.parametrize("type_", [*PLACES, Node], ids=lambda type_: type_.__name__)
def test_every_kind_that_a_scheduler_follows_can_be_heard_again(type_: type[ApiStruct]) -> None:
    obj = decode(type_, {"metadata": {"name": "x", "namespace": "default"}})
    assert replay([record(Changed(None, obj)), record(Changed(obj, None))], fresh()) is None


# --- the first line of a file ---


def test_a_recording_begins_with_the_configuration() -> None:
    profile = ProfileSpec("mine", disabled=frozenset(("NodePorts", "NodeName")), scores={"NodeAffinity": 7})
    configuration = changed(DEFAULT, profiles=(profile,), gangs=False, ignored=("percentage",))
    assert configuration_of(opening(configuration)) == configuration


@pytest.mark.parametrize(
    "line", ["", "{}", '{"event": "Tick", "now": 1.0}', '{"recording": "something else"}']
)
def test_a_file_that_begins_otherwise_is_no_recording(line: str) -> None:
    with pytest.raises(BrokenLog, match="line 1 does not begin a scheduler's recording"):
        configuration_of(line)
