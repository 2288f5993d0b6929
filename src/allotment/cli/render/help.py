"""Click's help text without broken words, and command groups that suggest similar names."""

from __future__ import annotations

from collections.abc import Iterable

import click

_FEW_COMMANDS = 5
_GLUE = "\N{NON-BREAKING HYPHEN}"


class WholeWords(click.HelpFormatter):
    """A formatter that breaks lines at spaces only. Click also breaks them after hyphens, but names such as ``kube-system``
    contain hyphens."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, _glued(args), prefix)

    def write_text(self, text: str) -> None:
        super().write_text(_glued(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, _glued(text)) for name, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_GLUE, "-")


def _glued(text: str) -> str:
    return text.replace("-", _GLUE)


class CommandGroup(click.Group):
    """A command group that, for an unknown name, suggests commands with a similar spelling, or names all if they are few:
    people leave out what kind of object the name is of."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from allotment.api.likeness import near

        name, known = args[0], self.list_commands(ctx)
        if name not in known:
            few = f"; begin with one of {', '.join(known)}" if len(known) <= _FEW_COMMANDS else ""
            if like := near(name, known) or few:
                ctx.fail(f"No such command {name!r}{like}")
        return super().resolve_command(ctx, args)
