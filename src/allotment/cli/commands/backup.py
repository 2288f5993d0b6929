"""``allot backup``: a consistent copy of the store, also while the server runs."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of


@click.command(name="backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@data_dir_option
def command(file: Path, data_dir: Path | None) -> None:
    """Copies the store to FILE. FILE is either complete or not there at all. The server may keep running.

    The copy does not contain the certificates. If credentials must outlive the machine, copy the folder pki too, and keep it
    safe.
    """
    from allotment.apiserver.store import backup
    from allotment.apiserver.store.errors import StoreError
    from allotment.insight.errors import Failure

    folder = folder_of(data_dir)
    if not folder.store.exists():
        raise Failure(f"{folder.path} contains no store", "name the server's folder with --data-dir")
    try:
        backup.copy(folder.store, file)
    except (StoreError, OSError) as exc:
        raise Failure(f"cannot write the backup: {exc}") from exc
    click.echo(f"{file}: {file.stat().st_size:,} bytes", err=True)
