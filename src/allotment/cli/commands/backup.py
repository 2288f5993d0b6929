"""``allot backup``: a consistent copy of the store, also while the server runs."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of


@click.command(name="backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@data_dir_option
def command(file: Path, data_dir: Path | None) -> None:
    """Copies the store to FILE, which is there whole or not at all. The server may run meanwhile.

    Certificates are not in it: copy the folder pki as well, safely, if credentials should outlive the machine.
    """
    from allotment.apiserver.store import backup
    from allotment.apiserver.store.errors import StoreError
    from allotment.insight.errors import Failure

    folder = folder_of(data_dir)
    if not folder.store.exists():
        raise Failure(f"{folder.path} has no store", "name the server's folder with --data-dir")
    try:
        backup.copy(folder.store, file)
    except (StoreError, OSError) as exc:
        raise Failure(f"no backup was made: {exc}") from exc
    click.echo(f"{file}: {file.stat().st_size:,} bytes", err=True)
