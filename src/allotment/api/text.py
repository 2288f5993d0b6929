"""Text as Go programs see it, and as messages show it.

Kubernetes counts bytes where Python counts characters, and trims the white space that Unicode calls so, where
Python also trims some control characters.
"""

from typing import Final

SHOWN: Final = 80
"""Characters of a user's text that a message shows."""

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def byte_length(text: str) -> int:
    """The length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def trimmed(text: str) -> str:
    """The text without white space around it."""
    return text.strip(_SPACE)


def shortened(text: str) -> str:
    """The text, or its two ends if it is too long for a message."""
    if len(text) <= SHOWN:
        return text
    half = (SHOWN - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def quoted(text: str) -> str:
    """The text in quotation marks, shortened."""
    return repr(shortened(text))
