"""A scheduler's run in a file: whole events, never more than it may hold, and never in the scheduler's way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from allotment.daemons.event_recording import RECORDING_BYTES, recorded
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.driver import configured
from allotment.scheduler.event import Changed, Event, Tick, Turn
from allotment.scheduler.event_log import configuration_of, opening, replay
from tests.builders.typed import node, pod

EVENTS: tuple[Event, ...] = (
    Tick(1.0),
    Changed(None, node("n")),
    Changed(None, pod("p", cpu=1)),
    Turn(1),
    Tick(2.0),
)


def run(path: Path, most: int = RECORDING_BYTES) -> None:
    """A scheduler that binds a pod, recorded."""
    core = configured(DEFAULT)
    with recorded(path, DEFAULT, most) as hear:
        assert hear is not None
        for event in EVENTS:
            hear(event)
            for instruction in core.handle(event):
                hear(instruction)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def same(path: Path) -> bool:
    """Whether what the file has leads to the same again."""
    first, *rest = lines(path)
    return replay(rest, configured(configuration_of(first)), first=2) is None


def test_a_run_can_be_replayed_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "run"
    run(file)
    assert any('"instruction":"Bind"' in line for line in lines(file))
    assert same(file)


def test_a_new_run_replaces_the_file_and_others_may_not_read_it(tmp_path: Path) -> None:
    """It has all that the scheduler read, and a core that begins anew begins a new recording."""
    file = tmp_path / "run"
    run(file)
    before = lines(file)
    assert file.stat().st_mode & 0o777 == 0o600
    run(file)
    assert lines(file) == before


def test_without_a_file_nothing_is_recorded() -> None:
    with recorded(None, DEFAULT) as hear:
        assert hear is None


def test_it_ends_before_it_becomes_too_large_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = tmp_path / "whole"
    run(whole)
    for most in range(len(opening(DEFAULT)) + 1, whole.stat().st_size, 50):
        caplog.clear()
        file = tmp_path / str(most)
        run(file, most)
        assert file.stat().st_size <= most
        assert lines(file) == lines(whole)[: len(lines(file))]
        assert same(file)  # no event is without its instructions
        (said,) = caplog.messages
        assert f"recording into {file} ends here: it has reached its maximal size, {most:,} bytes" in said
        assert "the scheduler goes on" in said


def test_a_full_disk_ends_it_after_the_last_whole_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, file, write = tmp_path / "whole", tmp_path / "run", os.write
    run(whole)
    room = [whole.stat().st_size - 100]

    def full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        run(file)
    assert room == [0]
    assert lines(file) == lines(whole)[: len(lines(file))]
    assert same(file)
    assert "No space left on device; the scheduler goes on" in caplog.text


def test_a_device_that_takes_nothing_stops_only_the_recording(caplog: pytest.LogCaptureFixture) -> None:
    run(Path("/dev/full"))
    assert "recording into /dev/full ends here: No space left on device" in caplog.text


def test_a_folder_that_is_gone_stops_only_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path / "gone" / "run")
    assert "No such file or directory; the scheduler goes on" in caplog.text
