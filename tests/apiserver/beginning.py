"""A data folder as a server's first start leaves it, made once a process: keys and default roles take longer than most tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from allotment.apiserver.server import ApiServer, Options

_MADE: list[TemporaryDirectory[str]] = []


async def begin(folder: Path) -> None:
    """Puts one where nothing is yet. Whoever tests the first start itself does without."""
    if not _MADE:
        made = TemporaryDirectory()
        server = ApiServer(Options(Path(made.name) / "data", port=0))
        await server.start()
        await server.stop()
        _MADE.append(made)
    if not folder.exists() or not any(folder.iterdir()):
        shutil.copytree(Path(_MADE[0].name) / "data", folder, copy_function=shutil.copy, dirs_exist_ok=True)
