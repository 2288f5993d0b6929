"""The page of what may be imported, and what the modules say of themselves, are the same."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "python.md").read_text()
ROWS = [
    [cell.strip() for cell in line.split("|")[1:3]] for line in PAGE.splitlines() if line.startswith("| `")
]
NAMED = {modules.strip("`"): re.findall(r"`(\w+)`", names) for modules, names in ROWS if "every" not in names}
OF_TYPES = [
    module for modules, names in ROWS if "every" in names for module in re.findall(r"`([\w.]+)`", modules)
]
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("name", NAMED)
def test_a_module_lists_what_the_page_names(name: str) -> None:
    module = import_module(name)
    assert sorted(module.__all__) == sorted(NAMED[name])
    assert all(hasattr(module, each) for each in NAMED[name])


@pytest.mark.parametrize("name", OF_TYPES)
def test_a_module_of_types_is_there(name: str) -> None:
    import_module(name)


def test_the_imports_of_the_examples_work() -> None:
    """They name objects that are the reader's, so that only what they import is tried."""
    lines = [line for example in PYTHON for line in example.splitlines() if line.startswith("from ")]
    assert len(lines) > 5
    exec("\n".join(lines), {})
