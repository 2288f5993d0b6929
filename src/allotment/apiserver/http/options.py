"""Options of a list, a watch or a write, read from the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.api.fields import FieldError, FieldPath
from allotment.api.selection import SelectorError, parse_fields, parse_labels
from allotment.api.status import BadRequest, invalid
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.http.request import Request
from allotment.apiserver.registry.call import FieldValidation, WriteContext
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.reads import ListOptions
from allotment.apiserver.registry.selection import Selection

MAX_MANAGER = 128
_VALIDATIONS = {choice.value: choice for choice in FieldValidation}


def list_options(request: Request, served: ServedResource, watch: bool) -> ListOptions:
    """The options of a list or watch. Raises BadRequest and Invalid."""
    query = request.query
    if not query:
        return ListOptions(Selection(served.resource))
    try:
        labels = parse_labels(query.get("labelSelector", ""))
        fields = parse_fields(query.get("fieldSelector", ""))
    except SelectorError as exc:
        raise BadRequest(str(exc)) from exc
    options = ListOptions(
        Selection(served.resource, labels, fields),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(request.number("limit") or 0, 0),
        token=query.get("continue", ""),
        watch=watch,
        bookmarks=bool(request.flag("allowWatchBookmarks")),
        initial_events=request.flag("sendInitialEvents"),
        timeout=request.number("timeoutSeconds"),
    )
    options.check()
    return options


def call_of(request: Request, identity: Identity, now: str, verb: str, apply: bool = False) -> WriteContext:
    """The options of a write. Raises Invalid."""
    query = request.query
    manager = query.get("fieldManager", "")
    validation = query.get("fieldValidation", "")
    if query or apply:
        errors = list(_errors(query, manager, validation, verb == "patch", apply))
        if errors:
            kind = {"create": "CreateOptions", "patch": "PatchOptions"}.get(verb, "UpdateOptions")
            raise invalid(kind, "", errors, "meta.k8s.io")
    return WriteContext(
        identity,
        now,
        manager or request.header(b"user-agent").partition("/")[0][:MAX_MANAGER] or "unknown",
        dry_run="dryRun" in query,
        field_validation=_VALIDATIONS.get(validation, FieldValidation.WARN),
        force="force" in query and bool(request.flag("force")),
        verb=verb,
    )


def _errors(
    query: Mapping[str, str], manager: str, validation: str, patch: bool, apply: bool
) -> Iterable[FieldError]:
    if apply and not manager:
        yield FieldPath("fieldManager").required("is required for apply patch")
    if patch and not apply and query.get("force"):
        yield FieldPath("force").forbidden("may not be specified for non-apply patch")
    if len(manager) > MAX_MANAGER:
        yield FieldPath("fieldManager").too_long(MAX_MANAGER)
    if not manager.isprintable():
        yield FieldPath("fieldManager").invalid("should only contain printable characters", manager)
    dry_run = query.get("dryRun")
    if dry_run is not None and dry_run != "All":
        yield FieldPath("dryRun").not_supported([dry_run], ("All",))
    if validation and validation not in _VALIDATIONS:
        yield FieldPath("fieldValidation").not_supported(validation, ("", "Ignore", "Strict", "Warn"))
