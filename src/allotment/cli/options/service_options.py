"""The options of commands that run a component on any cluster, or ask about one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from allotment.cli.options.data_folder import KUBECONFIG_HELP
from allotment.daemons.service import NAMESPACE

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(function: F) -> F:
    """Passes ``kubeconfig: Path | None`` and ``context: str | None``."""
    for option in (
        click.option("--context", metavar="NAME", help="of the kubeconfig; default: its current one"),
        click.option(
            "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
            help=KUBECONFIG_HELP,
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def service_options(function: F) -> F:
    """Passes the other fields of ``Service``: ``leader_elect``, ``metrics_host``, ``metrics_port``, and ``verbose``."""
    for option in (
        click.option("--verbose", is_flag=True, help="log every action, not only problems"),
        click.option("--metrics-host", metavar="ADDRESS", default="127.0.0.1", show_default=True),
        click.option(
            "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
            help="serve /metrics and /healthz at this address; 0 takes any free port",
        ),
        click.option(
            "--leader-elect/--no-leader-elect", default=True, show_default=True,
            help=f"work only while holding a lease in {NAMESPACE}, so that several instances may run",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def log_level(verbose: bool) -> int:
    return logging.INFO if verbose else logging.WARNING
