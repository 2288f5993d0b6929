"""For all tests: random ones have no time limit, since speed is measured in ``make bench`` and never here, and a failing
one prints how to repeat it. The ``upstream`` fixture is a conversation with the real allocator, where it is built."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.corpus import unavailable
from tests.upstream.oracle import Absent, Oracle, find

settings.register_profile(
    "allotment",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("allotment")


@pytest.fixture(scope="session")
def upstream() -> Iterator[Oracle]:
    """Skips, or in CI fails, and says what to do where the program is absent."""
    try:
        program = find()
    except Absent as absent:
        unavailable(str(absent))
    with Oracle(program) as oracle:
        yield oracle
