"""The command as a process: help at once, quiet ends, colours only where they are wanted."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CHECKOUT, Allot

ALLOT = [sys.executable, "-c", "import sys; from allotment.cli.main import main; sys.exit(main())"]


def test_help_names_the_commands(allot: Allot) -> None:
    ran = allot("--help")
    assert ran.code == 0
    assert "allocate" in ran.out
    assert "cel" in ran.out


def test_version(allot: Allot) -> None:
    assert allot("--version").out.startswith("allot 0.")


def test_help_loads_nothing_that_it_does_not_need() -> None:
    code = "from allotment.cli.main import main; import sys; main(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert loaded.isdisjoint(
        {"rich", "yaml", "msgspec", "allotment.api", "allotment.allocator", "allotment.cel"}
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [*ALLOT, "allocate", "-f", "examples"],
        cwd=CHECKOUT,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert ran.stderr == b""
    assert ran.returncode == 0


def test_an_interrupt_ends_the_stream_quietly() -> None:
    process = subprocess.Popen(
        [*ALLOT, "cel", "--ndjson"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"expression": "true"}\n')
    process.stdin.flush()
    assert b'"match":true' in process.stdout.readline()  # now it waits for the next line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert err.strip() == b""
    assert process.returncode == 130


def on_a_terminal(tmp_path: Path, **environment: str) -> str:
    """What the command writes to a terminal of 100 columns."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    process = subprocess.Popen(
        [*ALLOT, "allocate", "-f", "examples"],
        cwd=CHECKOUT,
        stdout=follower,
        env=env,
        stderr=subprocess.STDOUT,
    )
    os.close(follower)
    data = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        data += part
    os.close(leader)
    assert process.wait() == 1
    return data.decode()


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_only_on_a_terminal_that_wants_them(
    tmp_path: Path, environment: dict[str, str], coloured: bool
) -> None:
    shown = on_a_terminal(tmp_path, **environment)
    assert "ml/train-pair" in shown
    assert ("\x1b[36m" in shown) is coloured
