"""The names of what changed, in order, for readers that catch up at their own pace."""

from __future__ import annotations

_CHANGES_KEPT = 200_000


class ChangeLog:
    """A reader remembers ``end`` and later asks what came ``since``. The log drops old entries; a reader that needs them starts
    over."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._start = 0

    @property
    def end(self) -> int:
        return self._start + len(self._names)

    def note(self, name: str) -> None:
        self._names.append(name)
        if len(self._names) > _CHANGES_KEPT:
            drop = len(self._names) // 2
            del self._names[:drop]
            self._start += drop

    def since(self, position: int) -> list[str] | None:
        """The names noted since; None if some of them were dropped."""
        return None if position < self._start else self._names[position - self._start :]
