"""One kubectl for all of these tests: which versions of it get on with the server is the matter of ``tests/kubectl``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import unavailable
from tests.kubectl.command import installed


@pytest.fixture(scope="session")
def program() -> Path:
    found = installed()
    if not found:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    return next(iter(found.values()))
