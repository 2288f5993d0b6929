"""The interface for pages that people look at: their handler gets all requests below one path, and checks rights itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.http.reply import Response, StreamResponse
from allotment.apiserver.http.request import Request

Who = Callable[[], Identity]
"""Identifies the sender, again at each call: a token may expire during a stream. Raises Unauthorized or Forbidden."""


class Pages(Protocol):
    """Handles GET requests for ``root`` and all paths below it, before authentication, so that a page can ask for a login."""

    root: str

    async def answer(self, request: Request, who: Who) -> Response | StreamResponse: ...
