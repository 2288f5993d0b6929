"""Requests to resources: turns a verb on a path into a call of the registry, and the result into a reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, TypeVar

from allotment.api.patch_type import PatchType
from allotment.api.schema.schema import schema_of
from allotment.api.status import BadRequest, MethodNotAllowed, UnsupportedMediaType, conflict
from allotment.apiserver.allowance import TooMuchAtOnce, at_once
from allotment.apiserver.auth.authorization import refusal
from allotment.apiserver.auth.identity import Attributes, Authorizer, Identity
from allotment.apiserver.http.heavy import HeavyWork
from allotment.apiserver.http.negotiation import Accepted, choose
from allotment.apiserver.http.options import call_of, list_options
from allotment.apiserver.http.reply import (
    Response,
    StreamResponse,
    as_yaml,
    encode,
    pretty,
    status_of,
    warning_headers,
    whole,
)
from allotment.apiserver.http.request import (
    JSON,
    Body,
    NotJson,
    Peer,
    Request,
    check_values,
    decode_json,
    decode_yaml,
)
from allotment.apiserver.http.route import Target
from allotment.apiserver.registry.body import accepted, accepted_as
from allotment.apiserver.registry.call import FieldValidation, WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.deletion import (
    DeleteOptions,
    delete_options,
    replies_with_object,
    success,
)
from allotment.apiserver.registry.forms import (
    OBJECTS_PER_PIECE,
    PIECE_BYTES,
    Metadata,
    Page,
    ResponseForm,
    StoredForm,
    Table,
    plain,
)
from allotment.apiserver.registry.patches import faults_of
from allotment.apiserver.registry.reads import ListOptions
from allotment.apiserver.registry.registry import Registry
from allotment.apiserver.registry.resource import SubresourceView
from allotment.apiserver.registry.review import Review, ReviewCall
from allotment.apiserver.registry.selection import Selection
from allotment.apiserver.registry.table import IncludeObject
from allotment.apiserver.registry.watches import Watching
from allotment.apiserver.registry.writes import Prepared
from allotment.apiserver.store.record import Key, Obj, Record

T = TypeVar("T")
_plain = lru_cache(1000)(plain)
"""The form of a kind is made once, like the kind."""

_PATCH_TYPES = {type_.value: type_ for type_ in PatchType}
_NO_STRATEGIC = (
    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
    "application/merge-patch+json, application/apply-patch+yaml"
)
"""Patch types for custom kinds, which have no strategic merge patch."""
LARGE_BODY = 32 * 1024
"""The most bytes of a body, and of the object that it changes, to process on the event loop; a thread takes larger ones."""
THREADS = 2
"""Threads that convert large bodies to and from forms other than JSON; few, so that others get most of the processor."""
ATTEMPTS = 5
"""To prepare a large write that others overtake."""
MAX_REWRITTEN = 4 * 1024 * 1024
"""Bytes of objects whose list is put into another form as a whole: more than the largest object has."""
_PRETTY_AGENTS = ("curl/", "Wget/", "Mozilla/")


MAX_REVIEW = 256 * 1024
"""The most bytes of a review, which is answered on the event loop, as nothing is stored: thousands of groups fit."""


class Resources:
    """Answers requests to stored kinds and reviews. ``now`` gives RFC 3339 time, ``clock`` seconds."""

    def __init__(
        self, registry: Registry, authorizer: Authorizer, now: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._now = now
        self._clock = clock
        self._forms = HeavyWork(THREADS)
        # threads share one interpreter with the loop: two of them would take two thirds of it
        self._heavy = HeavyWork(1)

    def count(self, served: ServedResource) -> int:
        """How many objects of a kind exist."""
        return self._registry.store.count(served.resource.id)

    async def answer(
        self, request: Request, target: Target, verb: str, served: ServedResource, identity: Identity
    ) -> Response | StreamResponse:
        """The reply to an authorized request whose verb the kind supports (``check_verb``). Raises StatusError."""
        if target.subresource and target.subresource != "status":
            return await self._subresource(request, target, verb, served, identity)
        if verb == "get":
            return await self._get(request, target, served)
        if verb in ("list", "watch"):
            return await self._collection(request, target, served, verb == "watch")
        if verb == "delete":
            return await self._delete(request, target, served, identity)
        if verb == "deletecollection":
            return await self._delete_all(request, target, served, identity)
        form, wanted = self._form(request, served)
        raw = await request.body()
        written, call = await self._written(
            request,
            lambda: self._prepared(request, raw, target, verb, served, identity),
            target,
            verb,
            served,
        )
        record = await written.record()
        status = 201 if written.created else 200
        return await self._reply(request, await self._one(request, form, record), wanted, status, call)

    def _prepared(
        self,
        request: Request,
        raw: bytes,
        target: Target,
        verb: str,
        served: ServedResource,
        identity: Identity,
    ) -> Prepared:
        """Prepares and checks the write that a request wants. Raises StatusError."""
        registry, namespace, name, subresource = (
            self._registry,
            target.namespace,
            target.name,
            target.subresource,
        )
        if verb == "patch":
            type_ = _patch_type(request, served)
            apply = type_ is PatchType.APPLY
            call = call_of(request, identity, self._now(), verb, apply)
            faults: list[str] = []
            if apply:
                patch = decode_yaml(raw)
                check_values(patch, raw)
                self._require_create(served, target, identity)
            else:
                patch = _patch_of(raw)
                if call.field_validation is not FieldValidation.IGNORE:
                    faults = faults_of(type_, raw, patch)
            return registry.patches.prepare(served, namespace, name, type_, patch, call, subresource, faults)
        call = call_of(request, identity, self._now(), verb)
        body = _body(request, raw, served.resource.kind)
        # custom kinds are read without a schema here
        of_ours = None if served.resource.readers else served.schema
        obj = accepted(served, body.value, body.duplicates(of_ours), call)
        if verb == "create":
            return registry.writes.prepare_create(served, namespace, obj, call)
        if served.resource.create_on_update:
            self._require_create(served, target, identity)
        return registry.writes.prepare_update(served, namespace, name, obj, call, subresource)

    async def _written(
        self,
        request: Request,
        prepare: Callable[[], Prepared],
        target: Target,
        verb: str,
        served: ServedResource,
    ) -> tuple[Written, WriteContext]:
        """Does a write.

        A thread prepares a write that is large or turns out to be much work, and starts again if others changed the object.
        """
        writes, raw = self._registry.writes, await request.body()
        record = self._registry.store.head(served.key(target.namespace, target.name)) if target.name else None
        if len(raw) + (len(record.data) if record is not None else 0) <= LARGE_BODY:
            with suppress(TooMuchAtOnce):
                with at_once():
                    prepared = prepare()
                return writes.commit(prepared), prepared.call
        for _ in range(ATTEMPTS):
            prepared = await self._heavy.run(request.flow, prepare)
            if writes.stands(prepared) or verb == "create":
                return writes.commit(prepared), prepared.call
        raise conflict(served.resource.plural, target.name, served.group)

    async def review(
        self, request: Request, target: Target, verb: str, review: Review, identity: Identity
    ) -> Response:
        """Answers a review, which is not stored."""
        if verb != "create":
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        call = call_of(request, identity, self._now(), verb)
        raw, schema = await request.body(MAX_REVIEW), schema_of(review.api_version, review.kind)

        def read() -> Obj:
            body = _body(request, raw, review.kind)
            duplicates = body.duplicates(schema)
            return accepted_as(review.api_version, review.kind, schema, body.value, duplicates, call)

        sent = await self._aside(request, len(raw), read)
        answered = review.run(sent, ReviewCall(identity, target.namespace, call.now))
        return await self._reply(request, encode(answered), choose(request.header(b"accept")), 201, call)

    # --- reading ---

    async def _get(self, request: Request, target: Target, served: ServedResource) -> Response:
        form, wanted = self._form(request, served)
        version = request.query.get("resourceVersion", "")
        record = self._registry.reads.get(served, target.namespace, target.name, version)
        return await self._reply(request, await self._one(request, form, record), wanted)

    async def _one(self, request: Request, form: ResponseForm, record: Record) -> bytes:
        if type(form) is StoredForm:
            return form.one(record)  # as it is stored
        return await self._aside(request, len(record.data), lambda: form.one(record))

    async def _collection(
        self, request: Request, target: Target, served: ServedResource, watch: bool
    ) -> Response | StreamResponse:
        form, wanted = self._form(request, served)
        options = list_options(request, served, watch)
        if watch:
            reads, namespace = self._registry.reads, target.namespace
            watching = Watching(reads, served, namespace, options, form, self._clock, request.pause)
            if watching.from_state:
                await self._read_ahead(request, served, namespace, options.of_state())
            return StreamResponse(_until_gone(watching, request.peer), watching.close)
        await self._read_ahead(request, served, target.namespace, options)
        page = self._registry.reads.list(served, target.namespace, options)
        return await self._list(request, page, form, wanted)

    async def _read_ahead(
        self, request: Request, served: ServedResource, namespace: str, options: ListOptions
    ) -> None:
        """Decodes the objects that a selector tests, group by group, before the selected ones are taken in one step."""
        selection = options.selection
        for group in self._registry.reads.unread(served, namespace, options):
            largest = max(len(record.data) for record in group)
            await self._aside(request, largest, partial(_match_all, selection, group))
            await request.pause()

    def _form(self, request: Request, served: ServedResource) -> tuple[ResponseForm, Accepted]:
        wanted = choose(request.header(b"accept"))
        if not wanted.transform:
            return _plain(served), wanted
        if wanted.transform != "Table":
            return Metadata(wanted.version), wanted
        include = request.query.get("includeObject", "") or "Metadata"
        try:
            what = IncludeObject(include)
        except ValueError as exc:
            raise BadRequest(f'unrecognized includeObject value: "{include}"') from exc
        return Table(served, wanted.version, what, self._now), wanted

    async def _list(
        self,
        request: Request,
        page: Page,
        form: ResponseForm,
        wanted: Accepted,
        call: WriteContext | None = None,
    ) -> Response:
        """A list is made as it is sent, unless it has to be whole to be put into another form. A long one is not, as that would
        take everybody's time: it is sent as JSON without line breaks, whatever was asked for, which readers of YAML read as well."""
        pieces = form.many(page)
        if (wanted.media_type != JSON or _pretty(request)) and _is_short(page):
            return await self._reply(request, await whole(pieces, request.pause), wanted, 200, call)
        reply = Response.made(pieces)
        if call is not None:
            reply.headers += warning_headers(call.warnings)
        return reply

    async def _reply(
        self,
        request: Request,
        body: bytes,
        wanted: Accepted,
        status: int = 200,
        call: WriteContext | None = None,
    ) -> Response:
        headers = warning_headers(call.warnings) if call is not None and call.warnings else []
        if wanted.media_type != JSON:
            body = await self._aside(request, len(body), partial(as_yaml, body))
        elif _pretty(request):
            body = pretty(body)
        return Response(status, body, wanted.media_type.encode(), headers)

    async def _aside(self, request: Request, size: int, work: Callable[[], T]) -> T:
        """Converts a body or an object; a thread does it if it is large or much work, while the loop serves others."""
        if size <= LARGE_BODY:
            with suppress(TooMuchAtOnce), at_once():
                return work()
        return await self._forms.run(request.flow, work)

    async def _at_hand(self, request: Request, served: ServedResource, key: Key, work: Callable[[], T]) -> T:
        """Works on the present state of one object in one step; before that, a thread decodes a large one, repeatedly if needed."""
        store = self._registry.store
        for _ in range(ATTEMPTS):
            record = store.head(key)
            if record is None or len(record.data) <= LARGE_BODY:
                return work()
            obj = await self._heavy.run(request.flow, record.load)
            if store.head(key) is record:
                with record.decoded(obj):
                    return work()
        raise conflict(served.resource.plural, key.name, served.group)

    # --- patches ---

    def _require_create(self, served: ServedResource, target: Target, identity: Identity) -> None:
        """A write that creates a missing object needs the right to create it, besides the right for its own verb."""
        if self._registry.store.head(served.key(target.namespace, target.name)) is not None:
            return
        attributes = attributes_of(target, "create", identity)
        decision = self._authorizer.decide(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)

    # --- deleting ---

    async def _delete(
        self, request: Request, target: Target, served: ServedResource, identity: Identity
    ) -> Response:
        form, wanted = self._form(request, served)
        options, call = await self._delete_call(request, identity, "delete")
        where = served, target.namespace, target.name
        delete = partial(self._registry.deletion.delete, *where, options, call)
        written = await self._at_hand(request, served, served.key(*where[1:]), delete)
        record = await written.record()
        if written.gone is not None and not replies_with_object(served):
            return await self._reply(request, encode(success(served, written.gone)), wanted, 200, call)
        return await self._reply(request, await self._one(request, form, record), wanted, 200, call)

    async def _delete_all(
        self, request: Request, target: Target, served: ServedResource, identity: Identity
    ) -> Response:
        form, wanted = self._form(request, served)
        selected = list_options(request, served, False)
        options, call = await self._delete_call(request, identity, "deletecollection")
        await self._read_ahead(request, served, target.namespace, selected)
        page = self._registry.reads.list(served, target.namespace, selected)
        written: list[Written] = []
        done = 0
        for record in page.records:
            delete = partial(self._registry.deletion.delete_all, served, (record,), options, call)
            written += await self._at_hand(request, served, record.key, delete)
            done += max(len(record.data), PIECE_BYTES // OBJECTS_PER_PIECE)
            if done >= PIECE_BYTES:
                await asyncio.sleep(0)
                done = 0
        records: list[Record] = list(await asyncio.gather(*(each.record() for each in written)))
        deleted = Page(records, self._registry.store.revision, page.token, page.remaining)
        return await self._list(request, deleted, form, wanted, call)

    async def _delete_call(
        self, request: Request, identity: Identity, verb: str
    ) -> tuple[DeleteOptions, WriteContext]:
        raw = await request.body()
        asked: dict[str, Any] = {}
        if raw:
            value = (await self._aside(request, len(raw), lambda: _body(request, raw, "DeleteOptions"))).value
            if not isinstance(value, dict):
                raise BadRequest("the body of a DELETE must be DeleteOptions")
            asked = {name: field for name, field in value.items() if field is not None}
        else:
            for name in ("propagationPolicy",):
                if name in request.query:
                    asked[name] = request.query[name]
            if (grace := request.number("gracePeriodSeconds")) is not None:
                asked["gracePeriodSeconds"] = grace
            if (orphan := request.flag("orphanDependents")) is not None:
                asked["orphanDependents"] = orphan
        if "dryRun" in request.query and not asked.get("dryRun"):
            asked["dryRun"] = [request.query["dryRun"]]
        options = delete_options(asked)
        return options, WriteContext(identity, self._now(), dry_run=bool(options.dry_run), verb=verb)

    # --- subresources ---

    async def _subresource(
        self, request: Request, target: Target, verb: str, served: ServedResource, identity: Identity
    ) -> Response:
        name, resource, actions = target.subresource, served.resource, self._registry.actions
        where = (served, target.namespace, target.name)
        wanted = choose(request.header(b"accept"))
        action, view = resource.actions.get(name), resource.views.get(name)
        if action is not None and verb == "create":
            call = call_of(request, identity, self._now(), verb)
            raw = await request.body()
            sent = await self._aside(
                request,
                len(raw),
                lambda: actions.sent(target.name, action, _body(request, raw, action.kind).value, call),
            )
            run = partial(actions.run, *where, name, action, sent, call)
            written = await self._at_hand(request, served, served.key(*where[1:]), run)
            await written.record()
            reply = written.reply or {}
            status = status_of(reply)
            return await self._reply(request, encode(reply), wanted, 201 if status == 200 else status, call)
        if view is None or verb not in view.verbs:
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if verb == "get":
            record = self._registry.reads.get(*where)
            shown = await self._aside(
                request, len(record.data), lambda: encode(actions.read(served, record, view))
            )
            return await self._reply(request, shown, wanted)
        raw = await request.body()
        written, call = await self._written(
            request,
            lambda: self._view_change(request, raw, target, verb, served, view, identity),
            target,
            verb,
            served,
        )
        stored = await written.record()
        changed = await self._aside(request, len(stored.data), lambda: encode(view.read(stored.load())))
        return await self._reply(request, changed, wanted, 200, call)

    def _view_change(
        self,
        request: Request,
        raw: bytes,
        target: Target,
        verb: str,
        served: ServedResource,
        view: SubresourceView,
        identity: Identity,
    ) -> Prepared:
        """Prepares and checks a change through a view of an object. Raises StatusError."""
        where = (served, target.namespace, target.name, target.subresource, view)
        actions = self._registry.actions
        call = call_of(request, identity, self._now(), verb)
        if verb == "update":
            body = _body(request, raw, view.kind)
            return actions.prepare_replace(*where, body.value, call)
        type_ = _patch_type(request, served)
        if type_ is PatchType.APPLY:
            raise MethodNotAllowed("server-side apply is not supported on this subresource")
        return actions.prepare_patch(*where, type_, _patch_of(raw), call)


def attributes_of(target: Target, verb: str, identity: Identity, fields: Any = None) -> Attributes:
    """A request to a resource as authorization sees it."""
    name = target.name
    selected: tuple[tuple[str, str], ...] = ()
    if fields is not None:
        name = name or fields.exactly("metadata.name") or ""
        selected = fields.equalities()
    return Attributes(
        identity,
        verb,
        target.group,
        target.version,
        target.plural,
        target.subresource,
        target.namespace,
        name,
        fields=selected,
    )


def _is_short(page: Page) -> bool:
    left = MAX_REWRITTEN
    for record in page.records:
        left -= len(record.data)
        if left < 0:
            return False
    return True


def _match_all(selection: Selection, records: Iterable[Record]) -> None:
    for record in records:
        selection.matches(record)


def _patch_type(request: Request, served: ServedResource) -> PatchType:
    type_ = _PATCH_TYPES.get(request.content_type)
    if type_ is PatchType.STRATEGIC and served.resource.schemas:
        raise UnsupportedMediaType(_NO_STRATEGIC)
    if type_ is None:
        raise UnsupportedMediaType("415: Unsupported Media Type")
    return type_


def _body(request: Request, raw: bytes, kind: str) -> Body:
    """Decodes a body; ``kind`` is the expected kind. Raises StatusError."""
    body = Body(raw, request.content_type, kind)
    check_values(body.value, raw)
    return body


def _patch_of(raw: bytes) -> Any:
    try:
        patch = decode_json(raw)
    except NotJson as exc:
        raise BadRequest("invalid JSON patch") from exc
    check_values(patch, raw)
    return patch


def check_verb(served: ServedResource, target: Target, verb: str) -> None:
    """Raises MethodNotAllowed for verbs that a kind, or its status, does not support."""
    resource = served.resource
    allowed = verb in resource.verbs
    if target.subresource == "status":
        allowed = resource.status and verb in ("get", "update", "patch")
    elif resource.namespaced and not target.namespace:
        allowed = allowed and verb in ("list", "watch")
    if (verb == "create" and target.name) or (verb in ("update", "patch") and not target.name):
        allowed = False
    if not allowed:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


async def _until_gone(watching: Watching, peer: Peer | None) -> AsyncGenerator[bytes, None]:
    """The lines of a watch until its client is gone, even if nothing happens. In-process clients close the stream."""
    gone = None
    if peer is not None:
        gone = asyncio.ensure_future(peer.gone())
        gone.add_done_callback(lambda _: watching.close())
    try:
        async for batch in watching.lines():
            yield batch
    finally:
        watching.close()
        if gone is not None:
            gone.cancel()


def _pretty(request: Request) -> bool:
    flag = request.flag("pretty")
    if flag is not None:
        return flag
    return request.header(b"user-agent").startswith(_PRETTY_AGENTS)
