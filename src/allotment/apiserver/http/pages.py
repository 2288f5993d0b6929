"""A place for pages that people look at: whoever serves them gets the requests below one path, and says who may see what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.http.reply import Response, StreamResponse
from allotment.apiserver.http.request import Request

Who = Callable[[], Identity]
"""Who sends a request, found out anew at each call: a token may end while a stream goes on. Raises Unauthorized or Forbidden."""


class Pages(Protocol):
    """Requests with GET for ``root`` and all below it. Nobody has been asked who they are, so that a page can ask."""

    root: str

    async def answer(self, request: Request, who: Who) -> Response | StreamResponse: ...
