"""The options of commands that read a cluster: from a server, with the caller's own rights, or from saved manifests.

One decorator gives such commands the same options, and passes them as one ``ClusterSource``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from allotment.cli.options.data_folder import KUBECONFIG_HELP
from allotment.insight.source import ClusterSource

TABLE, WIDE, NAME = "table", "wide", "name"


def source_options(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Passes ``source: ClusterSource``, and ``output``: one of the given forms, json or yaml. The first form is the default."""
    options = (
        click.option(
            "-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
            help="show only pods and claims of this namespace; if you may not list all claims, read only its claims; repeatable",
        ),
        click.option(
            "-A", "--all-namespaces", is_flag=True,
            help="fail if you may not list the claims of all namespaces, instead of answering from those that you may list",
        ),
        click.option(
            "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
            help=KUBECONFIG_HELP,
        ),
        click.option("--context", metavar="NAME", help="of the kubeconfig; default: its current one"),
        click.option(
            "--offline", multiple=True, type=click.Path(), metavar="FILE|DIR",
            help="read manifests, as kubectl get -o yaml prints them, instead of a server; - is standard input; repeatable",
        ),
        click.option(
            "-o", "--output", type=click.Choice([*forms, "json", "yaml"]), default=forms[0], show_default=True
        ),
    )  # fmt: skip

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(
            *arguments: Any,
            namespaces: tuple[str, ...],
            all_namespaces: bool,
            kubeconfig: Path | None,
            context: str | None,
            offline: tuple[str, ...],
            **rest: Any,
        ) -> Any:
            if offline and (kubeconfig or context):
                raise click.UsageError(
                    "--offline reads files and no server: leave out --kubeconfig, --context"
                )
            source = ClusterSource(namespaces, all_namespaces, kubeconfig, context, offline)
            with _collector_at_rest():
                return function(*arguments, source=source, **rest)

        decorated: Callable[..., Any] = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Turns the garbage collector off: such a command reads much at once, keeps it and ends. On a large cluster, the search
    for reference cycles takes a quarter of its time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
