"""The command lines in the pages have commands and options that there are."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from allotment.cli.main import allot
from tests.docs.test_links import PAGES

FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown() -> list[str]:
    """What the pages' shell examples ask ``allot`` to do, up to a pipe or a redirection."""
    found = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.strip()
                if words.startswith("allot "):
                    found.append(words)
    return sorted(set(found))


def test_the_pages_have_many() -> None:
    assert len(shown()) > 50


@pytest.mark.parametrize("line", shown())
def test_its_command_has_its_options(line: str) -> None:
    words = [word for word in shlex.split(line, comments=True) if word not in ("|", ">")]
    command: click.Command = allot
    context = click.Context(allot)
    rest = words[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None, line
        command = found
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    asked = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert asked <= known
