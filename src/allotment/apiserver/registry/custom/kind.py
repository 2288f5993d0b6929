"""Makes a resource from a definition. Each version has its own schema, columns and strategy.

Versions differ in their schemas, but conversion changes only an object's apiVersion. An object is stored in the storage
version of its time, which its apiVersion names. Reading applies the schema of that version, including later defaults,
and then drops fields that the requested version does not know.

The present storage version is the hub. As long as a definition has never changed, clients get stored objects byte for
byte; once it has changed, every read passes the present schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.api.schema.conform import Conformed
from allotment.apiserver.registry.catalogue import version_rank
from allotment.apiserver.registry.custom.columns import printer_columns
from allotment.apiserver.registry.custom.jsonpath import JsonPath
from allotment.apiserver.registry.custom.pruning import fill, pruned
from allotment.apiserver.registry.custom.scale import ScalePaths
from allotment.apiserver.registry.custom.strategy import CustomStrategy
from allotment.apiserver.registry.custom.structural import Structural, published
from allotment.apiserver.registry.resource import Read, Resource, ServedVersion
from allotment.apiserver.store.record import Obj


def resource_of(crd: Obj, hidden: frozenset[str] = frozenset()) -> Resource:
    """The kind that a definition defines, by its accepted names. ``hidden`` are versions that others serve already."""
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    forms: dict[str, _Form] = {}
    for version in spec["versions"]:
        forms[version["name"]] = _Form(crd, version, forms)
    hub = next(form for form in forms.values() if form.stored)
    shown = [form for name, form in forms.items() if form.served and name not in hidden]
    fresh = crd["metadata"].get("generation") == 1 and not hub.deprecated
    return Resource(
        group=spec["group"],
        version=hub.name,
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        versions=tuple(form.version(hub) for form in shown if not (fresh and form is hub)),
        hub_served=fresh and hub in shown,
        schemas={name: form.schema for name, form in forms.items()},
        readers={name: form.reader for name, form in forms.items()},
        fields={name: read for form in forms.values() for name, read in form.fields.items()},
        unconditional_update=False,
        finalizers_qualified=False,
        **hub.own,
    )


class _Form:
    """A kind in one of its versions; ``others`` are all of them, by name."""

    def __init__(self, crd: Obj, version: Mapping[str, Any], others: Mapping[str, _Form]) -> None:
        spec, names = crd["spec"], crd["status"]["acceptedNames"]
        self.name: str = version["name"]
        self.api_version = f"{spec['group']}/{self.name}"
        self.served = bool(version.get("served"))
        self.stored = bool(version.get("storage"))
        self.deprecated = _deprecation(spec, version)
        self.structural = Structural(
            (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        )
        self.schema = published(self.structural)
        self._others = others
        subresources = version.get("subresources") or {}
        status = subresources.get("status") is not None
        scale = _scale(subresources.get("scale"))
        self.fields: dict[str, Read] = {
            each["jsonPath"].removeprefix("."): JsonPath(each["jsonPath"]).first
            for each in version.get("selectableFields") or ()
        }
        self.own: dict[str, Any] = {
            "strategy": CustomStrategy(
                (names["plural"], spec["group"]),
                self.api_version,
                self.structural,
                self.read,
                status=status,
                scale=scale,
                terminating=bool(crd["metadata"].get("deletionTimestamp")),
            ),
            "status": status,
            "columns": printer_columns(version.get("additionalPrinterColumns") or ()),
            "views": {"scale": scale.view()} if scale is not None else {},
            "doc": self.schema.description,
        }

    def version(self, hub: _Form) -> ServedVersion:
        return ServedVersion(self.name, hub.convert, self.read, own=self.own, deprecated=self.deprecated)

    def reader(self, obj: Obj) -> Conformed:
        """What a body in this version becomes."""
        return pruned(self.structural, obj)

    def convert(self, obj: Obj) -> Obj:
        """An object of another version as one of this."""
        return pruned(self.structural, {**obj, "apiVersion": self.api_version}).obj

    def read(self, obj: Obj) -> Obj:
        """A stored object in this version."""
        written = self._others.get(str(obj.get("apiVersion")).rpartition("/")[2], self)
        made = written.convert(obj)
        fill(written.structural, made)
        return made if written is self else self.convert(made)


def _scale(paths: Mapping[str, str] | None) -> ScalePaths | None:
    if paths is None:
        return None
    return ScalePaths(
        paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or ""
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """The warning for users of a deprecated version: its author's words, or which version to use."""
    if not version.get("deprecated"):
        return ""
    if given := version.get("deprecationWarning"):
        return str(given)
    group, kind = spec["group"], spec["names"]["kind"]
    newer = [
        each["name"]
        for each in spec["versions"]
        if each.get("served")
        and not each.get("deprecated")
        and version_rank(each["name"]) < version_rank(version["name"])
    ]
    use = f"; use {group}/{min(newer, key=version_rank)} {kind}" if newer else ""
    return f"{group}/{version['name']} {kind} is deprecated{use}"
