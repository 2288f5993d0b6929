"""Descriptions for `kubectl explain`, from the docstrings and comments of the types in ``api/``.

A struct's docstring describes its definition; the comment above or behind a field describes the field. A field without a
comment gets the docstring of the struct that it holds. They are read from the source when a client requests a document.
Without the source, only docstrings remain.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import msgspec

from allotment.api import core, meta, pools, resource, semantic
from allotment.api.meta import ApiStruct

_MODULES: dict[str, ModuleType] = {
    "io.k8s.apimachinery.pkg.apis.meta.v1": meta,
    "io.k8s.api.core.v1": core,
    "io.k8s.api.resource.v1": resource,
    "io.k8s.api.resource.v1beta1": resource,
    "io.k8s.api.resource.v1beta2": resource,
    "io.k8s.api.resource.v1alpha3": pools,
    "dev.allotment.api.semantic": semantic,
    "dev.allotment.api.pools": pools,
}
COMMON: Mapping[str, str] = {
    "apiVersion": "The group and version in which this object is written.",
    "kind": "The kind of this object.",
    "metadata": "The object's name, labels, owners and bookkeeping.",
    "spec": "The content of the object, as its author wants it.",
    "status": "What the system observed or decided.",
    "items": "The objects.",
}
"""Descriptions of fields that mean the same in every kind."""


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a definition. ``fields`` describes fields by their JSON names, where there are descriptions."""

    text: str
    fields: Mapping[str, str]


@cache
def described(definition: str) -> Described:
    """The description of a definition, by its name in the schemas; without a struct, only the common fields."""
    package, _, own = definition.rpartition(".")
    struct = getattr(_MODULES.get(package), own, None)
    if not (isinstance(struct, type) and issubclass(struct, ApiStruct)):
        return Described("", COMMON)
    comments = _comments(_MODULES[package]).get(own, {})
    fields = dict(COMMON) if "metadata" in struct.__struct_fields__ else {}
    for info in msgspec.structs.fields(struct):
        text = comments.get(info.name) or (info.encode_name not in fields and _of_type(info.type))
        if text:
            fields[info.encode_name] = _sentence(text)
    return Described(_plain(inspect.getdoc(struct) or ""), fields)


def _of_type(hint: object) -> str:
    """The first paragraph about the struct inside a type, if there is one."""
    found = re.findall(r"allotment\.api\.(\w+)\.(\w+)", str(hint))
    for module, own in found:
        struct = next((getattr(m, own, None) for m in _MODULES.values() if m.__name__.endswith(module)), None)
        if isinstance(struct, type) and issubclass(struct, ApiStruct):
            return _plain(inspect.getdoc(struct) or "").partition("\n")[0]
    return ""


@cache
def _comments(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """The comments of every class's fields, by the names in the source."""
    try:
        source = inspect.getsource(module)
    except OSError:
        return {}
    at_line, alone = _comment_lines(source)
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = fields = {}
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    above = _above(item.lineno, at_line, alone)
                    behind = at_line.get(item.end_lineno or item.lineno, "")
                    fields[item.target.id] = " ".join(part for part in (above, behind) if part)
    return found


def _comment_lines(source: str) -> tuple[dict[int, str], set[int]]:
    """The comment on each line, and the lines that hold nothing else."""
    at_line, alone = {}, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            at_line[token.start[0]] = token.string.lstrip("# ").strip()
            if not token.line[: token.start[1]].strip():
                alone.add(token.start[0])
    return at_line, alone


def _above(line: int, at_line: Mapping[int, str], alone: set[int]) -> str:
    """The block of comment lines that ends right above a line."""
    first = line
    while first - 1 in alone:
        first -= 1
    return " ".join(at_line[number] for number in range(first, line))


def _sentence(text: str) -> str:
    text = _plain(text)
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def _plain(text: str) -> str:
    """The text without mark-up, with each paragraph on one line."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
