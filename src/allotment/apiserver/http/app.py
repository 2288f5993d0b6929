"""The application: every request from its first byte to the end of its reply.

Who asks is found out first, then whether they may, then what they want: a resource (``resources.py``), a discovery
document, OpenAPI, health, metrics. All failures become Status objects here, once. Requests beyond a number are refused
with 429; watches are counted apart, as they stay. Large reads are refused, too, while readers leave too much with us unread.

Two ways lead here, and meet in :meth:`App.answer` with a :class:`Request`: connections (``connection.py``), and callers in this
process, who call the application itself and say who they are. A network peer has no way to do that.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from time import perf_counter
from typing import Any

import msgspec

from allotment.api.selection import SelectorError, parse_fields
from allotment.api.status import (
    InsufficientStorage,
    InternalError,
    MethodNotAllowed,
    NotFound,
    StatusError,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from allotment.apiserver.auth.authentication import Authentication, Headers
from allotment.apiserver.auth.authorization import refusal
from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity
from allotment.apiserver.auth.impersonation import impersonated
from allotment.apiserver.http.discovery import Discovery
from allotment.apiserver.http.metrics import Labels, Metrics
from allotment.apiserver.http.negotiation import accepted
from allotment.apiserver.http.pages import Pages
from allotment.apiserver.http.paths import Paths
from allotment.apiserver.http.reply import Reply, Stream, warning_headers
from allotment.apiserver.http.request import Disconnected, Request
from allotment.apiserver.http.resources import Resources, attributes_of
from allotment.apiserver.http.route import Target, target_of
from allotment.apiserver.registry.catalogue import Catalogue, Served
from allotment.apiserver.registry.review import Review
from allotment.apiserver.store.errors import CommitFailed, DiskFull, ObjectTooLarge, Overloaded, StoreError

log = logging.getLogger("allotment.apiserver")

MAX_REQUESTS = 600
MAX_WATCHES = 20_000
MAX_UNSENT = 256 * 1024 * 1024  # bytes of replies that their readers have not taken yet
LARGE = 64 * 1024  # a reply that is refused when there is too much unsent
SLOW_SECONDS = 1.0

_PROBES = ("/healthz", "/livez", "/readyz")
"""Answered however busy the server is: whoever asks would otherwise take it for dead."""

_IN_CONTAINERS = ("attach", "exec", "log", "portforward", "proxy")
_READING = ("GET", "HEAD", "OPTIONS")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Send = Callable[[Reply | Stream], Awaitable[None]]
"""How an answer gets to whoever asked; returns when all of it has."""


class App:
    """Answers requests. ``requests`` and ``watches`` count those under way, ``unsent`` the bytes of replies on their way.
    ``pages`` are for people; without them there are none."""

    def __init__(
        self,
        catalogue: Catalogue,
        resources: Resources,
        paths: Paths,
        authentication: Authentication,
        authorizer: Authorizer,
        metrics: Metrics,
    ) -> None:
        self._catalogue = catalogue
        self._resources = resources
        self._discovery = Discovery(catalogue)
        self._paths = paths
        self._authentication = authentication
        self._authorizer = authorizer
        self._metrics = metrics
        self._streams: set[Stream] = set()
        self._ending = False
        self.pages: Pages | None = None
        self.requests = 0
        self.watches = 0
        self.max_requests = MAX_REQUESTS
        self.max_watches = MAX_WATCHES
        self.unsent = 0
        self.max_unsent = MAX_UNSENT

    async def __call__(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        state: Mapping[str, Any],
    ) -> tuple[int, Mapping[str, str], bytes | AsyncGenerator[bytes, None]]:
        """A request from this process, by ``state["identity"]``: status, headers, and the body or the batches of a stream.

        The caller closes a stream that it does not read to its end.
        """
        sent = _as_sent(tuple(headers.items()))
        identity = state.get("identity")
        if identity is not None and not isinstance(identity, Identity):
            raise TypeError(f"the identity of a caller in process is no {type(identity).__name__}")
        answer = await self.answer(Request(method, path, query, sent, body, identity=identity))
        told = {"content-type": answer.content_type.decode()}
        for name, value in answer.headers:
            told[name.decode()] = value.decode("latin-1")
        return answer.status, told, answer.lines if isinstance(answer, Stream) else answer.body

    async def answer(self, request: Request, send: Send | None = None) -> Reply | Stream:
        """The answer to a request, sent where that is asked for; failures are answers, too. Raises Disconnected."""
        begun = perf_counter()
        told = _Told(request, begun)
        try:
            answer = await self._answered(request, told)
        except Disconnected:
            raise
        except Exception as exc:
            answer = Reply.error(_as_status(exc, request))
        if isinstance(answer, Stream):
            answer.lines = self._watched(answer, answer.lines, told)
            if send is not None:
                await send(answer)
            return answer
        if request.method == "GET" and self.unsent > self.max_unsent and len(answer.body) > LARGE:
            self._metrics.rejected += 1
            answer = Reply.error(_too_many())
        if send is not None:
            self.unsent += len(answer.body)
            try:
                await send(answer)
            finally:
                self.unsent -= len(answer.body)
        self._metrics.done(told.labels, answer.status, perf_counter() - begun)
        told.note(answer.status)
        return answer

    def end_watches(self) -> None:
        """Ends every watch where it stands, and those to come; their clients go on from there elsewhere or later."""
        self._ending = True
        for stream in list(self._streams):
            stream.end()

    async def _answered(self, request: Request, told: _Told) -> Reply | Stream:
        if self.requests >= self.max_requests and not request.path.startswith(_PROBES):
            self._metrics.rejected += 1
            raise _too_many()
        self.requests += 1
        reading = request.method in _READING
        self._metrics.reading += reading
        self._metrics.mutating += not reading
        try:
            answer = await self._route(request, told)
            if isinstance(answer, Stream) and self.watches >= self.max_watches:
                self._metrics.rejected += 1
                raise _too_many()
            return answer
        finally:
            self.requests -= 1
            self._metrics.reading -= reading
            self._metrics.mutating -= not reading

    async def _route(self, request: Request, told: _Told) -> Reply | Stream:
        target = target_of(request.path)
        if target is None:
            if self.pages is not None and f"{request.path}/".startswith(f"{self.pages.root}/"):
                return await self._page(self.pages, request, told)
            self._allowed_path(request, told)
            return await self._other(request)
        verb = _verb(request, target)
        identity = self._allowed(request, target, verb, told)
        served = self._catalogue.find(target.group, target.version, target.plural)
        if request.method not in _METHODS:
            raise _not_allowed()
        if served is None:
            raise _no_such_path()
        if isinstance(served, Review):
            if target.name:
                raise _not_allowed()
            told.labels = _labels(target, verb)
            return await self._resources.review(request, target, verb, served, identity)
        _check_scope(served, target)
        told.labels = _labels(
            target, verb
        )  # not before: whatever a path says would become a series of its own
        answer = await self._resources.answer(request, target, verb, served, identity)
        if served.deprecated:
            answer.headers += warning_headers([served.warning])
        return answer

    async def _other(self, request: Request) -> Reply:
        if request.method != "GET" and not _probes(request):
            raise _not_allowed()
        found = self._discovery.find(request.path, accepted(request.header(b"accept")))
        if found is None:
            found = await self._paths.find(request)
        if found is None:
            raise _no_such_path()
        return found

    async def _page(self, pages: Pages, request: Request, told: _Told) -> Reply | Stream:
        if request.method != "GET":
            raise _not_allowed()

        def who() -> Identity:
            attributes = Attributes(self._identity(request), "get", path=request.path)
            identity = impersonated(request.headers, attributes, self._authorizer)
            told.user = identity.name
            return identity

        return await pages.answer(request, who)

    async def _watched(
        self, stream: Stream, lines: AsyncGenerator[bytes, None], told: _Told
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, which counts from the first to the last."""
        self.watches += 1
        self._streams.add(stream)
        self._metrics.watching(told.labels, 1)
        if self._ending:
            stream.end()
        try:
            async with aclosing(lines):
                async for batch in lines:
                    yield batch
        finally:
            self.watches -= 1
            self._streams.discard(stream)
            self._metrics.watching(told.labels, -1)
            self._metrics.done(told.labels, 200, None)
            told.note(200, stays=True)

    # --- who, and may they ---

    def _identity(self, request: Request) -> Identity:
        if request.identity is not None:
            return request.identity
        return self._authentication.identify(request.headers, request.certificate)

    def _allowed(self, request: Request, target: Target, verb: str, told: _Told) -> Identity:
        fields = None
        if verb in ("list", "watch", "deletecollection") and "fieldSelector" in request.query:
            try:
                fields = parse_fields(request.query["fieldSelector"])
            except SelectorError:
                fields = None  # refused later, with a message
        attributes = attributes_of(target, verb, self._identity(request), fields)
        return self._judged(request, attributes, told)

    def _allowed_path(self, request: Request, told: _Told) -> Identity:
        verb = "get" if _probes(request) else request.method.lower()
        return self._judged(request, Attributes(self._identity(request), verb, path=request.path), told)

    def _judged(self, request: Request, attributes: Attributes, told: _Told) -> Identity:
        identity = impersonated(request.headers, attributes, self._authorizer)
        told.user = identity.name
        if identity is not attributes.identity:
            attributes = _as(attributes, identity)
        decision = self._authorizer.decide(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)
        return identity


class _Told:
    """What is known of a request for metrics and logs, as far as it has come."""

    __slots__ = ("begun", "labels", "request", "user")

    def __init__(self, request: Request, begun: float) -> None:
        self.request = request
        self.begun = begun
        self.labels: Labels = _UNKNOWN
        self.user = ""

    def note(self, status: int, *, stays: bool = False) -> None:
        """Logs a request that is over. A watch stays as long as its client likes, which is not slow."""
        seconds = perf_counter() - self.begun
        failed, slow = status >= 500, seconds > SLOW_SECONDS and not stays
        level = logging.WARNING if failed or slow else logging.INFO
        if not log.isEnabledFor(level):
            return
        how = "failed" if failed else "slow" if slow else "answered"
        log.log(
            level,
            "watch ended" if stays else f"request {how}",
            extra={
                "method": self.request.method,
                "path": self.request.path,
                "user": self.user,
                "status": status,
                "seconds": round(seconds, 3),
            },
        )


@lru_cache(100)
def _as_sent(headers: tuple[tuple[str, str], ...]) -> Headers:
    """Headers as they come over a network. Callers in process send the same few, call for call."""
    return tuple([(name.lower().encode(), value.encode()) for name, value in headers])


_UNKNOWN: Labels = ("", "", "", "", "", "")


def _as(attributes: Attributes, identity: Identity) -> Attributes:
    return msgspec.structs.replace(attributes, identity=identity)


def _probes(request: Request) -> bool:
    """Whether somebody only asks how the server is, without the words: whoever may have the words may do that."""
    return request.method == "HEAD" and request.path.startswith(_PROBES)


def _verb(request: Request, target: Target) -> str:
    method = request.method
    if method in ("GET", "HEAD"):
        if target.name:
            return "get"
        return "watch" if request.flag("watch") else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return _VERBS.get(method, method.lower())


def _check_scope(served: Served, target: Target) -> None:
    """A namespace in the path of a cluster-scoped kind names nothing; of namespaces it is their own name."""
    resource = served.resource
    itself = resource.id == "namespaces" and target.name == target.namespace
    if target.namespace and not resource.namespaced and not itself:
        raise _no_such_path()
    sub = target.subresource
    if sub and not (
        (sub == "status" and resource.status) or sub in resource.actions or sub in resource.views
    ):
        if resource.id == "pods" and sub in _IN_CONTAINERS:
            raise NotFound(f"pods/{sub} is not served: Allotment keeps pods but runs no containers")
        raise _no_such_path()


def _labels(target: Target, verb: str) -> Labels:
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    return (verb.upper(), target.group, target.version, target.plural, target.subresource, scope)


def _no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource")


def _not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def _too_many() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", {"retryAfterSeconds": 1})


def _as_status(exc: Exception, request: Request) -> StatusError:
    """What a client is told of a failure. What nobody expected is logged whole and told in a word."""
    if isinstance(exc, StatusError):
        return exc
    if isinstance(exc, Overloaded):
        return _too_many()
    if isinstance(exc, ObjectTooLarge):
        return TooLarge(f"Request entity too large: {exc}")
    if isinstance(exc, DiskFull):
        return InsufficientStorage(str(exc))
    if isinstance(exc, CommitFailed):
        return InternalError(f"Internal error occurred: {exc}")
    if isinstance(exc, StoreError):
        return Unavailable(f"the server is shutting down: {exc}")
    log.exception("request failed: %s %s", request.method, request.path)
    return InternalError(f"Internal error occurred: {type(exc).__name__}")
