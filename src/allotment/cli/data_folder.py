"""The option ``--data-dir``, the same for every command that works on a server's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def data_dir_option(function: F) -> F:
    """Passes ``data_dir: Path | None``; None is the user's own folder (see ``apiserver.folder``)."""
    option = click.option(
        "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", envvar="ALLOT_DATA_DIR",
        help="where the server keeps its data; default: ALLOT_DATA_DIR, else allotment in your data folder",
    )  # fmt: skip
    return option(function)
