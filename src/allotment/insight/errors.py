"""The errors that end a question without an answer: each has a message that names the next step, and the exit code of the
command.

Failure          it cannot be done                                    exit code 1
├── NoAnswer     as Failure, of a command whose exit code 1 says "no" exit code 2
└── BadInput     the input is at fault; one line for each complaint   exit code 2
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_COMPLAINTS = 50


class Failure(Exception):
    """``hint`` is the next step, on a line of its own."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def words(self) -> str:
        """Everything that the user sees."""
        from allotment.api.text import printable_lines  # only needed when something is wrong

        message = f"Error: {printable_lines(self.message)}"
        return f"{message}\n{printable_lines(self.hint)}" if self.hint else message


class NoAnswer(Failure):
    """Ends a command for which exit code 1 is an answer: "no"."""

    exit_code = 2


class BadInput(Failure):
    """Shows each error on a line of its own, as ``file:line: field: message``."""

    exit_code = 2

    def __init__(self, complaints: Sequence[str], hint: str = "") -> None:
        super().__init__("\n".join(complaints), hint)
        self.complaints = complaints

    def words(self) -> str:
        from allotment.api.text import printable_lines

        lines = [printable_lines(each) for each in self.complaints[:MAX_COMPLAINTS]]
        if len(self.complaints) > MAX_COMPLAINTS:
            lines.append(f"... and {len(self.complaints) - MAX_COMPLAINTS} more")
        return "\n".join([*lines, *([f"hint: {self.hint}"] if self.hint else [])])
