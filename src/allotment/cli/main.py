"""The command ``allot``: parse, call the library, show. Each subcommand lives in a file of its own.

Subcommands are imported when they are called, so that ``allot --help`` answers at once. This module decides the exit code:
the command's own if it returns one, 0 if the reader of a pipe has gone away, 130 on Ctrl-C.

    0  complete success     1  some of it failed, or it cannot be done     2  the input is at fault
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from allotment.cli.render.help import CommandGroup, WholeWords
from allotment.insight.errors import Failure

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = {
    "allocate": (
        "allotment.cli.commands.allocate",
        "choose devices for claims and pods; explain why the rest does not fit",
    ),
    "cel": (
        "allotment.cli.commands.cel",
        "show which devices an expression selects, and what it read on the others",
    ),
    "demo": (
        "allotment.cli.commands.demo",
        "see everything at work: a simulated fleet, workloads, and who gets what",
    ),
    "pools": ("allotment.cli.commands.pools", "show what each pool of devices has, and how much is left"),
    "describe": (
        "allotment.cli.commands.describe",
        "show one pool, node or claim: each device, and who holds it",
    ),
    "top": ("allotment.cli.commands.top", "show nodes, devices, pools and waiting pods on one screen, live"),
    "explain": (
        "allotment.cli.commands.explain",
        "explain why a pod or claim does not fit, and what would help",
    ),
    "fit": (
        "allotment.cli.commands.fit",
        "compute how many more claims of a shape fit: in the cluster, on each node",
    ),
    "doctor": (
        "allotment.cli.commands.doctor",
        "find what keeps devices from being used, and what to do about it",
    ),
    "overlays": (
        "allotment.cli.commands.overlays",
        "show what is known about machines that may be launched, and their devices",
    ),
    "plan": ("allotment.cli.commands.plan", "plan which machines to add for waiting pods, and at what price"),
    "whatif": (
        "allotment.cli.commands.whatif",
        "simulate steps on a cluster: which pods move, which would wait, and why",
    ),
    "up": ("allotment.cli.commands.up", "start a Kubernetes-compatible control plane on this machine"),
    "status": (
        "allotment.cli.commands.status",
        "show whether the server that `up` started is running, and where",
    ),
    "down": ("allotment.cli.commands.down", "stop the server that `up` started"),
    "kubeconfig": ("allotment.cli.commands.kubeconfig", "issue credentials for the server that `up` started"),
    "scheduler": ("allotment.cli.commands.scheduler", "run the scheduler alone, on any Kubernetes cluster"),
    "controllers": ("allotment.cli.commands.controllers", "run controllers alone, on any Kubernetes cluster"),
    "completion": (
        "allotment.cli.commands.completion",
        "print the script that completes commands in your shell",
    ),
    "backup": ("allotment.cli.commands.backup", "copy the server's store, even while it runs"),
    "restore": ("allotment.cli.commands.restore", "replace the server's store with a backup"),
}


click.Context.formatter_class = WholeWords  # this group serves as ``kubectl dra`` too


class LazyGroup(CommandGroup):
    """A command group that knows its subcommands by name and one line of help, and loads a module only when its command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Answers without loading the commands, because Tab is pressed often."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=words)
            for name, (_, words) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # costs a fifth of the start-up

        click.echo(f"allot {version('allotment')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="print the version and exit",
)
def allot() -> None:
    """Allocates GPUs, NICs and other devices to workloads the way Kubernetes does, and explains why something does not fit.
    It needs no cluster: it reads manifests, or runs an API server of its own (up)."""


def plugin() -> int:
    """The same commands as ``kubectl dra …``: kubectl runs the program of this name that it finds on the path."""
    return main(name="kubectl dra")


def complete_plugin() -> int:
    """Answers kubectl, which runs ``kubectl_complete-dra`` with the words after ``kubectl dra``."""
    from allotment.cli.commands.completion import words_after

    print("\n".join(words_after(allot, sys.argv[1:])))
    return 0


def main(arguments: list[str] | None = None, *, name: str = "allot") -> int:
    """Runs the command line and returns its exit code."""
    _open_standard_streams()
    if arguments is None and (asked := os.environ.get("_ALLOT_COMPLETE")):
        from click.shell_completion import shell_complete

        return shell_complete(allot, {}, name, "_ALLOT_COMPLETE", asked)
    try:
        # Not allot.main(): that would end the process itself when a pipe breaks.
        with allot.make_context(name, list(sys.argv[1:] if arguments is None else arguments)) as context:
            code = allot.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (click.ClickException, Failure) as exc:
        _show(exc)
        return exc.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads on, after `| head` for example. Python would complain again when it closes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _show(error: click.ClickException | Failure) -> None:
    from io import StringIO

    from allotment.api.text import printable
    from allotment.insight.remarks import whole_words

    if isinstance(error, Failure):
        words = error.words()
    else:
        error.show(shown := StringIO())
        words = shown.getvalue()
    text = "\n".join(map(printable, words.rstrip("\n").split("\n")))
    click.echo(whole_words(text, sys.stderr), err=True)


def _open_standard_streams() -> None:
    """A service may be started without some of the standard streams. The first sockets would then get their numbers, which
    crashes libuv."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
