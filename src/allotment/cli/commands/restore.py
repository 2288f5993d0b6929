"""``allot restore``: the store as it was when a backup was made."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of


@click.command(name="restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir_option
def command(file: Path, data_dir: Path | None) -> None:
    """Replaces the store with the backup FILE. The server must be stopped. The previous store is kept beside the new one, as
    store.db.replaced.

    Revisions continue above all that were ever issued, so that clients notice the change and list anew.
    """
    from allotment.apiserver.store import backup
    from allotment.apiserver.store.errors import Corrupt, StoreError
    from allotment.insight.errors import Failure

    folder = folder_of(data_dir)
    try:
        revision = backup.restore(file, folder.store)
    except Corrupt as exc:
        raise Failure(
            f"nothing was restored: {file} is not a valid backup: {exc.what}", "try an older one"
        ) from exc
    except (StoreError, OSError) as exc:
        raise Failure(f"nothing was restored: {exc}") from exc
    click.echo(f"{folder.store}: restored, at revision {revision}", err=True)
