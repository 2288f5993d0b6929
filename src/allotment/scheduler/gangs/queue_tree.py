"""Which queue is part of which, by ``spec.parent``.

A queue without a parent, or whose parent is ``root``, is at the top; where there is a Queue called ``root``, all others are below
it. Groups name a queue that has no others below it. A queue whose parents do not exist, or form a cycle, takes no groups until
that is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.batch import Queue

ROOT = "root"


class QueueTree:
    """The tree of queues. It also knows queues without an object; those are at the top."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._children: dict[str, list[str]] = {}
        for name in sorted(queues):
            self._children.setdefault(self._parent(name), []).append(name)

    def _parent(self, name: str) -> str:
        queue = self._queues.get(name)
        parent = (queue.spec.parent if queue is not None else None) or ROOT
        if parent == ROOT and (name == ROOT or ROOT not in self._queues):
            return ""
        return parent

    def path(self, name: str) -> list[str]:
        """The queue and its ancestors, from the top. The path stops at an ancestor that does not exist or closes a cycle."""
        found = [name]
        while (parent := self._parent(found[-1])) and parent in self._queues and parent not in found:
            found.append(parent)
        return found[::-1]

    def children(self, name: str) -> list[str]:
        """The queues directly below one; for ``""``, the queues at the top."""
        return self._children.get(name, [])

    def below(self, name: str) -> list[str]:
        """A queue and all below it."""
        found = [name]
        for each in found:
            found += [child for child in self.children(each) if child not in found]
        return found

    def reached(self, name: str) -> bool:
        """Whether all ancestors of a queue with an object exist up to the top."""
        return name in self._queues and not self._parent(self.path(name)[0])

    def fault(self, name: str) -> str:
        """Why groups cannot name a queue, as a sentence; empty if they can."""
        if self.children(name):
            return f"the queue {name} has others below it, and only those take groups: {', '.join(self.children(name)[:5])}"
        top = self.path(name)[0]
        parent = self._parent(top)
        if not parent:
            return ""
        if parent in self._queues:
            return f"the parents of the queue {name} lead in a circle, by {top}"
        return f"there is no queue {parent}, which is the parent of {top}"
