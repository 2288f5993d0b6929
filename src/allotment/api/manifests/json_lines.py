"""The line of a field in JSON text, without an index of all fields.

From the outermost value on, the standard parser skips entries at its own speed until it reaches the wanted one; then
the search continues inside that entry. Skipped entries are remembered, so that asking for every item of a long list
costs one pass in all.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import JSONDecoder

from allotment.api.manifests.yaml_values import Path

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A field or list item: where it begins, and where its value begins."""

    key: str | int
    start: int
    value: int


@dataclass(slots=True)
class _Passed:
    """The entries of one value: those skipped so far, and an iterator of those that follow."""

    coming: Iterator[_Entry]
    seen: dict[str | int, _Entry] = field(default_factory=dict)

    def find(self, key: str | int) -> _Entry | None:
        while key not in self.seen:
            entry = next(self.coming, None)
            if entry is None:
                return None
            self.seen[entry.key] = entry
        return self.seen[key]


class LineFinder:
    """Finds lines in one text, which must be valid JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._passed: dict[Path, _Passed] = {}

    def line(self, path: Path) -> int:
        """The line of the field, or of the nearest part around it that the text has."""
        value = self._after_space(0)
        entry = _Entry("", value, value)
        for i, key in enumerate(path):
            around = path[:i]
            if around not in self._passed:
                self._passed[around] = _Passed(self._entries(entry.value))
            found = self._passed[around].find(key)
            if found is None:
                break
            entry = found
        return bisect_left(self._breaks, entry.start) + 1

    def _entries(self, offset: int) -> Iterator[_Entry]:
        """The entries of the value at ``offset``; none if it is neither an object nor a list."""
        opening = self._text[offset]
        if opening not in "{[":
            return
        offset = self._after_space(offset + 1)
        index = 0
        while self._text[offset] not in "}]":
            start, key = offset, index
            if opening == "{":
                key, end = _DECODER.raw_decode(self._text, offset)
                offset = self._after_space(self._after_space(end) + 1)  # the colon
            yield _Entry(key, start, offset)
            _, end = _DECODER.raw_decode(self._text, offset)
            offset = self._after_space(end)
            if self._text[offset] == ",":
                offset = self._after_space(offset + 1)
            index += 1

    def _after_space(self, offset: int) -> int:
        match = _SPACE.match(self._text, offset)
        return match.end() if match else offset
