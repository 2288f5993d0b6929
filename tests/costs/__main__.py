"""Finds the slowest request of each kind and shows them: `.venv/bin/python -m tests.costs [Kind …]`.

Every attempt at full size goes to stderr, the slowest of each kind to stdout, the slowest first.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.costs.search import Attempt, searching, table


def show(attempt: Attempt) -> None:
    print(*list(table([attempt]))[1:], file=sys.stderr)


async def main(wanted: list[str]) -> None:
    found: list[Attempt] = []
    with tempfile.TemporaryDirectory() as folder:
        async with searching(Path(folder) / "data") as search:
            for served in search.kinds:
                if wanted and served.resource.kind not in wanted:
                    continue
                found.append(await search.slowest(served, log=show))
    print(*table(found), sep="\n")


asyncio.run(main(sys.argv[1:]))
