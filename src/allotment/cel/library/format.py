"""Kubernetes' named formats, over the values of :mod:`naming`: ``format.dns1123Label().validate("a")``.

``validate`` gives none where the text is fine, else the list of what is wrong. The wording is ours.
"""

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.library.naming import FORMATS, NamedFormat
from allotment.cel.library.pricing import priced
from allotment.cel.types import FORMAT, STRING, list_of, optional_of
from allotment.cel.values import OPTIONAL_NONE, Optional


def named(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found is not None else OPTIONAL_NONE


def validate(form: NamedFormat, text: str) -> Optional:
    faults = form.validate(text)
    return Optional(faults) if faults else OPTIONAL_NONE


def _constant(name: str) -> Function:
    form = FORMATS[name]
    return Function(f"format.{name}", (Overload(f"format.{name}", (), FORMAT, lambda: form),))


LIBRARY = Library(
    "kubernetes.format",
    (
        priced("format.named", Overload("format-named", (STRING,), optional_of(FORMAT), named)),
        priced(
            "validate",
            Overload(
                "format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), validate, member=True
            ),
        ),
        *map(_constant, FORMATS),
    ),
)
