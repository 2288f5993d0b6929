"""Links, and paths of files, in every page of the repository lead somewhere.

mkdocs checks the links between the pages of the site. It knows neither the pages outside ``docs/`` nor the names of files that
pages mention as code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT

PAGES = sorted(
    [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("examples/**/*.md")],
    key=lambda page: page.as_posix(),
)
CODE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FILE = re.compile(r"\b(?:src|tests|tools|benchmarks|examples|docs)/[\w./-]*\w")
MODULE = re.compile(r"\ballotment(?:\.[a-z_0-9]+)+")
SOURCES = CHECKOUT / "src" / "allotment"
PARTS = "|".join(sorted(each.name for each in SOURCES.iterdir() if each.is_dir()))
SOURCE_FILE = re.compile(rf"`((?:{PARTS})/[\w./]*)`")


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = HEADING.findall(CODE.sub("", page.read_text()))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each) for each in headings)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in plain}


def broken(page: Path) -> Iterator[str]:
    text = CODE.sub("", page.read_text())
    for link in LINK.findall(INLINE_CODE.sub("", text)):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def absent(page: Path) -> Iterator[str]:
    text = page.read_text()
    yield from (each for each in FILE.findall(text) if not (CHECKOUT / each).exists())
    yield from (each for each in SOURCE_FILE.findall(text) if not (SOURCES / each).exists())
    for module in MODULE.findall(text):
        path = SOURCES.parent.joinpath(*module.split("."))
        # the last word may be a name in the module
        if not any(each.is_dir() or each.with_suffix(".py").exists() for each in (path, path.parent)):
            yield module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_file_and_module_that_is_mentioned_is_there(page: Path) -> None:
    assert list(absent(page)) == []
