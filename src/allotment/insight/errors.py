"""What ends a question that has no answer: a message that says what to do next, and the exit code of a command that asked.

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
        """All that a person is shown."""
        from allotment.api.text import printable_lines  # nobody waits for it before something is wrong

        message = f"Error: {printable_lines(self.message)}"
        return f"{message}\n{printable_lines(self.hint)}" if self.hint else message


class NoAnswer(Failure):
    """Ends a command whose exit code 1 is an answer: "no"."""

    exit_code = 2


class BadInput(Failure):
    """Shows every complaint on a line of its own, as ``file:line: field: message``."""

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
