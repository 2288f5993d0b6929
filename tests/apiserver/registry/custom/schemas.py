"""Small schemas and definitions for tests of custom kinds."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]


def obj(*required: str, **properties: Raw) -> Raw:
    """The schema of an object."""
    made: Raw = {"type": "object", "properties": properties}
    return made | ({"required": list(required)} if required else {})


def array(items: Raw, **more: Any) -> Raw:
    return {"type": "array", "items": items, **more}


def rule(text: str, **more: Any) -> Raw:
    return {"x-kubernetes-validations": [{"rule": text, **more}]}


TEXT: Raw = {"type": "string"}
WHOLE: Raw = {"type": "integer"}


def definition(stem: str = "widget", schema: Raw | None = None, **version: Any) -> Raw:
    """A definition of the kind Widget."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{stem}s.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": f"{stem}s", "kind": stem.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema or obj(spec=obj(size=WHOLE))},
                    **version,
                }
            ],
        },
    }
