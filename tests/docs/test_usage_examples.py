"""The examples in docs/usage.md do what they say."""

from __future__ import annotations

import doctest

import pytest

from tests.checkout import CHECKOUT


def test_the_examples_of_the_reference_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)  # they read examples/
    ran = doctest.testfile(str(CHECKOUT / "docs" / "usage.md"), module_relative=False)
    assert ran.attempted > 20
    assert ran.failed == 0
