"""Plain values from YAML text, built on our own stack from libyaml's events.

This is several times as fast as PyYAML's node trees, never recurses, and bounds what hostile text can do: how deep
it nests, and how much its aliases multiply it. Aliased values are shared, not copied, so callers must not change the
values they get.

Of what YAML adds to JSON, anchors, aliases and merge keys (``<<``) work. Keys that are numbers or truth values become
strings, as in kubectl. Other keys, and tags other than the basic ones, are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from allotment.api.manifests.yaml_scalar import plain, tagged
from allotment.api.nesting import MAX_DEPTH

MAX_ALIASED = 100_000
"""The most values that aliases may add to one text. Aliases of aliases could add billions."""

TOO_DEEP = f"nested too deeply; at most {MAX_DEPTH} levels are read"

Path = tuple[str | int, ...]

_MERGE = "<<"


class TextError(ValueError):
    """The text is neither YAML nor JSON that we accept. ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def duplicate(key: str) -> str:
    """The error about a key that is given twice."""
    return f'the key "{key[:80]}" occurs twice in one mapping; remove one of them'


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text, as plain values.

    ``text`` is the part of the text that contains the document, kept to find lines, and ``offset`` the number of lines
    before that part; ``line`` is the line of the document's first value.
    """

    value: Any
    line: int
    text: str
    offset: int
    is_json: bool = False


@dataclass(slots=True)
class _Value:
    """A finished value; ``size`` and ``depth`` count what is in it, aliases expanded."""

    value: Any
    size: int = 1
    depth: int = 0
    is_merge: bool = False  # the unquoted key ``<<``


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    path: Path
    key: _Value | None = None  # in a mapping: the key whose value comes next
    merged: list[dict[str, Any]] = field(default_factory=list)
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class YamlValues:
    """Reads one text. On request, it records the line of each field and list item, by path."""

    lines: dict[Path, int] | None = None
    _stack: list[_Open] = field(default_factory=list)
    _anchors: dict[str, _Value] = field(default_factory=dict)
    _aliased: int = 0
    _root: Any = None
    _root_line: int = 0  # 0: the document's first value has not come
    _line: int = 1

    def documents(self, text: str) -> Iterator[Document]:
        """One document after the other; the value of an empty one is None. Raises TextError."""
        start = offset = 0
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                begin, end = event.start_mark, event.end_mark
                self._line = begin.line + 1
                if isinstance(event, yaml.DocumentStartEvent):
                    self._root, self._root_line = None, 0
                    self._anchors.clear()
                    offset = begin.line
                    start = text.rfind("\n", 0, begin.index) + 1
                elif isinstance(event, yaml.DocumentEndEvent):
                    yield Document(self._root, self._root_line, text[start : end.index], offset)
                else:
                    self._take(event)
        except TextError:
            raise
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            raise TextError(mark.line + 1 if mark else self._line, _problem(exc)) from exc
        except (yaml.YAMLError, UnicodeError) as exc:
            raise TextError(self._line, f"not text that YAML allows: {str(exc).splitlines()[0]}") from exc
        except ValueError as exc:  # a scalar without a value
            raise TextError(self._line, str(exc)) from exc

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        is_plain, is_quoted = event.implicit
        if is_plain:
            value = _Value(plain(event.value), is_merge=event.value == _MERGE)
        elif is_quoted:
            value = _Value(event.value)
        else:
            value = _Value(tagged(event.tag or "!", event.value))
        if event.anchor:
            self._anchors[event.anchor] = value
        self._add(value)

    def _open(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise TextError(self._line, TOO_DEEP)
        if anchor:
            self._anchors.pop(anchor, None)  # the anchor has no meaning until the value ends
        self._stack.append(_Open(value, anchor, self._place()))

    def _close(self) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict):
            for mapping in done.merged:
                for key, value in mapping.items():
                    done.value.setdefault(key, value)
        value = _Value(done.value, done.size, done.depth)
        if done.anchor:
            self._anchors[done.anchor] = value
        self._add(value, placed=True)

    def _alias(self, anchor: str) -> None:
        target = self._anchors.get(anchor)
        if target is None:
            raise TextError(self._line, f"the alias *{anchor} refers to nothing that is complete before it")
        self._aliased += target.size
        if self._aliased > MAX_ALIASED:
            raise TextError(
                self._line, f"aliases expand to more than {MAX_ALIASED} values; write them out or use fewer"
            )
        if len(self._stack) + target.depth > MAX_DEPTH:
            raise TextError(self._line, TOO_DEEP)
        self._add(target)

    def _place(self) -> Path:
        """The place of the value that begins now; recorded with its line on request."""
        if not self._root_line:
            self._root_line = self._line
        if self.lines is None or not self._stack:
            return ()
        parent = self._stack[-1]
        if isinstance(parent.value, list):
            path = (*parent.path, len(parent.value))
        elif parent.key is None:
            return ()  # a key; its line is recorded when its value begins
        else:
            path = (*parent.path, _key(parent.key, self._line))
        self.lines.setdefault(path, self._line)
        return path

    def _add(self, added: _Value, placed: bool = False) -> None:
        if not placed:
            self._place()
        if not self._stack:
            self._root = added.value
            return
        parent = self._stack[-1]
        parent.size += added.size
        parent.depth = max(parent.depth, added.depth + 1)
        if isinstance(parent.value, list):
            parent.value.append(added.value)
        elif parent.key is None:
            self._begin_field(parent, parent.value, added)
        else:
            self._end_field(parent, parent.value, parent.key, added.value)
            parent.key = None

    def _begin_field(self, parent: _Open, mapping: dict[str, Any], key: _Value) -> None:
        parent.key = key
        if not key.is_merge:
            name = _key(key, self._line)
            if name in mapping:
                raise TextError(self._line, duplicate(name))
            if self.lines is not None:
                self.lines[(*parent.path, name)] = self._line

    def _end_field(self, parent: _Open, mapping: dict[str, Any], key: _Value, value: Any) -> None:
        if not key.is_merge:
            mapping[_key(key, self._line)] = value
            return
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in merged):
            raise TextError(self._line, "a merge (<<) needs a mapping or a list of mappings")
        parent.merged.extend(merged)


def _key(key: _Value, line: int) -> str:
    match key.value:
        case str():
            return key.value
        case bool():
            return str(key.value).lower()
        case int() | float():
            return str(key.value)
        case None:
            raise TextError(line, 'a key is missing (null); write "null" in quotes if you mean the word')
        case _:
            raise TextError(line, "a key must be a word, not a list or a mapping")


def _problem(exc: yaml.MarkedYAMLError) -> str:
    problem = exc.problem or exc.context or "broken"
    if "document start" in problem:
        return f"not valid YAML: {problem} (put --- between documents)"
    return f"not valid YAML: {problem}"
