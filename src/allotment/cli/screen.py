"""Where answers are shown: a terminal with colours, or plain aligned text in a pipe.

Both show the same content in the same order. What comes from manifests is made harmless first: an attribute may hold
control characters that would command the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

import click

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Span = tuple[str, str]
"""Text and the style that it has on a terminal; plain text ignores the style."""

Cell = str | Span

_GAP = 2
"""Columns between those of a table."""


class Screen(Protocol):
    """What renderers write to."""

    def heading(self, text: str) -> None:
        """The title of a part."""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Rows under column titles."""

    def line(self, *spans: Cell, indent: int = 0) -> None:
        """One line; it is not wrapped in a pipe."""


def open_screen() -> Screen:
    """The screen that suits standard output."""
    return TerminalScreen() if on_terminal(sys.stdout) else PlainScreen()


def on_terminal(stream: TextIO) -> bool:
    """Whether a person looks at what is written there, on something that can show colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """One line: control characters and line breaks, which names and attributes may hold, written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """As ``printable`` for a message of several lines; those after the first begin with a space, so that what a name holds
    does not look like a line of ours."""
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(line if line.startswith(" ") else f"  {line}" for line in others)])


class PlainScreen:
    """Aligned columns, two spaces apart, no colours."""

    def __init__(self) -> None:
        self._blank = True  # nothing is above, so no space is needed

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


class TerminalScreen:
    """The same with rich: wrapped tables, and colours unless NO_COLOR is set. No word is broken: a table whose longest words do
    not fit beside each other is shown row by row, each under its first cell."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False)

    def heading(self, text: str) -> None:
        self._console.print(f"\n{printable(text)}", style="bold")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        widths = self._widths(columns, rows)
        if widths is not None:
            self._console.print(_rich_table(columns, rows, widths))
            return
        titles = [printable(column) for column in columns[1:]]
        margin = max(map(len, titles), default=0) + 2
        for first, *rest in rows:
            self.line(first)
            for title, cell in zip(titles, rest, strict=True):
                if _text(cell):
                    self.line((title.ljust(margin), "dim"), cell, indent=2)

    def _widths(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[int] | None:
        return _fitting_widths(_texts(columns, rows), self._console.width)

    @contextmanager
    def live_table(self, columns: Sequence[str]) -> Iterator[Callable[[Sequence[Sequence[Cell]]], None]]:
        """A table that changes in place while the context lasts, and goes with it: call what it gives with new rows."""
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield lambda rows: live.update(
                _rich_table(columns, rows, self._widths(columns, rows)), refresh=True
            )

    def line(self, *spans: Cell, indent: int = 0) -> None:
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text.assemble(*map(_styled, spans)), (0, 0, 0, indent)))


def _fitting_widths(texts: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """How wide each column is: the widest give way first, and none breaks a word; None if not even that fits."""
    columns = list(zip(*texts, strict=True))
    least = [max(len(word) for text in column for word in (text.split() or [""])) for column in columns]
    found = [min(max(map(len, column)), max(width, 0)) for column in columns]
    excess = sum(found) + _GAP * (len(columns) - 1) - width
    if any(now < end for now, end in zip(found, least, strict=True)):
        return None
    while excess > 0:
        shrinkable = [n for n, (now, end) in enumerate(zip(found, least, strict=True)) if now > end]
        if not shrinkable:
            return None
        found[max(shrinkable, key=found.__getitem__)] -= 1
        excess -= 1
    return found


def _texts(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    return [[printable(column) for column in columns], *([_text(cell) for cell in row] for row in rows)]


def _rich_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], widths: Sequence[int] | None
) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        width = widths[number] if widths is not None else None
        table.add_column(printable(column), overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(_styled, row))
    return table


def _text(cell: Cell) -> str:
    return printable(cell if isinstance(cell, str) else cell[0])


def _styled(cell: Cell) -> Text:
    from rich.text import Text

    return Text(_text(cell), style="" if isinstance(cell, str) else cell[1])
