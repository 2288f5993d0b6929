"""The ``upstream`` fixture: a conversation with the real allocator, or a skip that says what is missing."""

import os
from collections.abc import Iterator

import pytest

from tests.upstream.oracle import Absent, Oracle, find


@pytest.fixture(scope="session")
def upstream() -> Iterator[Oracle]:
    try:
        program = find()
    except Absent as absent:
        if os.environ.get("CI") == "true":
            pytest.fail(str(absent))
        pytest.skip(str(absent))
    with Oracle(program) as oracle:
        yield oracle
