"""The forms of reply that a client accepts: JSON or YAML; whole objects, a table, or only metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from allotment.api.status import NotAcceptable
from allotment.apiserver.http.request import JSON, YAML

_TYPES = {JSON: JSON, "*/*": JSON, "application/*": JSON, YAML: YAML, "text/yaml": YAML}
_TRANSFORMS = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}
MAX_CLAUSES = 20
_HEADERS_REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class Accepted:
    """A form that a client accepts. ``parameters`` are those of the media type: as, g, v."""

    media_type: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def transform(self) -> str:
        return self.parameters.get("as", "")

    @property
    def version(self) -> str:
        return self.parameters.get("v", "")


PLAIN = Accepted(JSON)


@lru_cache(_HEADERS_REMEMBERED)
def accepted(header: str) -> tuple[Accepted, ...]:
    """The forms in an Accept header that we support, in the client's order."""
    return tuple(_parse(header)) if header else (PLAIN,)


def _parse(header: str) -> list[Accepted]:
    found: list[tuple[float, Accepted]] = []
    for clause in header.split(",")[:MAX_CLAUSES]:
        name, *settings = (part.strip() for part in clause.split(";"))
        media_type = _TYPES.get(name.lower())
        if media_type is None:
            continue
        parameters = dict(setting.partition("=")[::2] for setting in settings)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append((-quality, Accepted(media_type, parameters)))
    return [form for _, form in sorted(found, key=lambda pair: pair[0])]


@lru_cache(_HEADERS_REMEMBERED)
def choose(header: str) -> Accepted:
    """The form in which to send objects. Raises NotAcceptable."""
    for form in accepted(header):
        transform = form.transform
        if not transform or (
            form.version in _TRANSFORMS.get(transform, ())
            and form.parameters.get("g", "meta.k8s.io") == "meta.k8s.io"
        ):
            return form
    raise NotAcceptable(f"only the following media types are accepted: {JSON}, {YAML}")
