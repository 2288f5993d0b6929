"""The definitions for real clusters have the fields that the embedded server knows, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from allotment.api.schema.schema import Schema
from allotment.api.schema.struct_schema import own_schema

DEFINITIONS = yaml.safe_load((files("allotment.autoscaler") / "crds.yaml").read_text())["items"]
NATIVE = {each["spec"]["names"]["kind"]: each["spec"] for each in DEFINITIONS}
OPEN = "x-kubernetes-preserve-unknown-fields"


def differences(ours: Schema, theirs: Any, path: str) -> Iterator[str]:
    """Fields of one side. Where the definition takes any field, it need not list all."""
    if "properties" in theirs and ours.properties is not None:
        mine = {name for name in ours.properties if path or name not in ("apiVersion", "kind", "metadata")}
        yield from (
            f"{path}.{name}: only in the definition" for name in sorted(set(theirs["properties"]) - mine)
        )
        if not theirs.get(OPEN):
            yield from (
                f"{path}.{name}: not in the definition" for name in sorted(mine - set(theirs["properties"]))
            )
        for name in sorted(mine & set(theirs["properties"])):
            yield from differences(ours.properties[name], theirs["properties"][name], f"{path}.{name}")
    elif "items" in theirs and ours.items is not None:
        yield from differences(ours.items, theirs["items"], f"{path}[]")
    elif "additionalProperties" in theirs and ours.additional is not None:
        yield from differences(ours.additional, theirs["additionalProperties"], f"{path}[*]")


@pytest.mark.parametrize("kind", NATIVE)
def test_the_fields_are_the_same(kind: str) -> None:
    spec = NATIVE[kind]
    [version] = spec["versions"]
    schema = own_schema(f"{spec['group']}/{version['name']}", kind)
    assert list(differences(schema, version["schema"]["openAPIV3Schema"], "")) == []
