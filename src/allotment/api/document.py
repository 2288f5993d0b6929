"""Text into documents: YAML or JSON as plain values, and the lines that their fields are on.

JSON text goes through the standard parser, because it is ten times as fast as YAML; everything else is YAML.
Both refuse a key that stands twice in one mapping, since one of the two would be lost, and text that is too
long or nests too deeply.

Lines are not kept: a document of a million fields is read far more often than it is complained about.
:func:`field_lines` reads the text again when somebody asks.
"""

import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from allotment.api.nesting import too_deep
from allotment.api.yaml_scalar import finite
from allotment.api.yaml_values import TOO_DEEP, Document, Path, TextError, YamlValues, duplicate

MAX_SIZE = 64 * 1024 * 1024
"""Characters of text that we look at."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_documents(text: str) -> list[Document]:
    """All documents of a text, empty ones left out. Raises :class:`TextError`."""
    if len(text) > MAX_SIZE:
        raise TextError(1, f"the text has {len(text)} characters; at most {MAX_SIZE} are read, so split it")
    if _looks_like_json(text):
        try:
            return [Document(_json(text), line=1, text=text, offset=0)]
        except json.JSONDecodeError:
            pass  # YAML in flow style looks the same; if it is not that either, YAML tells the line
    return [document for document in YamlValues().documents(text) if document.value is not None]


def field_lines(document: Document) -> dict[Path, int]:
    """The line of each field and list item, by path; the empty path is the document itself.

    Fields that an alias brings in have none.
    """
    text = document.text
    if _looks_like_json(text):  # YAML reads it too once tabs and escapes are made harmless
        text = re.sub(r"\\.", "..", text).replace("\t", " ")
    lines: dict[Path, int] = {}
    with suppress(TextError):  # then the lines found so far have to do
        next(YamlValues(lines).documents(text), None)
    return {(): document.line} | {path: line + document.offset for path, line in lines.items()}


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
