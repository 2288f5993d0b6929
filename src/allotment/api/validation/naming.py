"""Names in device kinds, each with the errors that Kubernetes reports for it.

Kubernetes tells an absent name, one that is too long and one with wrong signs apart, and not alike for all names; a
name can be both too long and wrong. Map keys are reported at the map.
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
    """The text's problem, if it is not a name of the kind; an empty one is as wrong as any other."""
    problem = problem_of(text)
    return () if problem is None else (path.invalid(problem, text),)


def check_label(text: str, path: FieldPath) -> Iterable[FieldError]:
    """A DNS label: names of devices, requests, counters."""
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
    """``model`` or ``gpu.example.com/model``. With more than one slash anything goes, as in Kubernetes."""
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
    """``gpu.example.com/model``: the domain may not be left out."""
    yield from check_qualified_name(text, path)
    if "/" not in text:
        yield path.invalid("must be a domain and a name, as in gpu.example.com/model", text)


def _check_identifier(text: str, path: FieldPath) -> Iterator[FieldError]:
    if byte_length(text) > IDENTIFIER_LENGTH:
        yield path.too_long(IDENTIFIER_LENGTH)
    yield from formed(text[:IDENTIFIER_LENGTH] if text.isascii() else text, path, identifier_problem)
