"""A transport that reports when the server goes away and when it comes back, each once, however many callers wait.

Every user of a transport retries by itself, so an outage shows up in many places many times. This transport, which all
calls pass through, reports it once. A single call without an answer is not an outage, since the server may be slow for
it. An outage is several such calls in a row, with no answer to any other call in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport

IN_A_ROW = 3


class OutageTeller:
    """Passes calls on to ``beneath``; calls ``tell`` with a sentence about ``server``."""

    def __init__(self, beneath: Transport, server: str, tell: Callable[[str], None]) -> None:
        self._beneath = beneath
        self._server = server
        self._tell = tell
        self._unanswered = 0  # unanswered calls in a row

    @property
    def away(self) -> bool:
        """Whether the server was reported away and has not come back."""
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
            if not opened:  # else the stream broke in the middle, and the caller will open it again
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
