"""For all tests: how thorough the random ones are. The ``upstream`` fixture is a conversation with the real allocator,
``kubernetes`` the real control plane, both where they are built; ``embedded`` is our own server."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests import thoroughness
from tests.command_line import allot as allot  # a fixture
from tests.corpus import unavailable
from tests.upstream.oracle import Absent, Oracle, find

if TYPE_CHECKING:  # most tests need no server, and should not wait for its import
    from tests.contract.embedded import Embedded
    from tests.kubernetes.control_plane import ControlPlane

thoroughness.register()
signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # programs of ours that tests start heed it, also if the tests run under nohup


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a fifth of all time, tests wait for processes that they start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twelve thousand tests are found in half the time if Python's collector does not look through them again and again.
    They stay, so it leaves them alone afterwards too."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)  # a tenth of all time went into looking for cycles
        gc.enable()


@pytest.fixture(scope="session")
def upstream() -> Iterator[Oracle]:
    """Skips, or in CI fails, and says what to do where the program is absent."""
    try:
        program = find()
    except Absent as absent:
        unavailable(str(absent))
    with Oracle(program) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real control plane, one a session; tests keep apart by namespaces and names."""
    from tests.kubernetes import control_plane

    with contextlib.ExitStack() as stack:
        try:
            plane = stack.enter_context(control_plane.control_plane(tmp_path_factory.mktemp("kubernetes")))
        except control_plane.Absent as absent:
            unavailable(str(absent))
        yield plane


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Our server, one a session, over TLS and in process."""
    from tests.contract.embedded import Embedded

    with Embedded(tmp_path_factory.mktemp("embedded")) as ours:
        yield ours
