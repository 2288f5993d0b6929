"""Everything that can go wrong with an expression.

```
CelError
├── CelCompileError        the text is at fault: line, column, and a snippet with a caret
│   ├── CelSyntaxError     it does not parse
│   └── CelCheckError      a name, a type, a literal or the result type is wrong
└── CelRuntimeError        this evaluation failed; another input may succeed
    ├── CelNoSuchKey       a map lacks the key, an object the field
    ├── CelNoSuchOverload  no function takes values of these types
    ├── CelUnknown         it depends on a value that nobody knows yet
    └── CelCostExceeded    the cost limit was reached; never absorbed by ``||`` or ``&&``
```

One compilation may find several faults: ``issues`` holds them all, up to a hundred, in the order of the text; the exception is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Issue:
    """One fault at one place. Lines count from 1, columns from 1."""

    line: int
    column: int
    message: str
    snippet: str
    """The source line with a caret below the place, each line led by `` | ``."""

    def __str__(self) -> str:
        return f"ERROR: <input>:{self.line}:{self.column}: {self.message}\n{self.snippet}"


class CelError(Exception):
    """Root of the tree."""


class CelCompileError(CelError):
    """The expression text is at fault."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(sorted(issues[:MOST_ISSUES], key=lambda each: (each.line, each.column)))
        super().__init__("\n".join(map(str, self.issues)))

    @property
    def line(self) -> int:
        return self.issues[0].line

    @property
    def column(self) -> int:
        return self.issues[0].column

    @property
    def snippet(self) -> str:
        return self.issues[0].snippet


class CelSyntaxError(CelCompileError):
    """The text does not parse."""


class CelCheckError(CelCompileError):
    """The text parses, but a name, a type or a literal in it is wrong."""


class CelResultError(CelCheckError):
    """The expression is valid, but its result has the wrong type. As in Kubernetes, the error has no place."""

    def __str__(self) -> str:
        return self.issues[0].message


class CelRuntimeError(CelError):
    """The evaluation failed. Functions raise this; the message follows upstream's wording."""

    cost: int = 0
    """The cost of the evaluation up to its end, if the caller requested it."""


class CelNoSuchKey(CelRuntimeError):
    """A map lacks the key or an object the field."""

    def __init__(self, key: object, message: str = "") -> None:
        super().__init__(message or f"no such key: {key}")
        self.key = key


class CelNoSuchOverload(CelRuntimeError):
    """No function takes values of these types."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"no such overload: {detail}" if detail else "no such overload")


class CelUnknown(CelRuntimeError):
    """The answer depends on a value that is not known yet."""


class CelCostExceeded(CelRuntimeError):
    """The evaluation was stopped because it became too expensive."""

    def __init__(self, limit: int) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.limit = limit


_MARGIN = 200
"""Characters shown on either side of a fault in a longer line."""
MOST_ISSUES = 100


class SourceText:
    """An expression text, which gives the line and column of an offset and draws a caret there."""

    def __init__(self, text: str) -> None:
        self.text = text

    def issue(self, position: int, message: str) -> Issue:
        position = max(0, min(position, len(self.text)))
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        row = self.text[start : end if end >= 0 else len(self.text)].replace("\t", " ")
        column = position - start
        line = self.text.count("\n", 0, start) + 1
        left = max(0, column - _MARGIN) if len(row) > 2 * _MARGIN else 0
        shown = row[left : left + 2 * _MARGIN]
        caret = "\uff3e" if _is_wide(row[column : column + 1]) else "^"
        below = "".join("\uff0e" if _is_wide(each) else "." for each in row[left:column])
        return Issue(line, column + 1, message, f" | {shown}\n | {below}{caret}")


def _is_wide(character: str) -> bool:
    """Characters outside ASCII get a wide dot or caret below them, as Kubernetes draws it."""
    return not character.isascii()
