"""Reads one object, or a page of a list, from the durable state.

All pages of a list show the revision of the first page: the continue token carries that revision, and the key after which
to continue. When the revision is compacted, the reply is 410 with a token that continues at the newest state. Tokens,
checks and messages are Kubernetes'.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import BadRequest, Expired, Timeout, invalid, not_found
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.forms import OBJECTS_PER_PIECE, Page, runs
from allotment.apiserver.registry.selection import Selection
from allotment.apiserver.store.errors import Compacted
from allotment.apiserver.store.record import Record
from allotment.apiserver.store.store import Store

_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_NEWEST = -1  # in a token: go on at the newest state
_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or watch in the query."""

    selection: Selection
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None

    def of_state(self) -> ListOptions:
        """The options for a list of all existing objects, with which a watch begins."""
        return replace(self, resource_version="", match="", limit=0, token="")

    def check(self) -> None:
        """Raises Invalid for options that do not go together."""
        errors = list(_watch_errors(self) if self.watch else _list_errors(self))
        if errors:
            raise invalid("ListOptions", "", errors, "meta.k8s.io")


class _Token(msgspec.Struct, frozen=True):
    v: str = ""
    rv: int = 0
    start: str = ""


class Reads:
    """Reads the durable state."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, served: ServedResource, namespace: str, name: str, resource_version: str = "") -> Record:
        """One object. Raises NotFound."""
        if resource_version:
            self.check_reached(revision_of(resource_version))
        record = self.store.get(served.key(namespace, name))
        if record is None:
            raise not_found(served.resource.plural, name, served.group)
        return record

    def list(self, served: ServedResource, namespace: str, options: ListOptions) -> Page:
        """A page of the selected objects, by namespace and name. Raises StatusError."""
        records, revision, start = self._candidates(served, namespace, options)
        return _page(records, revision, namespace, start, options)

    def unread(
        self, served: ServedResource, namespace: str, options: ListOptions
    ) -> Iterator[Sequence[Record]]:
        """What :meth:`list` would decode to see whether it is meant, in groups that are short work. Raises StatusError.

        It is decoded once only: whoever has had the selection match them all has a list that is short work too."""
        if not options.selection:
            return
        records, _, _ = self._candidates(served, namespace, options)
        yield from runs([record for record in records if options.selection.reads(record)], OBJECTS_PER_PIECE)

    def _candidates(
        self, served: ServedResource, namespace: str, options: ListOptions
    ) -> tuple[Sequence[Record], int, str]:
        """Of which a list is made; the revision at which, and the place after which it begins. Raises StatusError."""
        resource = served.resource.id
        start = ""
        revision = self.store.revision
        records: Sequence[Record]
        if options.token:
            if options.resource_version and options.resource_version != "0":
                raise BadRequest("specifying resource version is not allowed when using continue")
            pinned, start = decode_token(options.token)
            if pinned == _NEWEST:
                records = self._now(served, namespace, options)
            else:
                revision = pinned
                records = self._pinned(resource, namespace, pinned, start)
        elif asked := revision_of(options.resource_version):
            self.check_reached(asked)
            if options.match == _EXACT or (options.limit and not options.match):
                try:
                    records = self.store.list_at(resource, namespace, asked)
                except Compacted as exc:
                    raise Expired(_LIST_TOO_OLD) from exc
                revision = asked
            else:
                records = self._now(served, namespace, options)
        else:
            records = self._now(served, namespace, options)
        return records, revision, start

    def _now(self, served: ServedResource, namespace: str, options: ListOptions) -> Sequence[Record]:
        name = options.selection.name
        if name and (namespace or not served.resource.namespaced):
            record = self.store.get(served.key(namespace, name))
            return [record] if record is not None else []
        return self.store.list(served.resource.id, namespace)

    def _pinned(self, resource: str, namespace: str, revision: int, start: str) -> Sequence[Record]:
        self.check_reached(revision)
        try:
            return self.store.list_at(resource, namespace, revision)
        except Compacted as exc:
            raise Expired(_TOKEN_TOO_OLD, metadata={"continue": encode_token(_NEWEST, start)}) from exc

    def check_reached(self, revision: int) -> None:
        current = self.store.revision
        if revision > current:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise Timeout(
                f"Timeout: Too large resource version: {revision}, current: {current}",
                {"causes": [cause], "retryAfterSeconds": 1},
            )


def _page(records: Sequence[Record], revision: int, namespace: str, start: str, options: ListOptions) -> Page:
    if start:
        place = bisect_right(records, start, key=lambda record: _place(record, namespace))
        records = records[place:]
    selection, limit = options.selection, options.limit
    if not selection:
        if not limit or len(records) <= limit:
            return Page(records, revision)
        token = encode_token(revision, _place(records[limit - 1], namespace))
        return Page(records[:limit], revision, token, len(records) - limit)
    matching = (record for record in records if selection.matches(record))
    if not limit:
        return Page(list(matching), revision)
    found = list(islice(matching, limit + 1))
    if len(found) <= limit:
        return Page(found, revision)
    return Page(found[:limit], revision, encode_token(revision, _place(found[limit - 1], namespace)))


def _place(record: Record, namespace: str) -> str:
    """Where a record stands in the list of a namespace, or of all. A zero byte sorts before all that names have."""
    key = record.key
    return key.name if namespace or not key.namespace else f"{key.namespace}\0{key.name}"


def encode_token(revision: int, place: str) -> str:
    token = _Token("meta.k8s.io/v1", revision, place.replace("\0", "/") + "\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_token(text: str) -> tuple[int, str]:
    """The revision, and the place after which to go on."""
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=_Token)
    except (ValueError, msgspec.DecodeError) as exc:
        raise _bad_token(f": {exc}") from exc
    if token.v != "meta.k8s.io/v1":
        raise _bad_token(f": server does not recognize this encoded version {token.v}")
    if token.rv == 0 or token.rv < _NEWEST:
        raise _bad_token(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not token.start:
        raise _bad_token(": encoded start key empty (version meta.k8s.io/v1)")
    place = token.start.removesuffix("\0")
    if any(part in ("", ".", "..") for part in place.split("/")):
        raise _bad_token(f": {token.start}")
    return token.rv, place.replace("/", "\0")


def _bad_token(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{why}")


def revision_of(text: str) -> int:
    """A resourceVersion in a query; empty and 0 mean any. Raises BadRequest for what is no number."""
    if not text:
        return 0
    if len(text) > 20 or not (text.isascii() and text.isdecimal()):
        shown = text[:40]
        raise BadRequest(
            f'invalid resource version: resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": '
            "invalid syntax"
        )
    return int(text)


def _list_errors(options: ListOptions) -> Iterable[FieldError]:
    match = FieldPath("resourceVersionMatch")
    if options.match:
        if not options.resource_version:
            yield match.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if options.token:
            yield match.forbidden("resourceVersionMatch is forbidden when continue is provided")
        if options.match not in (_EXACT, _NOT_OLDER):
            yield match.not_supported(options.match, (_EXACT, _NOT_OLDER, ""))
        if options.match == _EXACT and options.resource_version == "0":
            yield match.forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if options.initial_events is not None:
        yield FieldPath("sendInitialEvents").forbidden("sendInitialEvents is forbidden for list")


def _watch_errors(options: ListOptions) -> Iterable[FieldError]:
    match = FieldPath("resourceVersionMatch")
    if options.initial_events is not None and options.match != _NOT_OLDER:
        yield match.forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if options.match:
        if options.initial_events is None:
            yield match.forbidden(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        if options.match != _NOT_OLDER:
            yield match.not_supported(options.match, (_NOT_OLDER,))
        if options.token:
            yield match.forbidden("resourceVersionMatch is forbidden when continue is provided")
