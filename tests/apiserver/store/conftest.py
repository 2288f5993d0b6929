"""A place for a store, which is checked when the test is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.store.build import opened


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Where a store may be. After the test what is there can be opened, and is sound."""
    path = tmp_path / "data" / "store.db"
    yield path
    if path.exists():
        asyncio.run(_check(path))


async def _check(path: Path) -> None:
    async with opened(path) as store:
        await store.compact(store.revision)
        store.validate()
        assert store.stats.history == store.stats.history_bytes == 0
