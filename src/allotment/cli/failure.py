"""What ends a command that cannot do its work: a message that says what to do next, and an exit code."""

from __future__ import annotations

import click


class Failure(click.ClickException):
    """``hint`` is the next step, on a line of its own."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def format_message(self) -> str:
        from allotment.api.text import printable_lines

        message = printable_lines(self.message)
        return f"{message}\n{printable_lines(self.hint)}" if self.hint else message


class NoAnswer(Failure):
    """Ends a command whose exit code 1 is an answer: "no"."""

    exit_code = 2
