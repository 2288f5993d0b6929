"""``allot down``: stops the server that ``allot up`` started, from any terminal."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_AGAIN_SECONDS = 0.05


@click.command(name="down")
@click.option(
    "--patience", type=click.FloatRange(0, 600), default=30.0, show_default=True, metavar="SECONDS",
    help="how long to wait for it to stop",
)  # fmt: skip
@data_dir_option
def command(patience: float, data_dir: Path | None) -> int:
    """Stops the server that `allot up` runs in its folder, as Ctrl-C would: open requests finish, and the data stays.

    Exit code: 0 it has stopped or there was none, 1 it did not stop.
    """
    from allotment.apiserver.store.lock import holder_of
    from allotment.insight.errors import Failure
    from allotment.insight.remarks import remark

    folder = folder_of(data_dir)
    holder = holder_of(folder.store)
    if holder is None:
        remark(f"no server runs in {folder.path}")
        return 0
    if holder.process is None:
        raise Failure(f"the store in {folder.path} is in use by a process that did not record its number")
    try:
        os.kill(holder.process, signal.SIGTERM)
    except PermissionError as exc:
        raise Failure(
            f"process {holder.process} belongs to another user", "ask that user, or use their rights"
        ) from exc
    except ProcessLookupError:
        pass  # it ended on its own
    end = time.monotonic() + patience
    while holder_of(folder.store) == holder:
        if time.monotonic() > end:
            raise Failure(
                f"process {holder.process} has not stopped within {patience:g} s",
                "read its output for the cause",
            )
        time.sleep(_LOOK_AGAIN_SECONDS)
    remark(f"stopped process {holder.process}; its data stays in {folder.path}")
    return 0
