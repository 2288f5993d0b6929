"""The option ``--data-dir``, the same for every command that works on a server's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from allotment.apiserver.folder import VARIABLE

if TYPE_CHECKING:
    from allotment.apiserver.folder import DataFolder

F = TypeVar("F", bound=Callable[..., Any])

KUBECONFIG_HELP = (
    "default: KUBECONFIG, else ~/.kube/config, else the service account of the pod in which the command runs, "
    "else the server that `allot up` started"
)
"""The help text of every option ``--kubeconfig``."""


def data_dir_option(function: F) -> F:
    """Passes ``data_dir: Path | None``; None is the user's own folder (see ``apiserver.folder``)."""
    option = click.option(
        "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", envvar=VARIABLE,
        help="where the server keeps its data; default: ALLOT_DATA_DIR, else allotment in your data folder",
    )  # fmt: skip
    return option(function)


def folder_of(data_dir: Path | None) -> DataFolder:
    """The folder that the option named, or the user's own."""
    from allotment.apiserver.folder import DataFolder, default_folder
    from allotment.insight.errors import Failure

    try:
        return DataFolder(data_dir) if data_dir else default_folder()
    except RuntimeError as exc:  # no HOME, and this user is not in the list of users
        raise Failure(
            "there is no home folder for the data", "name one with --data-dir or ALLOT_DATA_DIR"
        ) from exc
