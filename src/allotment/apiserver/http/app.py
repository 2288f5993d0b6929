"""The application handles every request from its head to the end of its reply.

It authenticates the sender, authorizes the request, and finds what it addresses: a resource (``resources.py``), a
discovery document, OpenAPI, health, metrics. None of that takes long. Then it reads the body, within a bound on all bodies
together. Only a complete request waits for its turn and a seat (``seats.py``). Refusals wait for their turn, too, so that
a flood of them does not slow others down. Watches are counted separately, as they stay open. All failures, including
passed deadlines, become Status objects here, in one place.

Requests come from connections (``connection.py``) and from callers in this process; both end in :meth:`App.answer` with a
:class:`Request`. In-process callers call the application itself, state their identity and are not queued. A network peer
cannot do that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sized
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, cast

import msgspec

from allotment.api.selection import SelectorError, parse_fields
from allotment.api.status import (
    InsufficientStorage,
    InternalError,
    MethodNotAllowed,
    NotFound,
    StatusError,
    Timeout,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from allotment.apiserver.auth.authentication import Authentication, Headers
from allotment.apiserver.auth.authorization import refusal
from allotment.apiserver.auth.identity import ANONYMOUS, Attributes, Authorizer, Identity
from allotment.apiserver.auth.impersonation import impersonated
from allotment.apiserver.http.browser import check_page
from allotment.apiserver.http.deadline import Deadlines
from allotment.apiserver.http.discovery import DiscoveryDocuments
from allotment.apiserver.http.holdings import BufferHoldings
from allotment.apiserver.http.metrics import Labels, ServerMetrics
from allotment.apiserver.http.negotiation import accepted
from allotment.apiserver.http.pages import Pages
from allotment.apiserver.http.paths import Paths
from allotment.apiserver.http.priority import EXEMPT, PROBES, QueuePlace, place_of, width_of
from allotment.apiserver.http.reply import Response, StreamResponse, warning_headers, whole
from allotment.apiserver.http.request import ClientGone, Request
from allotment.apiserver.http.resources import Resources, attributes_of, check_verb
from allotment.apiserver.http.route import Target, target_of
from allotment.apiserver.http.seats import Seats, too_many
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.review import Review
from allotment.apiserver.store.errors import CommitFailed, DiskFull, ObjectTooLarge, Overloaded, StoreError

log = logging.getLogger("allotment.apiserver")

MAX_WATCHES = 20_000
# bytes of bodies received but not answered yet
MAX_BODIES, MAX_BODIES_EACH = 192 * 1024 * 1024, 48 * 1024 * 1024
DEADLINE_SECONDS = (
    60.0  # seconds for an answer, from the request's head on; watches and pages have their own limits
)
SLOW_SECONDS = 1.0

_PROBES = ("/healthz", "/livez", "/readyz")

_IN_CONTAINERS = ("attach", "exec", "log", "portforward", "proxy")
_READING = ("GET", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Work = Callable[[], Awaitable[Response | StreamResponse]]
"""The rest of the work for an authorized request, once its body has arrived."""

Send = Callable[[Response | StreamResponse], Awaitable[None]]
"""Sends an answer to the client; returns when all of it has been sent."""


class App:
    """Answers requests. ``requests`` and ``watches`` count those in progress.

    ``pages`` are the pages for people, if any. ``names`` are the host names that browsers may use for this server.
    """

    def __init__(
        self,
        catalogue: ResourceCatalogue,
        resources: Resources,
        paths: Paths,
        authentication: Authentication,
        authorizer: Authorizer,
        metrics: ServerMetrics,
        names: Collection[str] = (),
    ) -> None:
        self._catalogue = catalogue
        self._resources = resources
        self._discovery = DiscoveryDocuments(catalogue)
        self._paths = paths
        self._authentication = authentication
        self._authorizer = authorizer
        self._metrics = metrics
        self._streams: set[StreamResponse] = set()
        self._ending = False
        self._names = names
        self._watches_of: dict[str, int] = {}  # by user
        self._bodies: BufferHoldings[Request] = BufferHoldings(MAX_BODIES, MAX_BODIES_EACH)
        self._bodies_of_exempt: BufferHoldings[Request] = BufferHoldings(MAX_BODIES, MAX_BODIES)
        self.seats = Seats(metrics)
        self.pages: Pages | None = None
        self.requests = 0
        self.watches = 0
        self.max_watches = MAX_WATCHES
        self.deadlines = Deadlines(DEADLINE_SECONDS)
        metrics.is_served = lambda group, version, plural: catalogue.find(group, version, plural) is not None

    async def __call__(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        state: Mapping[str, Any],
    ) -> tuple[int, Mapping[str, str], bytes | AsyncGenerator[bytes, None]]:
        """Answers a request from this process, made as ``state["identity"]``.

        Returns status, headers, and the body or the batches of a stream.

        The caller must close a stream that it does not read to its end.
        """
        sent = _as_sent(tuple(headers.items()))
        identity = state.get("identity")
        if identity is not None and not isinstance(identity, Identity):
            raise TypeError(f"the identity of a caller in process is no {type(identity).__name__}")
        request = Request(method, path, query, sent, body, identity=identity)
        answer = await self.answer(request, queued=False)
        told = {"content-type": answer.content_type.decode()}
        for name, value in answer.headers:
            told[name.decode()] = value.decode("latin-1")
        return answer.status, told, answer.lines if isinstance(answer, StreamResponse) else answer.body

    async def answer(
        self, request: Request, send: Send | None = None, *, queued: bool = True
    ) -> Response | StreamResponse:
        """Answers a request and, with ``send``, sends the answer. Failures are answers too. Raises ClientGone.

        ``queued`` is false for callers in this process; otherwise they could wait for the seats of the requests they serve.
        """
        told = _RequestRecord(request, perf_counter())
        try:
            answer = await self._in_time(request, told) if queued else await self._answered(request, told)
        except ClientGone:
            raise
        except Exception as exc:
            answer = Response.error(_as_status(exc, request))
        if isinstance(answer, StreamResponse):
            answer.lines = self._watched(answer, answer.lines, told)
            if send is not None:
                await send(answer)
            return answer
        if answer.rest is not None and send is None:
            answer.body += await whole(answer.rest, request.pause)
        if send is not None:
            await send(answer if answer.rest is None else self._in_pieces(answer, request))
        self._metrics.done(told.labels, answer.status, perf_counter() - told.begun)
        told.note(answer.status)
        return answer

    def closed_stream(self, user: str) -> None:
        """Records that a connection was closed because its reader left too much unread."""
        self._metrics.closed_streams += 1
        log.warning("closed a connection whose reader left too much unread", extra={"user": user})

    def follow_connections(self, unsent: BufferHoldings[Any], connections: Sized) -> None:
        """Adds what a listener's peers hold to the metrics."""
        self._metrics.held = lambda: (
            ("allotment_connections", "Connections that are open.", len(connections)),
            ("allotment_unsent_bytes", "Bytes that peers have not read of their replies.", unsent.total),
            (
                "allotment_body_bytes",
                "Bytes of bodies that are not answered yet.",
                self._bodies.total + self._bodies_of_exempt.total,
            ),
        )

    def end_watches(self) -> None:
        """Ends all present and future watches; their clients resume elsewhere or later."""
        self._ending = True
        for stream in list(self._streams):
            stream.end()

    # --- from the head to the answer ---

    async def _in_time(self, request: Request, told: _RequestRecord) -> Response | StreamResponse:
        """Answers the request in its turn, and within its deadline."""
        told.queued = True
        if request.flag("watch") or self._is_page(request.path):
            return await self._answered(request, told)
        asked = request.seconds("timeout") or 0.0
        task = asyncio.current_task()
        assert task is not None
        self.deadlines.begin(task)
        try:
            async with asyncio.timeout(asked) if asked > 0 else _NO_TIMEOUT:
                return await self._answered(request, told)
        except TimeoutError:
            raise _late() from None
        except asyncio.CancelledError:
            if not self.deadlines.end(task):
                raise
            task.uncancel()
            raise _late() from None
        finally:
            self.deadlines.end(task)

    async def _answered(self, request: Request, told: _RequestRecord) -> Response | StreamResponse:
        self.requests += 1
        reading = request.method in _READING
        self._metrics.reading += reading
        self._metrics.mutating += not reading
        try:
            return await self._judged_and_done(request, told)
        finally:
            self.requests -= 1
            self._metrics.reading -= reading
            self._metrics.mutating -= not reading

    async def _judged_and_done(self, request: Request, told: _RequestRecord) -> Response | StreamResponse:
        refusal = work = None
        try:
            work = self._work(request, told)
        except StatusError as exc:
            refusal = exc
        if told.queued:
            told.place = place_of(told.identity or ANONYMOUS, told.target, request.address)
            if told.place.level is not None and request.path.startswith(_PROBES):
                told.place = QueuePlace(PROBES, request.address)
            request.flow = told.place.flow
            request.pause = partial(self.seats.pause, told.place)
        if work is None:
            assert refusal is not None
            await self.seats.refuse(told.place)
            raise refusal
        if request.method not in _WITH_BODY:
            return await self._seated(work, told)
        bodies = self._bodies if told.place.level is not None else self._bodies_of_exempt
        try:
            told.width = width_of(len(await self._body(request, told.place, bodies)))
            return await self._seated(work, told)
        finally:
            bodies.drop(told.place.flow, request)

    async def _seated(self, work: Work, told: _RequestRecord) -> Response | StreamResponse:
        if told.place.level is None:
            answer = await work()
        else:
            seat = await self.seats.take(told.place, told.width)
            try:
                answer = await work()
            finally:
                self.seats.leave(seat)
        if isinstance(answer, StreamResponse):
            self._check_watches(told)
        return answer

    async def _body(self, request: Request, place: QueuePlace, bodies: BufferHoldings[Request]) -> bytes:
        """Reads the body. Raises TooManyRequests if unanswered bodies would exceed their bound."""

        def counted(size: int) -> None:
            bodies.hold(place.flow, request, size)
            if bodies.exceeds(place.flow):
                self._metrics.refused(place.level.name if place.level else "exempt", "bodies")
                raise too_many()

        return await request.body(counted=counted)

    def _check_watches(self, told: _RequestRecord) -> None:
        """Limits one user to half of all watches. Raises TooManyRequests."""
        mine = self._watches_of.get(told.user, 0)
        if self.watches >= self.max_watches or (told.place.level and mine >= self.max_watches // 2):
            self._metrics.rejected += 1
            raise too_many()

    def _in_pieces(self, answer: Response, request: Request) -> StreamResponse:
        """The pieces of a long reply, each made when the reader has room for it and it is the user's turn."""

        async def lines() -> AsyncGenerator[bytes, None]:
            yield answer.body
            answer.body = b""
            for piece in answer.rest or ():
                await request.pause()
                yield cast(bytes, piece)  # the piece may be a view of stored bytes: an exchange writes either
                del piece

        return StreamResponse(lines(), _nothing, answer.headers, answer.status, answer.content_type)

    def _work(self, request: Request, told: _RequestRecord) -> Work:
        """Handles everything about a request that does not need its body. Raises StatusError."""
        if request.peer is not None:
            check_page(request.method, request.headers, self._names)
        target = told.target = target_of(request.path)
        if target is None:
            if self.pages is not None and self._is_page(request.path):
                return self._page(self.pages, request, told)
            self._allowed_path(request, told)
            if request.method != "GET" and not _probes(request):
                raise _not_allowed()
            return partial(self._other, request)
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
            return partial(self._resources.review, request, target, verb, served, identity)
        _check_scope(served, target)
        told.labels = _labels(target, verb)  # not earlier: any invented path would become a series of its own
        if target.subresource in ("", "status"):
            check_verb(served, target, verb)
        if verb in ("list", "watch"):
            told.width = width_of(objects=self._resources.count(served))
        return partial(self._of_resource, request, target, verb, served, identity)

    async def _of_resource(
        self, request: Request, target: Target, verb: str, served: ServedResource, identity: Identity
    ) -> Response | StreamResponse:
        answer = await self._resources.answer(request, target, verb, served, identity)
        if served.deprecated:
            answer.headers += warning_headers([served.warning])
        return answer

    async def _other(self, request: Request) -> Response:
        found = self._discovery.find(request.path, accepted(request.header(b"accept")))
        if found is None:
            found = await self._paths.find(request)
        if found is None:
            raise _no_such_path()
        return found

    def _is_page(self, path: str) -> bool:
        return self.pages is not None and f"{path}/".startswith(f"{self.pages.root}/")

    def _page(self, pages: Pages, request: Request, told: _RequestRecord) -> Work:
        if request.method != "GET":
            raise _not_allowed()

        def who() -> Identity:
            attributes = Attributes(self._identity(request), "get", path=request.path)
            identity = impersonated(request.headers, attributes, self._authorizer)
            told.user, told.identity = identity.name, identity
            return identity

        with suppress(Unauthorized):  # anonymous users get the page on which to log in
            who()
        return partial(pages.answer, request, who)

    async def _watched(
        self, stream: StreamResponse, lines: AsyncGenerator[bytes, None], told: _RequestRecord
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, which is counted from the first line to the last."""
        self.watches += 1
        self._watches_of[told.user] = self._watches_of.get(told.user, 0) + 1
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
            self._watches_of[told.user] -= 1
            if not self._watches_of[told.user]:
                del self._watches_of[told.user]
            self._streams.discard(stream)
            self._metrics.watching(told.labels, -1)
            self._metrics.done(told.labels, 200, None)
            told.note(200, stays=True)

    # --- authentication and authorization ---

    def _identity(self, request: Request) -> Identity:
        """Identifies the sender. Raises Unauthorized."""
        if request.identity is not None:
            return request.identity
        return self._authentication.identify(request.headers, request.certificate)

    def _allowed(self, request: Request, target: Target, verb: str, told: _RequestRecord) -> Identity:
        fields = None
        if verb in ("list", "watch", "deletecollection") and "fieldSelector" in request.query:
            try:
                fields = parse_fields(request.query["fieldSelector"])
            except SelectorError:
                fields = None  # refused later, with a message
        attributes = attributes_of(target, verb, self._identity(request), fields)
        return self._judged(request, attributes, told)

    def _allowed_path(self, request: Request, told: _RequestRecord) -> Identity:
        verb = "get" if _probes(request) else request.method.lower()
        return self._judged(request, Attributes(self._identity(request), verb, path=request.path), told)

    def _judged(self, request: Request, attributes: Attributes, told: _RequestRecord) -> Identity:
        told.identity = attributes.identity
        if told.identity is not ANONYMOUS:
            request.judged(told.identity.name)
        identity = impersonated(request.headers, attributes, self._authorizer)
        told.user, told.identity = identity.name, identity
        if identity is not attributes.identity:
            attributes = _as(attributes, identity)
        decision = self._authorizer.decide(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)
        return identity


class _RequestRecord:
    """What metrics and logs record about a request so far."""

    __slots__ = ("begun", "identity", "labels", "place", "queued", "request", "target", "user", "width")

    def __init__(self, request: Request, begun: float) -> None:
        self.request = request
        self.begun = begun
        self.labels: Labels = _UNKNOWN
        self.user = ""
        self.identity: Identity | None = None
        self.target: Target | None = None
        self.place = EXEMPT
        self.width = 1
        self.queued = False

    def note(self, status: int, *, stays: bool = False) -> None:
        """Logs a finished request. Watches last as long as their clients like, so they do not count as slow."""
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
    """Headers in their network form. In-process callers send the same few with every call."""
    return tuple([(name.lower().encode(), value.encode()) for name, value in headers])


_NO_TIMEOUT: AbstractAsyncContextManager[object] = nullcontext()
_UNKNOWN: Labels = ("", "", "", "", "", "")


def _as(attributes: Attributes, identity: Identity) -> Attributes:
    return msgspec.structs.replace(attributes, identity=identity)


def _probes(request: Request) -> bool:
    """Whether the request is a plain health check without details. Who may read the details may do that too."""
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


def _check_scope(served: ServedResource, target: Target) -> None:
    """Refuses a namespace in the path of a cluster-scoped kind; for namespaces it is their own name."""
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


def _late() -> Timeout:
    return Timeout("Timeout: request did not complete within the allotted timeout", {})


def _nothing() -> None:
    """Does nothing: a reply in pieces ends by itself."""


def _as_status(exc: Exception, request: Request) -> StatusError:
    """The Status for a failure. An unexpected failure is logged in full, but its Status gives no details."""
    if isinstance(exc, StatusError):
        return exc
    if isinstance(exc, Overloaded):
        return too_many()
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
