"""Names in device kinds, with the errors that Kubernetes reports for each.

Kubernetes distinguishes names that are absent, too long, or contain wrong characters, but not in the same way for all
names; a name can be both too long and wrong. Errors about map keys have the path of the map.
"""

from collections.abc import Callable, Iterable, Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import (
    DRIVER_LENGTH,
    IDENTIFIER_LENGTH,
    SUBDOMAIN_LENGTH,
    dns_label_problem,
    dns_subdomain_problem,
    identifier_problem,
)
from allotment.api.text import byte_length


def formed(text: str, path: FieldPath, problem_of: Callable[[str], str | None]) -> Iterable[FieldError]:
    """Reports a text that is not a name of the kind; an empty text gets no special treatment."""
    problem = problem_of(text)
    return () if problem is None else (path.invalid(problem, text),)


def check_label(text: str, path: FieldPath) -> Iterable[FieldError]:
    """Requires a DNS label, as for names of devices, requests and counters."""
    return formed(text, path, dns_label_problem)


def check_driver(text: str, path: FieldPath) -> Iterator[FieldError]:
    if not text:
        yield path.required()
        return
    if byte_length(text) > DRIVER_LENGTH:
        yield path.too_long(DRIVER_LENGTH)
    yield from formed(text.lower(), path, dns_subdomain_problem)


def check_pool(text: str, path: FieldPath) -> Iterator[FieldError]:
    if not text:
        yield path.required()
        return
    if byte_length(text) > SUBDOMAIN_LENGTH:
        yield path.too_long(SUBDOMAIN_LENGTH)
    for part in text.split("/"):
        yield from formed(part, path, dns_subdomain_problem)


def check_qualified_name(text: str, path: FieldPath) -> Iterator[FieldError]:
    """Requires ``model`` or ``gpu.example.com/model``. As in Kubernetes, a name with several slashes is not checked."""
    parts = text.split("/")
    if len(parts) == 1:
        yield from _check_identifier(text, path)
    elif len(parts) == 2:
        domain, name = parts
        if domain:
            yield from check_driver(domain, path)
        else:
            yield path.invalid("the domain must not be empty", text)
        if name:
            yield from _check_identifier(name, path)
        else:
            yield path.invalid("the name must not be empty", text)


def check_fully_qualified_name(text: str, path: FieldPath) -> Iterator[FieldError]:
    """Requires ``gpu.example.com/model``, with the domain."""
    yield from check_qualified_name(text, path)
    if "/" not in text:
        yield path.invalid("must be a domain and a name, as in gpu.example.com/model", text)


def _check_identifier(text: str, path: FieldPath) -> Iterator[FieldError]:
    if byte_length(text) > IDENTIFIER_LENGTH:
        yield path.too_long(IDENTIFIER_LENGTH)
    yield from formed(text[:IDENTIFIER_LENGTH] if text.isascii() else text, path, identifier_problem)
