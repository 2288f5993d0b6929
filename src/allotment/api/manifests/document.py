"""Text into documents: YAML or JSON as plain values, and the lines that their fields are on.

JSON text goes through the standard parser, because it is ten times as fast as YAML; everything else is YAML.
Both refuse a key that stands twice in one mapping, since one of the two would be lost, and text that is too
long or nests too deeply.

Lines are not kept: a document of a million fields is read far more often than it is complained about.
What :func:`line_finder` returns reads the text again when somebody asks.
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
"""Characters of text that we look at."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_documents(text: str) -> list[Document]:
    """All documents of a text, empty ones left out. Raises :class:`TextError`."""
    if len(text) > MAX_SIZE:
        raise TextError(1, f"the text has {len(text)} characters; at most {MAX_SIZE} are read, so split it")
    text = text.removeprefix("\ufeff")  # the mark that some editors begin a file with
    if _looks_like_json(text):
        try:
            return [Document(_json(text), _first_line(text), text, 0, is_json=True)]
        except json.JSONDecodeError:
            pass  # YAML in flow style looks the same; if it is not that either, YAML tells the line
    return [document for document in YamlValues().documents(text) if document.value is not None]


def line_finder(document: Document) -> Callable[[Path], int]:
    """Tells the line of a field or list item by its path, or of the nearest one around it that the text has.

    What an alias brings in stands where the alias does. Costs a pass over the document; so keep the result.
    """
    if document.is_json:
        return LineFinder(document.text).line
    lines: dict[Path, int] = {}
    with suppress(TextError):  # then the lines found so far have to do
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
    except ValueError as exc:  # from one of our hooks, or a number of thousands of digits
        raise TextError(1, str(exc)) from exc


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(duplicate(twice))
    return mapping


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON can hold")
