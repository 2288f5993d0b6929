"""What reaches a terminal: whole words at any width, and nothing that commands it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.document import written_out
from allotment.cli.failure import Failure
from allotment.cli.log import JsonLines, ReadableLines
from allotment.cli.screen import PlainScreen, TerminalScreen, printable, printable_lines

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


def test_a_table_that_is_too_wide_is_shown_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("gke-prod-a100-pool-1-8f3c2a11-x2v9", "gpu.nvidia.example.com", "8", "")
    shown = on_terminal(monkeypatch, 60, ("pool", "driver", "total", "problem"), [row])
    assert [line.rstrip() for line in shown.splitlines()] == [
        "gke-prod-a100-pool-1-8f3c2a11-x2v9",
        "  driver   gpu.nvidia.example.com",
        "  total    8",
    ]


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
        Failure(HOSTILE, HOSTILE).format_message(),
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
    assert json.loads(JsonLines().format(record))["claim"] == "team/a"
