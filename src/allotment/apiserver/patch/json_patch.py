"""JSON patch (RFC 6902), with the liberties that Kubernetes' library takes, since clients have come to rely on them.

What differs from the RFC: ``replace`` of an absent key of a map adds it; ``test`` for null passes on an absent key;
``add`` without a value adds null; negative indices count from the end; whatever stands before the first slash of a
path is ignored; and only ``replace`` and ``test`` know the path of the whole document.

Cost is bounded: the number of operations, the bytes that ``copy`` may add, the elements that insertions and removals may
shift in lists, and the depth of the result.
"""

from __future__ import annotations

import re
from typing import Any, Final

from allotment.api.nesting import MAX_DEPTH
from allotment.api.status import BadRequest, Invalid, TooLarge
from allotment.apiserver.allowance import spend
from allotment.apiserver.patch.value import copied, encoded, same
from allotment.apiserver.store.record import Obj

MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 * 1024 * 1024
"""The most bytes of JSON that the copies of one patch may add."""
MAX_SHIFTED: Final = 50_000_000
"""The most list elements that the insertions and removals of one patch may move."""

_COPYING: Final = 0.1
"""Microseconds for each byte that is copied, and then checked and stored."""

_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


class _Failed(Exception):
    """An operation that does not apply."""


def json_patch(obj: Obj, operations: Any) -> Obj:
    """``obj`` after ``operations``; ``obj`` itself stays as it is.

    Raises BadRequest for a patch that is none, TooLarge for one with too many operations, and Invalid when an
    operation does not apply or a test fails.
    """
    if not isinstance(operations, list) or not all(isinstance(each, dict | None) for each in operations):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations, each an object")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    document = _Document(copied(obj, "the object"))
    for operation in copied(operations, "the patch"):
        try:
            document.run(operation or {})
        except _Failed as failure:
            raise _does_not_apply(str(failure)) from None
    result = copied(document.root, "the patched object")
    if not isinstance(result, dict):
        raise _does_not_apply("the patched document is not an object")
    return result


def _does_not_apply(why: str) -> Invalid:
    """The error for a patch that does not apply. As in Kubernetes, the message is general; the causes have the details."""
    return Invalid(
        "the server rejected our request due to an error in our request", {"causes": [{"message": why}]}
    )


class _Document:
    """The document while it is being patched, and the cost of the patch so far."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0
        self._shifted = 0

    def run(self, operation: Obj) -> None:
        kind = operation.get("op")
        run = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if run is None:
            raise _Failed(f"Unexpected kind: {kind[:100] if isinstance(kind, str) else 'unknown'}")
        run(self, operation)

    def add(self, operation: Obj) -> None:
        path = _pointer(operation, "path", "add")
        found = self._find(path)
        if found is None:
            raise _Failed(f'add operation does not apply: doc is missing path: "{path}": missing value')
        self._insert(*found, operation.get("value"), f"error in add for path: '{path}'")

    def remove(self, operation: Obj) -> None:
        path = _pointer(operation, "path", "remove")
        found = self._find(path)
        if found is None:
            raise _Failed(f'remove operation does not apply: doc is missing path: "{path}": missing value')
        self._delete(*found, f"error in remove for path: '{path}'")

    def replace(self, operation: Obj) -> None:
        path = _pointer(operation, "path", "replace")
        value = operation.get("value")
        if path == "":
            if not isinstance(value, dict | list):
                raise _Failed("replace operation value must be object or array")
            self.root = value
            return
        found = self._find(path)
        if found is None:
            raise _Failed(f"replace operation does not apply: doc is missing path: {path}: missing value")
        container, key = found
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container), f"replace operation does not apply: {path}")] = value

    def move(self, operation: Obj) -> None:
        source = _pointer(operation, "from", "move")
        found = self._find(source)
        if found is None:
            raise _Failed(f"move operation does not apply: doc is missing from path: {source}: missing value")
        value = _get(*found, f"error in move for path: '{source}'")
        self._delete(*found, f"error in move for path: '{source}'")
        self._put(operation, value, "move")

    def copy(self, operation: Obj) -> None:
        source = _pointer(operation, "from", "copy")
        found = self._find(source)
        if found is None:
            raise _Failed(f"copy operation does not apply: doc is missing from path: {source}: missing value")
        value = _get(*found, f"error in copy for from: '{source}'")
        size = len(encoded(value, "what the patch copies"))
        self._copied += size
        if self._copied > MAX_COPIED:
            raise _Failed(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED}"
            )
        spend(size * _COPYING)
        self._put(operation, copied(value, "what the patch copies"), "copy")

    def test(self, operation: Obj) -> None:
        path = _pointer(operation, "path", "test")
        if path == "":
            value = self.root
        else:
            found = self._find(path)
            if found is None:
                raise _Failed(f"test operation does not apply: is missing path: {path}: missing value")
            value = _get(*found, f"error in test for path: '{path}'")
        if not same(value, operation.get("value")):
            raise _Failed(f"testing value {path} failed: test failed")

    def _put(self, operation: Obj, value: Any, kind: str) -> None:
        path = _pointer(operation, "path", kind)
        found = self._find(path)
        if found is None:
            raise _Failed(
                f"{kind} operation does not apply: doc is missing destination path: {path}: missing value"
            )
        self._insert(*found, value, f"error in {kind} for path: '{path}'")

    def _find(self, path: str) -> tuple[Any, str] | None:
        """The map or list that holds what ``path`` names, and the key in it; None if there is no such place."""
        _, *tokens = path.split("/")
        if not tokens:
            return None
        if len(tokens) > MAX_DEPTH:
            raise _Failed(f"a path may have {MAX_DEPTH} steps, this one has {len(tokens)}")
        container = self.root
        for token in tokens[:-1]:
            try:
                container = _get(container, _unescaped(token), "")
            except _Failed:
                return None
            if not isinstance(container, dict | list):
                return None
        return container, _unescaped(tokens[-1])

    def _insert(self, container: Any, key: str, value: Any, context: str) -> None:
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            index = _index(key, len(container) + 1, context)
            self._shift(len(container) - index)
            container.insert(index, value)

    def _delete(self, container: Any, key: str, context: str) -> None:
        if isinstance(container, list):
            index = _index(key, len(container), context)
            self._shift(len(container) - index)
            del container[index]
        elif key in container:
            del container[key]
        else:
            raise _Failed(f"{context}: Unable to remove nonexistent key: {key}: missing value")

    def _shift(self, elements: int) -> None:
        self._shifted += elements
        if self._shifted > MAX_SHIFTED:
            raise _Failed(f"the patch moves more than {MAX_SHIFTED} elements of lists; replace the list")


_OPERATIONS = {
    "add": _Document.add,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "move": _Document.move,
    "copy": _Document.copy,
    "test": _Document.test,
}


def _pointer(operation: Obj, field: str, kind: str) -> str:
    pointer = operation.get(field)
    if not isinstance(pointer, str):
        raise _Failed(f"{kind} operation failed to decode {field}: missing value")
    return pointer


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def _get(container: Any, key: str, context: str) -> Any:
    """The value under a key; null if a map does not have it."""
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container), context)]


def _index(key: str, length: int, context: str) -> int:
    """The place in a list of ``length`` that ``key`` means; negative ones count from its end."""
    if not _INDEX.fullmatch(key):
        raise _Failed(f"{context}: value was not a proper array index: '{key[:100]}'")
    index = int(key)
    if not -length <= index < length:
        raise _Failed(f"{context}: Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index
