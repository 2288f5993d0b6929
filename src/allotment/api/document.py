"""Text into documents: YAML or JSON as plain values, and the lines that their fields are on.

JSON text goes through the standard parser, because it is ten times as fast as YAML; everything else is YAML.
Both refuse a key that stands twice in one mapping, since one of the two would be lost, and text that is too
long or nests too deeply.

Lines are not kept: a document of a million fields is read far more often than it is complained about.
:func:`field_lines` reads the text again when somebody asks.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from allotment.api.nesting import too_deep
from allotment.api.yaml_scalar import finite
from allotment.api.yaml_values import TOO_DEEP, Path, TextError, YamlValues, duplicate

MAX_SIZE = 64 * 1024 * 1024
"""Characters of text that we look at."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text: plain values, its place among the documents, and the line where it begins."""

    value: Any
    index: int
    line: int


def read_documents(text: str) -> list[Document]:
    """All documents of a text, empty ones left out. Raises :class:`TextError`."""
    if len(text) > MAX_SIZE:
        raise TextError(1, f"the text has {len(text)} characters; at most {MAX_SIZE} are read, so split it")
    if _looks_like_json(text):
        try:
            return [Document(_json(text), 0, 1)]
        except json.JSONDecodeError:
            pass  # YAML in flow style looks the same; if it is not that either, YAML tells the line
    documents = [Document(value, i, line) for i, (value, line) in enumerate(YamlValues().documents(text))]
    return [document for document in documents if document.value is not None]


def field_lines(text: str, index: int) -> dict[Path, int]:
    """The line of each field and list item in one document, by path; the empty path is the document itself.

    Fields that an alias brings in have none.
    """
    if _looks_like_json(text):  # YAML reads it too once tabs and escapes are made harmless
        text = re.sub(r"\\.", "..", text).replace("\t", " ")
    values = YamlValues(watched=index)
    try:
        for i, (_, line) in enumerate(values.documents(text)):
            if i == index:
                return {**values.lines, (): line}
    except TextError:
        pass  # it was readable as JSON, or we were not here: the beginning is the best we can say
    return {(): 1}


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
        keys = [key for key, _ in pairs]
        raise ValueError(duplicate(next(key for key in keys if keys.count(key) > 1)))
    return mapping


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON can hold")
