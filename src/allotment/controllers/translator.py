"""What a driver's author writes to have a vendor's parameters understood: one pure function, with the kind it is for.

    class Cards:
        name = "cards.dra.example.com"
        kind = VendorKind("dra.example.com", "CardParameters", "v1alpha1")
        makes = ResourceClaimParameters

        def translate(self, obj: Obj) -> Translation:
            ...
            return ResourceClaimParameters(requests=(...,), vendor_parameters=snapshot(obj))

``controllers.parameters`` does the rest. The answer has content only; name, namespace and origin are filled in. A package
that has translators names their classes as entry points of the group ``allotment.translators``; installing it is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from allotment.api.alpha2 import ResourceClaimParameters, ResourceClassParameters
from allotment.client.form import Obj
from allotment.controllers.vendor_kinds import VendorKind

ENTRY_POINTS = "allotment.translators"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The object cannot be translated; ``words`` tell its author which field is wrong and what to do about it."""

    words: str


Translation = ResourceClaimParameters | ResourceClassParameters | Refusal


class Translator(Protocol):
    """A driver's part. ``makes`` says whether its kind is for claims or for classes."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> VendorKind: ...

    @property
    def makes(self) -> type[ResourceClaimParameters] | type[ResourceClassParameters]: ...

    def translate(self, obj: Obj) -> Translation:
        """Gives the same answer for the same object, without asking anybody. The object has passed the schema of its
        definition and no more."""
        ...


def installed() -> list[Translator]:
    """The translators of all packages that are installed. Raises ImportError, naming the one that cannot be had."""
    found: list[Translator] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found.append(point.load()())
        except Exception as exc:
            raise ImportError(f"translator {point.name} ({point.value}) cannot be loaded: {exc}") from exc
    return found


def snapshot(obj: Obj) -> Obj:
    """The vendor's object as the driver is to see it when it prepares a device: all but what changes by itself."""
    meta = obj.get("metadata") or {}
    identity = {name: meta[name] for name in ("name", "namespace", "uid") if meta.get(name)}
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return {**content, "metadata": identity}
