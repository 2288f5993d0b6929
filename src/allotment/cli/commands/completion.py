"""``allot completion``: what a shell has to know to complete commands, options and files with Tab."""

from __future__ import annotations

import click

VARIABLE = "_ALLOT_COMPLETE"
"""Set by the shell's script when it asks what could come next."""

_SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Prints the script that completes `allot` in SHELL.

    \b
    bash:  echo 'eval "$(allot completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(allot completion zsh)"' >> ~/.zshrc
    fish:  allot completion fish > ~/.config/fish/completions/allot.fish

    For `kubectl dra`, the package installs kubectl_complete-dra beside kubectl-dra: kubectl asks it.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click completes in {shell}"
    click.echo(kind(ctx.find_root().command, {}, "allot", VARIABLE).source())


def words_after(group: click.Group, words: list[str]) -> list[str]:
    """What could stand in place of the last word, in the form that kubectl asks its plugins for: lines, then what the shell is to do:
    nothing of its own (4), or complete a file (0)."""
    from click.shell_completion import ShellComplete

    *before, incomplete = words or [""]
    found = ShellComplete(group, {}, "kubectl dra", VARIABLE).get_completions(before, incomplete)
    plain = [item for item in found if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in plain]
    return [*lines, ":4" if plain else ":0"]
