"""Problems with known answers that live beside the checkout, in ``../shared/corpus``.

They are not ours to ship, so a checkout elsewhere skips the tests that read them and says so. With
``CI=true`` a missing corpus fails instead: there, nothing may be skipped for ever.
"""

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "corpus"


def unavailable(what: str) -> NoReturn:
    """Skips the calling test because ``what`` is not here; in CI, fails it. ``what`` also tells how to come by it."""
    if what.startswith("../shared"):
        what += " (problems that are not part of the checkout: lay the folder beside it)"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and in CI nothing may be skipped")
    pytest.skip(f"{what} is missing")


def corpus(name: str) -> list[dict[str, Any]]:
    """The cases of one corpus file."""
    path = FOLDER / name
    if not path.exists():
        unavailable(f"../shared/corpus/{name}")
    cases: list[dict[str, Any]] = json.loads(path.read_text())
    return cases
