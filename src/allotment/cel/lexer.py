"""Text to tokens.

The longest token wins; a keyword is a token of its own kind, other reserved words are identifiers that the
parser refuses as variables but takes as field names. White space and ``//`` comments vanish. Literals are
converted here, escapes included, so that the parser only sees values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from allotment.cel.errors import CelSyntaxError, SourceText
from allotment.cel.values import INT_MAX, UINT_MAX, UInt, Value


class TokenKind(Enum):
    """Kinds of tokens; every operator and bracket is an ``OPERATOR``, identified by its text."""

    IDENTIFIER = auto()
    ESCAPED = auto()
    OPERATOR = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Lexeme:
    kind: TokenKind
    text: str
    position: int
    value: Value = None


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
_STRING = (
    r"[rR](?:\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKENS = re.compile(
    "|".join(
        (
            r"(?P<space>[\t \r\n\f]+|//[^\n]*)",
            rf"(?P<BYTES>[bB](?:{_STRING}))",
            rf"(?P<STRING>{_STRING})",
            r"(?P<DOUBLE>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)",
            r"(?P<UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])",
            r"(?P<INT>0x[0-9a-fA-F]+|[0-9]+)",
            r"(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<ESCAPED>`[A-Za-z0-9_./\- ]+`)",
            r"(?P<OPERATOR>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
        )
    )
)
_KEYWORDS = {"in": None, "true": True, "false": False, "null": None}
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES = re.compile(_ESCAPE)


def tokenize(source: SourceText) -> list[Lexeme]:
    """All tokens, ``END`` last. Raises at the first character that starts none."""
    text = source.text
    tokens: list[Lexeme] = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            raise _refusal(source, position, f"token recognition error at: '{text[position]}'")
        group = match.lastgroup
        if group != "space" and group is not None:
            tokens.append(_lexeme(source, TokenKind[group], match.group(), position))
        position = match.end()
    tokens.append(Lexeme(TokenKind.END, "<EOF>", len(text)))
    return tokens


def _refusal(source: SourceText, position: int, message: str) -> CelSyntaxError:
    return CelSyntaxError([source.issue(position, f"Syntax error: {message}")])


def _lexeme(source: SourceText, kind: TokenKind, text: str, position: int) -> Lexeme:
    match kind:
        case TokenKind.IDENTIFIER if text in _KEYWORDS:
            return Lexeme(TokenKind.OPERATOR, text, position, _KEYWORDS[text])
        case TokenKind.ESCAPED:
            return Lexeme(kind, text, position, text[1:-1])
        case TokenKind.INT | TokenKind.UINT:
            return _integer(source, kind, text, position)
        case TokenKind.DOUBLE:
            return Lexeme(kind, text, position, float(text))
        case TokenKind.STRING | TokenKind.BYTES:
            try:
                return Lexeme(kind, text, position, _unquoted(text, kind is TokenKind.BYTES))
            except ValueError as exc:
                raise CelSyntaxError([source.issue(position, str(exc))]) from exc
        case _:
            return Lexeme(kind, text, position)


def _integer(source: SourceText, kind: TokenKind, text: str, position: int) -> Lexeme:
    """An int may be one beyond the largest, since a minus sign may stand before it."""
    digits = text.rstrip("uU")
    largest = INT_MAX + 1 if kind is TokenKind.INT else UINT_MAX
    # Python refuses to convert thousands of decimal digits, so length is looked at first.
    number = (
        int(digits, 16 if digits.startswith("0x") else 10) if len(digits.lstrip("0x")) <= 20 else largest + 1
    )
    if number > largest:
        name = "int" if kind is TokenKind.INT else "uint"
        raise CelSyntaxError([source.issue(position, f"invalid {name} literal")])
    return Lexeme(kind, text, position, number if kind is TokenKind.INT else UInt(number))


def _unquoted(text: str, is_bytes: bool) -> str | bytes:
    body = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_bytes:
        body = body[1:]
    raw = body[0] in "rR"
    if raw:
        body = body[1:]
    quotes = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    if is_bytes:
        return body.encode() if raw else _unescaped_bytes(body)
    return body if raw else _ESCAPES.sub(lambda match: _character(match.group()), body)


def _character(escape: str) -> str:
    """The character an escape stands for."""
    kind = escape[1]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in "xXuU":
        code = int(escape[2:], 16)
    elif kind in "0123":
        code = int(escape[1:], 8)
    else:
        return kind
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescaped_bytes(body: str) -> bytes:
    """In bytes, ``\\x`` and octal escapes are bytes, and escapes of code points are refused."""
    result = bytearray()
    end = 0
    for match in _ESCAPES.finditer(body):
        escape = match.group()
        if escape[1] in "uU":
            raise ValueError("unable to unescape string")
        result += body[end : match.start()].encode()
        result += ord(_character(escape)).to_bytes()
        end = match.end()
    result += body[end:].encode()
    return bytes(result)
