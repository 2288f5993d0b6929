"""``allot completion``: what a shell needs to complete commands, options and files with Tab."""

from __future__ import annotations

import click

VARIABLE = "_ALLOT_COMPLETE"
"""The shell's script sets this variable when it asks for completions."""

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
    """The candidates for the last word, in the format that kubectl expects from its plugins: one per line, followed by a
    directive for the shell: nothing more (4), or complete a file name (0)."""
    from click.shell_completion import ShellComplete

    *before, incomplete = words or [""]
    found = ShellComplete(group, {}, "kubectl dra", VARIABLE).get_completions(before, incomplete)
    plain = [item for item in found if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in plain]
    return [*lines, ":4" if plain else ":0"]
