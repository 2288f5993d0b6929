"""The command as a process: help at once, quiet ends, colours only where they are wanted."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from allotment.cli.commands.completion import words_after
from allotment.cli.main import allot as commands
from tests.checkout import CHECKOUT
from tests.command_line import Allot

NAMES = commands.list_commands(click.Context(commands))
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


# --- completion ---


def completed(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    line = " ".join(["allot", *words])
    environment = {**os.environ, "_ALLOT_COMPLETE": "bash_complete", "COMP_WORDS": line}
    environment["COMP_CWORD"] = str(len(words))
    ran = subprocess.run(ALLOT, env=environment, capture_output=True, text=True, check=True)
    return [each.partition(",")[2] for each in ran.stdout.split()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["des"], ["describe"]),
        (["describe", "n"], ["node"]),
        (["pools", "--dr"], ["--driver"]),
        (["pools", "-o", "n"], ["name"]),
        (["zzz"], []),
    ],
)
def test_tab_completes(words: list[str], offered: list[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_allot(allot: Allot, shell: str) -> None:
    ran = allot("completion", shell)
    assert ran.code == 0
    assert f"_ALLOT_COMPLETE={shell}_complete" in ran.out


def test_kubectl_is_answered_in_its_own_form() -> None:
    assert words_after(commands, ["des"])[-1] == ":4"
    assert words_after(commands, ["des"])[0].startswith("describe\t")
    assert words_after(commands, ["allocate", "-f", ""]) == [":0"], "files are the shell's"


# --- width ---


@pytest.mark.parametrize("command", [[], *([name] for name in NAMES)], ids=" ".join)
def test_help_fits_on_eighty_columns(
    allot: Allot, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = allot(*command, "--help")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []
