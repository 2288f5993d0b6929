"""Limits the work of one turn, in steps and never in seconds, so that the same questions get the same answers anywhere.

A step is the choice of one device in a search, the judgement of a node, or the trial placement of a pod. A caller that
shares a thread with others sets a limit, asks its question, and gets ``Paused`` when the limit is reached. The results so
far are kept: verdicts about nodes, answers about states, and the interrupted search, which continues where it stopped when
the same question comes again. Without a limit, nothing is ever interrupted.
"""

from __future__ import annotations


class Paused(Exception):
    """The steps of this turn are used up. Ask the same question again in a later turn to continue from here."""


class Effort:
    """Steps taken since ``begin``. ``searched`` counts those that need never be taken again; ``beside`` is work that no limit
    interrupts, and that has its price all the same."""

    __slots__ = ("beside", "limit", "searched", "spent")

    def __init__(self) -> None:
        self.limit: int | None = None
        self.spent = 0
        self.searched = 0
        self.beside = 0

    def begin(self, limit: int | None = None) -> None:
        """Starts counting anew; with a limit, work pauses when it is reached."""
        self.limit, self.spent, self.searched, self.beside = limit, 0, 0, 0

    def take(self, steps: int = 1) -> None:
        """Counts work that is about to begin. Raises Paused instead if the limit is reached."""
        if self.limit is not None and self.spent >= self.limit:
            raise Paused
        self.spent += steps

    @property
    def left(self) -> int | None:
        """How many steps are left; None if there is no limit."""
        return None if self.limit is None else max(0, self.limit - self.spent)

    def charge(self, steps: int) -> None:
        """Counts work that is done in one go."""
        self.beside += steps

    def took(self, steps: int) -> None:
        """Counts the steps of a search, which never need repeating."""
        self.spent += steps
        self.searched += steps
