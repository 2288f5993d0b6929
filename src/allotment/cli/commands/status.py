"""``allot status``: whether the server that ``allot up`` starts is running, at which address, and in what condition."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of
from allotment.cli.options.source_options import TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from allotment.apiserver.folder import DataFolder
    from allotment.apiserver.store.lock import Holder
    from allotment.client.client import Client

_PATIENCE_SECONDS = 5.0
_COUNTED = ("nodes", "pods", "namespaces")


@click.command(name="status")
@click.option("-o", "--output", type=click.Choice([TABLE, "json", "yaml"]), default=TABLE, show_default=True)
@data_dir_option
def command(output: str, data_dir: Path | None) -> int:
    """Shows whether the server that `allot up` starts is running in its folder, at which address, and whether it answers.

    Exit code: 0 it is ready, 1 it does not run, does not answer or is not ready.
    """
    from allotment.apiserver.store.lock import holder_of

    folder = folder_of(data_dir)
    holder = holder_of(folder.store)
    status = _asked(folder, holder) if holder is not None else ServerStatus(folder.path, _size(folder))
    if output == TABLE:
        _show(status)
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out(status.document(), output))
    return 0 if status.ready else 1


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is known about a server and its folder. ``counts`` has the number of objects by plural."""

    folder: Path
    store_bytes: int | None  # None: nothing is stored yet
    process: int | None = None
    since: str = ""
    server: str = ""
    ready: bool = False
    answers: bool = False
    trouble: str = ""  # why it does not answer, or is not ready
    certificate_until: datetime | None = None  # of the administrator's kubeconfig
    counts: dict[str, int] | None = None

    @property
    def runs(self) -> bool:
        return bool(self.process or self.since)

    def document(self) -> dict[str, Any]:
        until = self.certificate_until
        return {
            "running": self.runs,
            "ready": self.ready,
            "server": self.server or None,
            "process": self.process,
            "since": self.since or None,
            "trouble": self.trouble or None,
            "folder": str(self.folder),
            "storeBytes": self.store_bytes,
            "certificateUntil": until.isoformat() if until is not None else None,
            "objects": self.counts,
        }


def _asked(folder: DataFolder, holder: Holder) -> ServerStatus:
    import uvloop

    from allotment.insight.connecting import connection_of
    from allotment.insight.errors import Failure

    known = ServerStatus(folder.path, _size(folder), holder.process, holder.since or "?")
    try:
        connection = connection_of(folder.kubeconfig, None)
        known = replace(known, server=connection.server, certificate_until=connection.good_until())
        return uvloop.run(_ask(folder, known))
    except Failure as exc:
        return replace(known, trouble=exc.message)


async def _ask(folder: DataFolder, known: ServerStatus) -> ServerStatus:
    from allotment.api.status import StatusError
    from allotment.client.transport import Call
    from allotment.insight.connecting import connected

    async with connected(folder.kubeconfig, None, "allotment-status", lambda words: None) as client:
        try:
            await client.send(Call("GET", "/readyz", timeout=_PATIENCE_SECONDS))
        except StatusError as exc:
            failed = _failed(str(exc))
            if not failed:
                raise
            return replace(known, answers=True, trouble=failed)
        counts = {plural: await _count(client, plural) for plural in _COUNTED}
        return replace(known, answers=True, ready=True, counts=counts)


def _failed(report: str) -> str:
    """The checks of /readyz that failed, with their messages."""
    return "; ".join(line.removeprefix("[-]") for line in report.splitlines() if line.startswith("[-]"))


async def _count(client: Client, plural: str) -> int:
    found = await client.read(f"/api/v1/{plural}", {"limit": "1"})
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0)


def _size(folder: DataFolder) -> int | None:
    files = [file for file in folder.path.glob(f"{folder.store.name}*") if file.is_file()]
    return sum(file.stat().st_size for file in files) if folder.store.exists() else None


def _show(status: ServerStatus) -> None:
    from allotment.apiserver.folder import DataFolder
    from allotment.cli.render.screen import open_screen

    screen = open_screen()
    if not status.runs:
        screen.line(("not running", "bold"), f": start it with {_start(status)}")
    elif status.ready:
        screen.line(("running", "bold green"), f" at {status.server}")
    else:
        what = "it is not ready" if status.answers else "it does not answer"
        screen.line((f"running, but {what}", "bold red"), f": {status.trouble}")
    rows: list[tuple[str, str]] = [("folder", _folder(status))]
    if status.runs:
        rows.append(("process", f"{status.process or 'unknown'}, since {status.since}"))
    if status.counts is not None:
        rows.append(("objects", ", ".join(f"{count} {plural}" for plural, count in status.counts.items())))
    if status.certificate_until is not None:
        rows.append(("certificate", f"of the kubeconfig, valid until {status.certificate_until:%Y-%m-%d}"))
    if status.runs:
        rows.append(("dashboard", f"{status.server}/ui"))
    width = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        screen.line((name.ljust(width), "dim"), text, indent=2)
    if status.runs:
        screen.line("")
        screen.line("To use it, and to stop it:")
        folder = DataFolder(status.folder)
        screen.command(f"export KUBECONFIG={shlex.quote(str(folder.kubeconfig.absolute()))}")
        screen.command(folder.command("allot down"))


def _start(status: ServerStatus) -> str:
    from allotment.apiserver.folder import DataFolder

    command = "allot up" if status.store_bytes is not None else "allot up --demo"
    return DataFolder(status.folder).command(command)


def _folder(status: ServerStatus) -> str:
    if status.store_bytes is None:
        return f"{status.folder}, with no store yet"
    return f"{status.folder}, {status.store_bytes / 1e6:,.1f} MB"
