"""The folder in which a server keeps everything: its store, its certificates, and a kubeconfig for clients."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths inside the folder. Nothing here creates files."""

    path: Path

    def command(self, command: str) -> str:
        """A command of ``allot`` that works on this folder, for a person to copy into any terminal: it names the folder
        unless that is where every command looks."""
        path = self.path.absolute()
        with suppress(RuntimeError):  # no HOME, and this user is not in the list of users
            if not os.environ.get(VARIABLE) and path == default_folder().path.absolute():
                return command
        return f"{command} --data-dir {shlex.quote(str(path))}"

    @property
    def store(self) -> Path:
        return self.path / "store.db"

    @property
    def certificates(self) -> Path:
        return self.path / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, with the address of the server that ran last."""
        return self.path / "kubeconfig"


VARIABLE = "ALLOT_DATA_DIR"
"""The environment variable that names a folder other than the user's own."""


def default_folder() -> DataFolder:
    """The user's own data folder: ``$XDG_DATA_HOME/allotment``."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return DataFolder(Path(home) / "allotment")


def own_kubeconfig() -> Path | None:
    """The kubeconfig of the server that this user started, if its folder can be determined."""
    try:
        named = os.environ.get(VARIABLE)
        return (DataFolder(Path(named)) if named else default_folder()).kubeconfig
    except RuntimeError:  # no HOME, and this user is not in the list of users
        return None
