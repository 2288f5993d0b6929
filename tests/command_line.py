"""Runs ``allot`` in this process, and compares what it prints with files."""

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from allotment.cli.main import main
from tests.checkout import CHECKOUT

GOLDEN = CHECKOUT / "tests/cli/golden"


@dataclass
class Ran:
    code: int
    out: str
    err: str


Allot = Callable[..., Ran]


@pytest.fixture
def allot(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Allot:
    """``allot("allocate", "-f", "-", stdin=text)`` from the folder of the checkout."""
    monkeypatch.chdir(CHECKOUT)

    def run(*arguments: str, stdin: str | bytes = b"") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(list(arguments))
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def same_as_golden(name: str, text: str) -> None:
    """Compares with tests/cli/golden/NAME; ALLOT_GOLDEN=write takes the text as it is, for review in the diff."""
    path = GOLDEN / name
    if os.environ.get("ALLOT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()
