"""A definition made a resource: in each of its versions it is served with that version's schema, columns and strategy.

Versions differ in their schemas, but objects convert by their apiVersion alone. What is stored is in the storage
version, which is the hub. As long as a definition is as it was created, stored objects are what clients get, byte for byte;
once its schema has changed, every read passes the present schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allotment.api.schema import Schema
from allotment.apiserver.registry.custom.columns import printer_columns
from allotment.apiserver.registry.custom.jsonpath import JsonPath
from allotment.apiserver.registry.custom.pruning import pruned
from allotment.apiserver.registry.custom.scale import Scale
from allotment.apiserver.registry.custom.strategy import CustomStrategy
from allotment.apiserver.registry.custom.structural import Structural, published
from allotment.apiserver.registry.resource import Read, Resource, Version
from allotment.apiserver.store.record import Obj


def resource_of(crd: Obj, hidden: frozenset[str] = frozenset()) -> Resource:
    """The kind that a definition defines, by its accepted names. ``hidden`` are versions that others serve already."""
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    versions = [version for version in spec["versions"] if version["name"] not in hidden]
    stored = next(version for version in spec["versions"] if version.get("storage"))
    forms = {version["name"]: _Form(crd, version) for version in (*versions, stored)}
    hub = forms[stored["name"]]
    fresh = crd["metadata"].get("generation") == 1 and not hub.deprecated
    others = [
        form.version(hub)
        for name, form in forms.items()
        if form.served and name not in hidden and not (fresh and form is hub)
    ]
    fields = {name: read for form in forms.values() for name, read in form.fields.items()}
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
        versions=tuple(others),
        hub_served=fresh and hub.served and hub.name not in hidden,
        schemas={name: form.schema for name, form in forms.items()},
        readers={name: form.reader for name, form in forms.items()},
        fields=fields,
        unconditional_update=False,
        **hub.own,
    )


class _Form:
    """A kind in one of its versions."""

    def __init__(self, crd: Obj, version: Mapping[str, Any]) -> None:
        spec, names = crd["spec"], crd["status"]["acceptedNames"]
        self.name: str = version["name"]
        self.served = bool(version.get("served"))
        self.structural = Structural(
            (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        )
        self.schema: Schema = published(self.structural)
        subresources = version.get("subresources") or {}
        status = subresources.get("status") is not None
        scale = _scale(subresources.get("scale"))
        self.strategy = CustomStrategy(
            (names["plural"], spec["group"]),
            f"{spec['group']}/{self.name}",
            self.structural,
            status=status,
            scale=scale,
            terminating=bool(crd["metadata"].get("deletionTimestamp")),
        )
        self.fields: dict[str, Read] = {
            each["jsonPath"].removeprefix("."): JsonPath(each["jsonPath"]).first
            for each in version.get("selectableFields") or ()
        }
        self.own: dict[str, Any] = {
            "strategy": self.strategy,
            "status": status,
            "columns": printer_columns(version.get("additionalPrinterColumns") or ()),
            "views": {"scale": scale.view()} if scale is not None else {},
            "doc": self.schema.description,
        }
        self.deprecated = _deprecation(spec, version)

    def version(self, hub: _Form) -> Version:
        if self is hub:
            return Version(self.name, _itself, self.strategy.read, own=self.own, deprecated=self.deprecated)

        def read(obj: Obj) -> Obj:
            return self.strategy.read(hub.strategy.read(obj))

        return Version(self.name, _to(hub), read, own=self.own, deprecated=self.deprecated)

    def reader(self, obj: Obj) -> Any:
        return pruned(self.structural, obj)


def _itself(obj: Obj) -> Obj:
    return obj


def _to(hub: _Form) -> Callable[[Obj], Obj]:
    api_version = hub.strategy.api_version
    return lambda obj: pruned(hub.structural, {**obj, "apiVersion": api_version}).obj


def _scale(paths: Mapping[str, str] | None) -> Scale | None:
    if paths is None:
        return None
    return Scale(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or "")


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    given = version.get("deprecationWarning")
    return given or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
