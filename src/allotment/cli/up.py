"""``allot up``: a control plane on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.data_folder import data_dir_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allotment.apiserver.auth.identity import Identity
    from allotment.apiserver.server import ApiServer, Options
    from allotment.cli.failure import Failure

PORT = 6443
SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the store's thread from running; Python's 5 ms would be most of a write's time."""

_EVERYWHERE = ("0.0.0.0", "::")

LARGE_MEMORY = 128 * 1024


@click.command(name="up")
@data_dir_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="the address to listen on; 0.0.0.0 or :: for all of this machine's",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any that is free"
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="another name or address by which clients reach it, for its certificate; repeatable",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help='bearer tokens, one a line: token,user,uid,"group,group"; read once, at the start',
)
@click.option("--demo", is_flag=True, help="with a few nodes and devices to look at")
@click.option("--verbose", is_flag=True, help="log every request, not only what goes wrong")
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_file: Path | None,
    demo: bool,
    verbose: bool,
) -> int:
    """Starts a Kubernetes-compatible API server with everything in one folder, and stops it on Ctrl-C.

    Writes a kubeconfig into the folder and prints how to use it. Starting again goes on where it stopped.

    \b
    Exit code: 0 stopped by Ctrl-C, SIGTERM or a closed terminal, 1 could not start.
    """
    import uvloop

    from allotment.apiserver.server import Options
    from allotment.cli.data_folder import folder_of
    from allotment.cli.log import set_up

    if not host or not all(names):
        raise click.UsageError("--host and --name need a name or an address")
    if host in _EVERYWHERE:
        names = (*names, *_own_names())
    set_up(logging.INFO if verbose else logging.WARNING)
    sys.setswitchinterval(SWITCH_SECONDS)
    _return_large_memory()
    tokens = _tokens(token_file) if token_file is not None else {}
    options = Options(folder_of(data_dir).path.resolve(), host, port, names, tokens)
    uvloop.run(_serve(options, demo))
    return 0


def _tokens(file: Path) -> Mapping[bytes, Identity]:
    from allotment.apiserver.auth.token_file import TokenFileError, read_token_file
    from allotment.cli.failure import Failure

    try:
        return read_token_file(file)
    except TokenFileError as exc:
        raise Failure(str(exc), "each line needs a token, a user and a uid, separated by commas") from exc


def _return_large_memory() -> None:
    """Has glibc give large pieces back to the system when they are freed; left alone, it keeps more and more of them after
    the first large reply. Other C libraries have no such dial and need none."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, LARGE_MEMORY)  # M_MMAP_THRESHOLD


def _own_names() -> set[str]:
    """The name of this machine, and the addresses that it stands for."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None)
    except OSError:
        return {name}
    return {name, *(str(address[0]).partition("%")[0] for *_, address in found)}


async def _serve(options: Options, demo: bool) -> None:
    from allotment.apiserver.server import ApiServer

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup: it is to stay
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = ApiServer(options)
    await _start(server, options)
    try:
        await _prepare(server, demo)
        _greet(server)
        await ended.wait()
        click.echo("stopping ...", err=True)
    finally:
        await server.stop()


async def _start(server: ApiServer, options: Options) -> None:
    """Starts it, or says why not in words for a person."""
    from allotment.apiserver.auth.certificates import CertificateError
    from allotment.apiserver.store.errors import OpenError
    from allotment.cli.failure import Failure

    try:
        await server.start()
    except (OpenError, CertificateError) as exc:
        raise Failure(str(exc)) from exc
    except OSError as exc:
        raise _cannot_listen(exc, options) from exc


def _cannot_listen(exc: OSError, options: Options) -> Failure:
    from allotment.cli.failure import Failure

    place = f"{options.host}:{options.port}"
    if exc.errno == errno.EADDRINUSE:
        return Failure(
            f"{place} is in use", "choose another port with --port, or --port 0 for any that is free"
        )
    if exc.errno == errno.EACCES:
        return Failure(f"{place} may not be used", "ports below 1024 need rights; choose another with --port")
    return Failure(
        f"cannot listen on {place}: {exc.strerror or exc}", "name an address of this machine with --host"
    )


async def _prepare(server: ApiServer, demo: bool) -> None:
    """Writes what a person goes on with, or says why it cannot be written: a full disk, mostly."""
    from allotment.api.status import StatusError
    from allotment.cli.failure import Failure

    try:
        server.write_kubeconfig()
    except OSError as exc:
        raise Failure(f"{server.folder.kubeconfig} cannot be written: {exc.strerror or exc}") from exc
    if demo:
        try:
            await _apply_demo(server)
        except StatusError as exc:
            raise Failure(f"the demo's objects cannot be written: {exc}", "start without --demo") from exc


async def _apply_demo(server: ApiServer) -> None:
    """Puts the demo's objects in, as any client would; what is there already stays as it should be."""
    from importlib.resources import files

    import yaml

    from allotment.apiserver.auth.identity import ADMINISTRATOR
    from allotment.apiserver.server import now
    from allotment.client.client import Client
    from allotment.client.discovery import discover
    from allotment.client.in_process import InProcessTransport

    client = Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}), manager="allot-demo")
    served, time = await discover(client), now()
    text = (files("allotment.cli") / "demo_fleet.yaml").read_text()
    for obj in yaml.load_all(text, Loader=yaml.CSafeLoader):
        found = served.of_kind(obj["apiVersion"], obj["kind"])
        collection = client.plain(found.api_version, found.plural, namespaced=found.namespaced)
        await collection.apply(obj, force=True)
        if "status" in obj:
            for condition in obj["status"].get("conditions") or ():
                condition.update(lastHeartbeatTime=time, lastTransitionTime=time)
            await collection.apply(obj, force=True, subresource="status")


def _greet(server: ApiServer) -> None:
    told = (
        f"Allotment serves the Kubernetes API at {server.url}; its data is in {server.folder.path}\n\n"
        f"  export KUBECONFIG={server.folder.kubeconfig}\n"
        "  kubectl get nodes,resourceslices,deviceclasses\n\n"
        "Ctrl-C stops it."
    )
    try:
        click.echo(told)
    except BrokenPipeError:  # nobody reads; that is no reason not to serve
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
