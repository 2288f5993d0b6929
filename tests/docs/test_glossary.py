"""The names that the glossary gives for words of the code are there, and it explains no word twice."""

from __future__ import annotations

import re

import pytest

from tests.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "glossary.md").read_text()
NAMED = [
    (path, name)
    for path, names in re.findall(r"`([a-z_]+/[\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", PAGE)
    for name in re.findall(r"`(\w+)`", names)
]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_name_is_in_its_module(path: str, name: str) -> None:
    source = (CHECKOUT / "src" / "allotment" / path).read_text()
    assert re.search(rf"^(class )?{name}\b", source, re.MULTILINE)


def test_a_word_is_explained_once() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\*", PAGE, re.MULTILINE)
    assert len(words) > 60
    assert len(words) == len(set(words))
