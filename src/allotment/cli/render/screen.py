"""Where answers appear: a terminal with colours, or plain aligned text in a pipe.

Both show the same content in the same order. Text from manifests is made harmless first, because an attribute may contain
control characters that would change the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from allotment.api.text import printable
from allotment.insight.remarks import on_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Span = tuple[str, str]
"""A text with its style on a terminal; plain text ignores the style."""

Cell = str | Span

_GAP = 2
"""The number of spaces between two columns of a table."""
_INDENT = 2


class Screen(Protocol):
    """The interface to which renderers write."""

    def heading(self, text: str) -> None:
        """The title of a section."""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Rows under column titles."""

    def line(self, *spans: Cell, indent: int = 0) -> None:
        """One line; it is not wrapped in a pipe."""

    def command(self, text: str) -> None:
        """A command for the user to copy. It is never wrapped."""


def open_screen() -> Screen:
    """The screen that suits standard output."""
    return TerminalScreen() if on_terminal(sys.stdout) else PlainScreen()


class PlainScreen:
    """Aligned columns, two spaces apart, no colours."""

    def __init__(self) -> None:
        self._blank = True  # nothing is above, so no blank line is needed

    def heading(self, text: str) -> None:
        if not self._blank:
            click.echo()
        title = printable(text)
        click.echo(f"{title}\n{'-' * len(title)}")
        self._blank = False

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        texts = _texts([column.upper() for column in columns], rows)
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for row in texts:
            click.echo("  ".join(map(str.ljust, row, widths)).rstrip())

    def line(self, *spans: Cell, indent: int = 0) -> None:
        click.echo(" " * indent + "".join(map(_text, spans)))
        self._blank = False

    def command(self, text: str) -> None:
        self.line(text, indent=2)


class TerminalScreen:
    """The same with rich: wrapped tables, and colours unless NO_COLOR is set. Words are never broken. If the longest words of
    all columns do not fit side by side, the last columns, titles included, continue on further lines of each row."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False)

    def heading(self, text: str) -> None:
        self._console.print(f"\n{printable(text)}", style="bold")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self._console.print(_rich_table(columns, rows, self._console.width))

    @contextmanager
    def live_table(self, columns: Sequence[str]) -> Iterator[Callable[[Sequence[Sequence[Cell]]], None]]:
        """A table that changes in place while the context lasts, and disappears afterwards. Call the returned function with
        new rows."""
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield lambda rows: live.update(_rich_table(columns, rows, self._console.width), refresh=True)

    def line(self, *spans: Cell, indent: int = 0) -> None:
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text.assemble(*map(_styled, spans)), (0, 0, 0, indent), expand=False))

    def command(self, text: str) -> None:
        self._console.print(" " * _INDENT + printable(text), soft_wrap=True)


def _lines_of(texts: Sequence[Sequence[str]], width: int) -> list[dict[int, int]]:
    """The columns on each line of a row, with their widths: as many columns as fit with their longest words."""
    columns = list(zip(*texts, strict=True))
    least = [max(len(word) for text in column for word in (text.split() or [""])) for column in columns]
    lines: list[dict[int, int]] = [{}]
    room = width
    for number, wide in enumerate(least):
        if lines[-1] and wide > room:
            lines.append({})
            room = width - _INDENT
        lines[-1][number] = min(wide, width)
        room -= wide + _GAP
    for number, line in enumerate(lines):
        _spread(line, columns, width - _INDENT if number else width)
    return lines


def _spread(line: dict[int, int], columns: Sequence[Sequence[str]], width: int) -> None:
    """Gives the columns of a line the widths that they want. If there is not enough room, the widest columns give way first."""
    least = dict(line)
    for number in line:
        line[number] = max(least[number], min(width, max(map(len, columns[number]))))
    while sum(line.values()) + _GAP * (len(line) - 1) > width:
        yielding = [number for number in line if line[number] > least[number]]
        if not yielding:
            return
        line[max(yielding, key=line.__getitem__)] -= 1


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> RenderableType:
    """One table or, where that would be too wide, a small one for each line of a row."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    lines = _lines_of(_texts(columns, rows), width)
    every: list[Sequence[Cell]] = [[(column, "dim") for column in columns], *rows]
    shown: list[RenderableType] = []
    for at_once in [every] if len(lines) == 1 else [[row] for row in every]:
        for number, line in enumerate(lines):
            table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
            for each in line.values():
                table.add_column(overflow="fold", width=each)
            for row in at_once:
                table.add_row(*(_styled(row[column]) for column in line))
            if not number or any(_text(row[column]) for row in at_once for column in line):
                shown.append(Padding(table, (0, 0, 0, _INDENT if number else 0), expand=False))
    return Group(*shown)


def _texts(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    return [[printable(column) for column in columns], *([_text(cell) for cell in row] for row in rows)]


def _text(cell: Cell) -> str:
    return printable(cell if isinstance(cell, str) else cell[0])


def _styled(cell: Cell) -> Text:
    from rich.text import Text

    return Text(_text(cell), style="" if isinstance(cell, str) else cell[1])
