"""Text into documents: YAML or JSON as plain values, and the lines that their fields are on.

JSON text goes through the standard parser, because it is ten times as fast as YAML; everything else is YAML.
Both refuse a key that occurs twice in one mapping, since one of the two values would be lost. They also refuse text
that is too long or nests too deeply.

Line numbers are not kept: readers of a million fields rarely need one. The result of :func:`line_finder` reads the
text again when somebody asks.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from allotment.api.manifests.json_lines import LineFinder
from allotment.api.manifests.yaml_scalar import finite
from allotment.api.manifests.yaml_values import TOO_DEEP, Document, Path, TextError, YamlValues, duplicate
from allotment.api.nesting import too_deep

MAX_SIZE = 64 * 1024 * 1024
"""The most characters of text that we read."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_documents(text: str) -> list[Document]:
    """All documents of a text, empty ones left out. Raises :class:`TextError`."""
    if len(text) > MAX_SIZE:
        raise TextError(1, f"the text has {len(text)} characters; at most {MAX_SIZE} are read, so split it")
    text = text.removeprefix("\ufeff")  # the byte order mark that some editors put at the start of a file
    if _looks_like_json(text):
        try:
            return [Document(_json(text), _first_line(text), text, 0, is_json=True)]
        except json.JSONDecodeError:
            # YAML in flow style looks the same; if the text is not that either, the YAML parser reports the line
            pass
    return [document for document in YamlValues().documents(text) if document.value is not None]


def line_finder(document: Document) -> Callable[[Path], int]:
    """A function that finds the line of a field or list item by its path, or of the nearest part around it.

    The content of an alias has the line of the alias. Making the function costs a pass over the document, so keep it.
    """
    if document.is_json:
        return LineFinder(document.text).line
    lines: dict[Path, int] = {}
    with suppress(TextError):  # then the lines found so far must suffice
        next(YamlValues(lines).documents(document.text), None)

    def line(path: Path) -> int:
        while path and path not in lines:
            path = path[:-1]
        return lines[path] + document.offset if path else document.line

    return line


def _first_line(text: str) -> int:
    return text.count("\n", 0, len(text) - len(text.lstrip())) + 1


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _json(text: str) -> Any:
    try:
        if too_deep(text.encode()):
            raise TextError(1, TOO_DEEP)
        value = json.loads(text, object_pairs_hook=_mapping, parse_float=finite, parse_constant=_refuse)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (json.JSONDecodeError, TextError):
        raise
    except UnicodeEncodeError as exc:
        raise TextError(1, "holds half a character (a lone surrogate such as \\ud83d)") from exc
    except ValueError as exc:  # raised by one of our hooks, or by a number with thousands of digits
        raise TextError(1, str(exc)) from exc


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(duplicate(twice))
    return mapping


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON can hold")
