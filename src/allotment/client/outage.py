"""A transport that says when the server is away, and when it is back: each once, whatever everybody does who waits for it.

Whoever uses a transport tries again by itself, so an outage shows up in many places many times. It is told here, where all of
them pass. One call without an answer is none: the server may be slow for it. It takes several in a row, with no answer to
anything between them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport

IN_A_ROW = 3


class OutageTeller:
    """Passes on to ``beneath``; ``tell`` is given a sentence about ``server``."""

    def __init__(self, beneath: Transport, server: str, tell: Callable[[str], None]) -> None:
        self._beneath = beneath
        self._server = server
        self._tell = tell
        self._unanswered = 0  # calls in a row

    @property
    def away(self) -> bool:
        """Whether the server was told to be away, and has not come back."""
        return self._unanswered >= IN_A_ROW

    async def call(self, call: Call) -> Reply:
        try:
            reply = await self._beneath.call(call)
        except Disconnected as exc:
            self._missed(exc)
            raise
        self._answered()
        return reply

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        opened = False
        try:
            async with self._beneath.stream(call) as stream:
                opened = True
                self._answered()
                yield stream
        except Disconnected as exc:
            if not opened:  # else it broke in the middle, and will be opened again
                self._missed(exc)
            raise

    async def close(self) -> None:
        await self._beneath.close()

    def _missed(self, exc: Disconnected) -> None:
        self._unanswered += 1
        if self._unanswered == IN_A_ROW:
            self._tell(f"{self._server} does not answer: {exc}; trying again until it does")

    def _answered(self) -> None:
        if self._unanswered >= IN_A_ROW:
            self._tell(f"{self._server} answers again")
        self._unanswered = 0
