"""Help as click prints it, with every word whole, and groups of commands that know what somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable

import click

_GLUE = "\N{NON-BREAKING HYPHEN}"


class WholeWords(click.HelpFormatter):
    """Breaks lines at spaces only: click breaks them behind hyphens too, and names such as ``kube-system`` have hyphens."""

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
    """Names the commands that are spelt alike where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from allotment.api.likeness import near

        name, known = args[0], self.list_commands(ctx)
        if name not in known and (like := near(name, known)):
            ctx.fail(f"No such command {name!r}{like}")
        return super().resolve_command(ctx, args)
