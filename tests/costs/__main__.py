"""Finds the slowest request of each kind and shows them: `python -m tests.costs [Kind …]`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.costs.search import Attempt, searching, table


async def main(wanted: list[str]) -> None:
    found: list[Attempt] = []
    with tempfile.TemporaryDirectory() as folder:
        async with searching(Path(folder) / "data") as search:
            for served in search.kinds:
                if wanted and served.resource.kind not in wanted:
                    continue
                slowest = await search.slowest(
                    served, lambda each: print(*table([each]), sep="\n", file=sys.stderr)
                )
                if slowest is not None:
                    found.append(slowest)
    print(*table(found), sep="\n")


asyncio.run(main(sys.argv[1:]))
