"""CustomResourceDefinitions: kinds that users define. ``custom/definition.py`` validates them; the server's upkeep
(``upkeep/custom.py``) settles their names, serves their kinds, and deletes the objects of a deleted kind.
"""

from __future__ import annotations

from typing import Any

from allotment.api.fields import FieldError, collected
from allotment.apiserver.registry.columns import CREATED_AT
from allotment.apiserver.registry.conditions import condition, set_condition
from allotment.apiserver.registry.custom.definition import (
    change_errors,
    definition_errors,
    definition_warnings,
    status_errors,
)
from allotment.apiserver.registry.custom.open_parts import read_open_parts
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import asked_differently, keep
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.store.record import Obj

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class _Definitions(Strategy):
    """Status is the server's own; ``storedVersions`` grows with every version that was ever stored."""

    def default(self, obj: Obj, write: Write) -> None:
        spec = _part(obj, "spec")
        names = _part(spec, "names")
        kind = names.get("kind") or ""
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        for version in spec.get("versions") or ():
            version.setdefault("served", False)
            version.setdefault("storage", False)
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is not None:
                read_open_parts(schema)
        if not _part(obj, "status").get("storedVersions"):
            _count_stored(obj)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": [],
        }
        _count_stored(obj)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        keep(obj, old, "status")
        _count_stored(obj)
        generation = old["metadata"].get("generation", 1)
        obj["metadata"]["generation"] = generation + asked_differently(obj, old)

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        keep(obj, old, "spec")
        keep(obj["metadata"], old["metadata"], "generation")

    def validate(self, obj: Obj) -> list[FieldError]:
        return collected(definition_errors(obj))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return collected(change_errors(obj, old))

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        return collected(status_errors(obj))

    def warnings(self, obj: Obj) -> list[str]:
        return definition_warnings(obj)

    def hold(self, obj: Obj) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        if CLEANUP not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]

    def prepare_delete(self, obj: Obj, write: Write) -> None:
        if condition(obj, "Terminating") is None:
            told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
            set_condition(obj, "Terminating", "True", "InstanceDeletionPending", told, write.now)


def _part(obj: Obj, name: str) -> dict[str, Any]:
    part = obj.get(name)
    if part is None:
        part = obj[name] = {}
    return part


def _count_stored(obj: Obj) -> None:
    stored = obj.setdefault("status", {}).setdefault("storedVersions", [])
    for version in obj["spec"].get("versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                obj["status"]["storedVersions"] = [*stored, version.get("name")]
            break


RESOURCES = (
    Resource(
        group="apiextensions.k8s.io",
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        columns=(CREATED_AT,),
        status=True,
        unconditional_update=False,
        finalizers_qualified=False,
        strategy=_Definitions(),
        doc="A kind that users bring: its names, its versions, and the schema of each.",
    ),
)
