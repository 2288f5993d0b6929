"""``allot up``: a control plane on this machine, until Ctrl-C: API server, scheduler and controllers."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.data_folder import data_dir_option
from allotment.cli.options.feature_gates import DEVICES, feature_gates_option
from allotment.insight.catalogue_files import read_files

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from allotment.apiserver.auth.identity import Identity
    from allotment.apiserver.server import ApiServer, Options
    from allotment.autoscaler.catalogue.catalogue import Catalogue
    from allotment.daemons.components import WantedComponents
    from allotment.insight.errors import Failure

log = logging.getLogger(__name__)

PORT = 6443
SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the store's thread from running. Python's default of 5 ms would be most of the time of a
write."""

_EVERYWHERE = ("0.0.0.0", "::")


@click.command(name="up")
@data_dir_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="the address to listen on; 0.0.0.0 or :: means all addresses of this machine",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free port"
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="another name or address by which clients reach the server, for its certificate; repeatable",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help='file of bearer tokens, one per line: token,user,uid,"group,group"; read once, at the start',
)
@click.option("--demo", is_flag=True, help="add simulated nodes and devices, and workloads that use them")
@click.option("--no-scheduler", is_flag=True, help="run no scheduler; another one places the pods")
@click.option(
    "--no-controllers",
    is_flag=True,
    help="run no controllers; others handle claims, workloads, nodes and volumes",
)
@click.option(
    "--scheduler-config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="file with the scheduler's profiles; see docs/scheduling.md",
)
@catalog_option
@click.option(
    "--autoscale",
    is_flag=True,
    help="launch simulated machines of the catalogue for pods that find no place, and remove machines that are not needed; part of --demo",
)
@feature_gates_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="start even if the store is damaged or incomplete, with everything that can be read; the damaged store is kept beside the new one",
)
@click.option("--verbose", is_flag=True, help="log every request, not only problems")
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_file: Path | None,
    demo: bool,
    no_scheduler: bool,
    no_controllers: bool,
    scheduler_config: Path | None,
    catalog: tuple[str, ...],
    autoscale: bool,
    switched_off: frozenset[str],
    accept_loss: bool,
    verbose: bool,
) -> int:
    """Starts a Kubernetes-compatible control plane (API server, scheduler, controllers) that keeps everything in one folder,
    and stops it on Ctrl-C.

    Writes a kubeconfig into the folder and prints how to use it. The next start continues with the same data.

    Exit code: 0 stopped by Ctrl-C, SIGTERM or a closed terminal, 1 it could not start, or a part of it failed.
    """
    import uvloop

    from allotment.apiserver.server import Options
    from allotment.cli.options.data_folder import folder_of
    from allotment.cli.options.scheduler_config import configuration_of
    from allotment.controllers.names import AUTOSCALING, MACHINES, NAMES
    from allotment.daemons.components import WantedComponents
    from allotment.daemons.demo_objects import demo_catalogue
    from allotment.daemons.log import set_up
    from allotment.daemons.memory import return_large_memory

    if not host or not all(names):
        raise click.UsageError("--host and --name need a name or an address")
    if demo and no_controllers:
        raise click.UsageError("--demo needs the controllers, which simulate its nodes")
    if autoscale and no_controllers:
        raise click.UsageError("--autoscale needs the controllers, which launch machines")
    if no_scheduler and scheduler_config is not None:
        raise click.UsageError("--scheduler-config has no effect with --no-scheduler")
    if host in _EVERYWHERE:
        names = (*names, *_own_names())
    autoscale = autoscale or demo
    scheduling = configuration_of(scheduler_config, devices=DEVICES not in switched_off)
    catalog = (*([demo_catalogue()] if demo else []), *catalog)
    usual = (*NAMES, *([MACHINES] if autoscale else []))
    wanted = [
        WantedComponents(
            None if no_scheduler else scheduling,
            () if no_controllers else tuple(name for name in usual if name not in switched_off),
            catalog,
        ),
        WantedComponents(None, (AUTOSCALING,) if autoscale else (), catalog, foreseen=scheduling),
    ]
    catalogue = read_files(catalog)  # report errors in these files before anything runs
    tokens = _tokens(token_file) if token_file is not None else {}
    options = Options(folder_of(data_dir).path.resolve(), host, port, names, tokens, accept_loss)
    set_up(logging.INFO if verbose else logging.WARNING)
    sys.setswitchinterval(SWITCH_SECONDS)
    return_large_memory()
    uvloop.run(_serve(options, wanted, catalogue, demo))
    return 0


def _tokens(file: Path) -> Mapping[bytes, Identity]:
    from allotment.apiserver.auth.token_file import TokenFileError, read_token_file
    from allotment.insight.errors import Failure

    try:
        return read_token_file(file)
    except TokenFileError as exc:
        raise Failure(str(exc), "each line needs a token, a user and a uid, separated by commas") from exc


def _own_names() -> set[str]:
    """The name of this machine, and the addresses that the name resolves to."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None)
    except OSError:
        return {name}
    return {name, *(str(address[0]).partition("%")[0] for *_, address in found)}


async def _serve(
    options: Options, wanted: Sequence[WantedComponents], catalogue: Catalogue, demo: bool
) -> None:
    """``wanted`` are the component processes; the first one has the scheduler and the controllers."""
    from allotment.apiserver.server import ApiServer
    from allotment.daemons.component_process import ComponentProcesses
    from allotment.daemons.components import ComponentFailed
    from allotment.daemons.embedded import dashboard_of, transports_into
    from allotment.daemons.ending import run_until, told_to_end
    from allotment.daemons.memory import spare_collector
    from allotment.insight.errors import Failure

    ended = told_to_end()
    server = ApiServer(options)
    await _start(server, options)
    spare_collector()
    try:
        await _prepare(server, demo)
        components = ComponentProcesses(wanted, transports_into(server))
        server.metrics.elsewhere = components.metrics
        try:
            begun = partial(_begin, server, wanted[0], demo)
            async with dashboard_of(server, catalogue):
                await run_until(ended, components.run(begun))
                await ended.wait()
        except ComponentFailed as exc:
            raise Failure(str(exc), "everything has stopped; see the lines above for the cause") from exc
        click.echo("stopping ...", err=True)
    finally:
        await server.stop()


async def _start(server: ApiServer, options: Options) -> None:
    """Starts the server, or raises an error that explains to the user why it cannot."""
    from allotment.apiserver.auth.certificates import CertificateError
    from allotment.apiserver.store.errors import StoreError
    from allotment.insight.errors import Failure

    try:
        await server.start()
    except (StoreError, CertificateError) as exc:
        raise Failure(str(exc)) from exc
    except OSError as exc:
        raise _cannot_listen(exc, options) from exc


def _cannot_listen(exc: OSError, options: Options) -> Failure:
    from allotment.insight.errors import Failure

    place = f"{options.host}:{options.port}"
    if exc.errno == errno.EADDRINUSE:
        return Failure(f"{place} is in use", "choose another port with --port, or --port 0 for any free port")
    if exc.errno == errno.EACCES:
        return Failure(
            f"no permission to use {place}",
            "ports below 1024 need special rights; choose another port with --port",
        )
    return Failure(
        f"cannot listen on {place}: {exc.strerror or exc}", "name an address of this machine with --host"
    )


async def _prepare(server: ApiServer, demo: bool) -> None:
    """Writes the kubeconfig and other files for the user, or raises an error that explains why it cannot."""
    from allotment.daemons.demo_objects import bring_fleet
    from allotment.insight.errors import Failure

    try:
        server.write_kubeconfig()
    except OSError as exc:
        if exc.errno != errno.ENOSPC or not server.folder.kubeconfig.exists():
            raise Failure(f"{server.folder.kubeconfig} cannot be written: {exc.strerror or exc}") from exc
        log.warning("%s was not updated: its disk is full", server.folder.kubeconfig)
    if demo:
        await _demo_objects(bring_fleet(server))


async def _demo_objects(brought: Coroutine[Any, Any, None]) -> None:
    from allotment.api.status import InsufficientStorage, StatusError
    from allotment.insight.errors import Failure

    try:
        await brought
    except InsufficientStorage as exc:  # the demo's objects are not the cause
        log.error("the demo's objects are not complete: %s", exc)
    except StatusError as exc:
        raise Failure(f"the demo's objects cannot be written: {exc}", "start without --demo") from exc


async def _begin(server: ApiServer, wanted: WantedComponents, demo: bool) -> None:
    from allotment.daemons.demo_objects import bring_workloads

    if demo:
        await _demo_objects(bring_workloads(server))
    _greet(server, wanted, demo)


def _greet(server: ApiServer, wanted: WantedComponents, demo: bool) -> None:
    from allotment.insight.remarks import whole_words

    parts = (("scheduler", wanted.scheduler), ("controllers", wanted.controllers))
    absent = [name for name, there in parts if not there]
    note = (
        f"\nWithout {' and '.join(absent)}: run {', '.join(f'allot {name}' for name in absent)} or others."
        if absent
        else ""
    )
    look = (
        "kubectl get pods,resourceclaims -n demo -o wide"
        if demo
        else "kubectl get nodes,resourceslices,deviceclasses"
    )
    serves = f"Allotment serves the Kubernetes API at {server.url}; its data is in {server.folder.path}{note}"
    told = (
        f"{whole_words(serves, sys.stdout)}\n\n"
        f"  export KUBECONFIG={shlex.quote(str(server.folder.kubeconfig.absolute()))}\n"
        f"  {look}\n\n"
        f"The dashboard is at {server.url}/ui. Ctrl-C stops it."
    )
    try:
        click.echo(told)
    except BrokenPipeError:  # a closed output is no reason to stop serving
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
