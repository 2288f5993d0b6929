"""Writes ``docs/reference/commands.md``: every command of ``allot`` with its help and its options, as click knows them.

``make docs`` runs it. ``make check`` runs it with ``--check``: it then writes nothing, and fails if the page has fallen behind the
commands. A test compares them as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from allotment.cli.main import allot

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
WIDTH = 100
HEAD = """\
# Every command and option

`make docs` writes this page from the commands themselves. [Commands by task](../commands.md) explains them by what you want to
do. Each command is also `kubectl dra COMMAND` where `kubectl-dra` is installed beside kubectl.
"""


def main() -> None:
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() != page():
            sys.exit(f"{TARGET.name} is behind the commands: `make docs` writes it anew")
        return
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections(allot, click.Context(allot, info_name="allot"))])


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    """One section for each command of a group, commands of inner groups included."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
        yield _section(command, inner)
        if isinstance(command, click.Group):
            yield from _sections(command, inner)


def _section(command: click.Command, context: click.Context) -> str:
    """A heading, the usage with the help text as a terminal shows them, and a list of the options."""
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    lines = [f"## {context.command_path}", "", "```text", formatter.getvalue().rstrip(), "```", ""]
    options = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None and "--help" not in record[0]
    ]
    lines += [f"- `{names}` — {_plain(words)}" if words else f"- `{names}`" for names, words in options]
    return "\n".join(lines).rstrip() + "\n"


def _plain(words: str) -> str:
    """An option's help, with what Markdown would take for markup escaped."""
    pieces = words.split("`")
    for place in range(0, len(pieces), 2):  # between code
        for sign in "\\*_<[":
            pieces[place] = pieces[place].replace(sign, f"\\{sign}")
    return "`".join(pieces)


if __name__ == "__main__":
    main()
