"""The interface that a driver's author implements to translate a vendor's parameters: one pure function, with its kind.

    class Cards:
        name = "cards.dra.example.com"
        kind = VendorKind("dra.example.com", "CardParameters", "v1alpha1")
        makes = ResourceClaimParameters

        def translate(self, obj: Obj) -> Translation:
            ...
            return ResourceClaimParameters(requests=(...,), vendor_parameters=snapshot(obj))

``controllers.semantic.parameters`` does the rest. The answer has only the content; name, namespace and origin are filled in.
A package with translators names their classes as entry points of the group ``allotment.translators``; installing the package
is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from allotment.api.semantic import ResourceClaimParameters, ResourceClassParameters
from allotment.client.form import Obj
from allotment.controllers.semantic.vendor_kinds import VendorKind

__all__ = ["Translator", "Untranslatable"]

ENTRY_POINTS = "allotment.translators"


@dataclass(frozen=True, slots=True)
class Untranslatable:
    """The object cannot be translated; ``words`` tell its author which field is wrong and how to correct it."""

    words: str


Translation = ResourceClaimParameters | ResourceClassParameters | Untranslatable


class Translator(Protocol):
    """A driver's translator. ``makes`` says whether its kind is for claims or for classes."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> VendorKind: ...

    @property
    def makes(self) -> type[ResourceClaimParameters] | type[ResourceClassParameters]: ...

    def translate(self, obj: Obj) -> Translation:
        """Returns the same answer for the same object, without calls to anything else. The object has been checked against
        the schema of its definition, and nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class Installed:
    """The usable translators, and the reasons why the others are not usable."""

    translators: tuple[Translator, ...] = ()
    faults: tuple[str, ...] = ()


def installed() -> Installed:
    """The translators of all installed packages. A translator that cannot be loaded, that names no valid kind, or whose kind
    already has another one, is left out; the others work."""
    found: dict[tuple[str, str], Translator] = {}
    faults: list[str] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            translator = point.load()()
            kind = _kind_of(translator)
        except (Exception, SystemExit) as exc:  # foreign code
            faults.append(
                f"translator {point.name} ({point.value}) cannot be used: {type(exc).__name__}: {exc}"
            )
            continue
        other = found.setdefault(kind, translator)
        if other is not translator:
            faults.append(
                f"translator {point.name} ({point.value}) is not used: {kind[1]}.{kind[0]} has {other.name} already"
            )
    return Installed(tuple(found.values()), tuple(faults))


def _kind_of(translator: Translator) -> tuple[str, str]:
    """The kind of a translator. Raises TypeError if the object is not a translator."""
    if not isinstance(translator.kind, VendorKind):
        raise TypeError(f"its kind is a {type(translator.kind).__name__}, must be a VendorKind")
    if translator.makes not in (ResourceClaimParameters, ResourceClassParameters):
        raise TypeError("what it makes must be ResourceClaimParameters or ResourceClassParameters")
    if not isinstance(translator.name, str) or not callable(translator.translate):
        raise TypeError("it must have a name and a method translate")
    return translator.kind.group, translator.kind.kind


def snapshot(obj: Obj) -> Obj:
    """The vendor's object as the driver sees it when it prepares a device: without the fields that change by themselves."""
    meta = obj.get("metadata") or {}
    identity = {name: meta[name] for name in ("name", "namespace", "uid") if meta.get(name)}
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return {**content, "metadata": identity}
