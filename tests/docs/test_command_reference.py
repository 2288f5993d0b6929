"""The reference of all commands is what the commands themselves say, and the pages by task leave none of them out."""

from __future__ import annotations

import re

import click
from tools import command_reference

from allotment.cli.main import allot
from tests.checkout import CHECKOUT


def test_the_page_is_up_to_date() -> None:
    written = command_reference.TARGET.read_text()
    assert written == command_reference.page(), "`make docs` writes docs/reference/commands.md anew"


def test_every_command_is_in_the_table_of_the_page_by_task() -> None:
    page = (CHECKOUT / "docs" / "commands.md").read_text()
    table = page.partition("| command | for |\n")[2].partition("\n\n")[0]
    cells = " ".join(line.split("|")[1] for line in table.splitlines())
    named = set(re.findall(r"`(?:allot )?(\w+)`", cells))
    assert set(allot.list_commands(click.Context(allot))) - named == set()
