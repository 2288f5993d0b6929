"""What reaches a terminal: whole words at any width, and nothing that commands it."""

from __future__ import annotations

import functools
import io
import json
import logging
import subprocess
from collections.abc import Sequence

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.text import printable, printable_lines
from allotment.cli.render.document import written_out
from allotment.cli.render.screen import PlainScreen, TerminalScreen
from allotment.daemons.log import JsonFormatter, ReadableLines
from allotment.insight.errors import Failure
from tests.cli.pseudo_terminal import ALLOT, in_terminal

HOSTILE = "a\x1b[2J\x9b31m\u202eb\r\n\x07c"


def on_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    from rich.console import Console

    screen, shown = TerminalScreen(), io.StringIO()
    screen._console = Console(file=shown, width=width, highlight=False, markup=False, emoji=False)
    screen.table(columns, rows)
    return shown.getvalue()


words = st.text("abcdefghij-", min_size=1, max_size=30)
rows = st.lists(st.tuples(words, words, st.lists(words, min_size=1, max_size=4).map(" ".join)), min_size=1)


@given(rows=rows, width=st.integers(40, 120))
def test_no_word_is_broken(rows: list[tuple[str, str, str]], width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        shown = on_terminal(patch, width, ("name", "driver", "text"), rows)
    found = set(shown.split())
    for row in rows:
        for cell in row:
            assert found.issuperset(cell.split()), shown
    assert max(map(len, shown.splitlines())) <= width


def test_columns_that_find_no_room_go_on_further_lines_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("gke-prod-a100-pool-1-8f3c2a11-x2v9", "gpu.nvidia.example.com", "8", "out of date"),
        ("node-1", "gpu.nvidia.example.com", "16", ""),
        ("node-2", "net.example.com", "", ""),  # a line of nothing is left out
    ]
    shown = on_terminal(monkeypatch, 60, ("pool", "driver", "total", "problem"), rows)
    assert [line.rstrip() for line in shown.splitlines()] == [
        "pool                                driver",
        "  total  problem",
        "gke-prod-a100-pool-1-8f3c2a11-x2v9  gpu.nvidia.example.com",
        "  8      out of date",
        "node-1                              gpu.nvidia.example.com",
        "  16",
        "node-2                              net.example.com",
    ]


MESSAGES = ("down", "pools", "plan --offline examples", "explain pods a/b", "allocate -f nowhere.yaml")
HELP = (
    "scheduler --help",
    "controllers --help",
    "completion --help",
)  # an example for the shell is not broken up


HOME = "home"
"""A folder that is not there, by a name that is short enough for a line."""


@functools.cache
def piped(command: str) -> subprocess.CompletedProcess[str]:
    """What a command says in a pipe, once for all widths."""
    return subprocess.run([ALLOT, *command.split()], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("command", "width"),
    [*((each, width) for each in MESSAGES for width in (30, 60, 80)), *((each, 80) for each in HELP)],
)
def test_words_on_a_terminal_are_those_in_a_pipe(
    command: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in messages, which no table brings into shape, and behind hyphens, where a name such as kube-system goes on."""
    for name in ("HOME", "XDG_DATA_HOME", "ALLOT_DATA_DIR"):
        monkeypatch.setenv(name, HOME)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    said = piped(command)
    with in_terminal(*command.split(), columns=width, lines=200) as terminal:
        assert terminal.ended() == said.returncode
        words = set(str(terminal.picture).split())
    assert {each for each in (said.stdout + said.stderr).split() if len(each) <= width - 20} <= words


def test_help_tells_in_whole_sentences_what_the_commands_of_a_group_do() -> None:
    for group in ("describe", "explain"):
        shown = subprocess.run([ALLOT, group, "--help"], capture_output=True, text=True).stdout
        assert "..." not in shown.partition("Commands:")[2]


def test_yaml_and_logs_hold_nothing_that_a_terminal_hides_or_obeys() -> None:
    record = logging.makeLogRecord({"msg": HOSTILE, "name": "x", "levelname": "INFO"})
    for hostile in ("a\u202eb", "a\u2066b", "a\u200bb", "a\x9b31mb", "a\u061cb", "a\U000e0041b"):
        record.pod = hostile
        shown = [written_out({hostile: hostile}, form) for form in ("json", "yaml")] + [
            JsonFormatter().format(record)
        ]
        for text in shown:
            assert all(each.isprintable() for each in text.split("\n")), ascii(text)
        assert yaml.safe_load(shown[1]) == json.loads(shown[0]) == {hostile: hostile}
        assert json.loads(shown[2])["pod"] == hostile


@given(st.text())
def test_one_line_stays_one_line_and_holds_no_commands(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text())
def test_what_a_message_holds_cannot_look_like_a_line_of_ours(text: str) -> None:
    _, *others = printable_lines(text).split("\n")
    assert all(line.startswith(" ") for line in others)


def test_every_way_to_the_terminal_is_harmless(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = logging.LogRecord("allotment.x", logging.INFO, "", 0, HOSTILE, None, None)
    record.pod = HOSTILE
    plain = PlainScreen()
    plain.heading(HOSTILE)
    plain.line((HOSTILE, "red"), HOSTILE)
    plain.table(["name", HOSTILE], [[HOSTILE, (HOSTILE, "red")]])
    shown = [
        capsys.readouterr().out,
        on_terminal(monkeypatch, 100, ("name", HOSTILE), [(HOSTILE, HOSTILE)]),
        Failure(HOSTILE, HOSTILE).words(),
        written_out({"name": HOSTILE}, "json"),
        ReadableLines().format(record),
    ]
    for text in shown:
        assert all(each.isprintable() for each in text.split("\n")), text
    assert json.loads(written_out({"name": HOSTILE}, "json")) == {"name": HOSTILE}


def test_logs_are_for_people_on_a_terminal_and_json_elsewhere() -> None:
    record = logging.makeLogRecord(
        {"msg": "claim freed", "name": "allotment.claims", "levelno": logging.WARNING, "levelname": "WARNING"}
    )
    record.claim = "team/a"
    line = ReadableLines().format(record)
    assert line.endswith(" warning: claims: claim freed claim=team/a")
    assert json.loads(JsonFormatter().format(record))["claim"] == "team/a"
