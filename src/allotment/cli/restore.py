"""``allot restore``: the store as it was when a backup was made."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.data_folder import data_dir_option


@click.command(name="restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir_option
def command(file: Path, data_dir: Path | None) -> None:
    """Puts the backup FILE in place of the store. The server must be stopped; the store that was there is set aside.

    Revisions go on above all that were ever given out, so that clients notice and list anew.
    """
    from allotment.apiserver.folder import DataFolder, default_folder
    from allotment.apiserver.store import backup
    from allotment.apiserver.store.errors import StoreError
    from allotment.cli.failure import Failure

    folder = DataFolder(data_dir) if data_dir else default_folder()
    try:
        revision = backup.restore(file, folder.store)
    except (StoreError, OSError) as exc:
        raise Failure(f"nothing was restored: {exc}") from exc
    click.echo(f"{folder.store}: restored, at revision {revision}", err=True)
