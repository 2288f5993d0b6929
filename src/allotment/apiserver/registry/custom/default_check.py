"""Checks that the defaults in a schema conform to it: pruned, of the right shape, and within the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.custom.embedded import embedded_errors
from allotment.apiserver.registry.custom.equality import same
from allotment.apiserver.registry.custom.pruning import Misshapen, pruned_value
from allotment.apiserver.registry.custom.rules import rule_tree
from allotment.apiserver.registry.custom.structural import META_FIELDS, Structural
from allotment.apiserver.registry.custom.values import NOWHERE, ValueSchema


def default_errors(structural: Structural, path: FieldPath, root: bool = True) -> Iterator[FieldError]:
    """The errors of every default. Defaults of map values are skipped: nothing ever uses them."""
    if structural.default is not None:
        yield from _errors(structural, path.child("default"))
    if structural.items is not None:
        yield from default_errors(structural.items, path.child("items"), False)
    for name, field in structural.properties.items():
        if root and name in META_FIELDS:
            continue  # defaults are forbidden here, which the walk over the schema reports
        yield from default_errors(field, path.child("properties").key(name), False)


def _errors(structural: Structural, path: FieldPath) -> Iterator[FieldError]:
    default: Any = structural.default
    try:
        kept = pruned_value(structural, default)
    except Misshapen as exc:
        yield path.invalid(str(exc), default)
        return
    if not same(kept, default):
        yield path.invalid("must not have unknown fields", default)
    found = list(embedded_errors(structural, default, path))
    if not found:
        found = ValueSchema(structural.raw).errors(default, path)
    if not found and (rules := rule_tree(structural, structural.embedded)) is not None:
        broken = rules.run(default, default).errors or rules.run(default).errors
        found = [_moved(error, path) for error in broken]
    yield from found


def _moved(error: FieldError, path: FieldPath) -> FieldError:
    where = path if error.path is NOWHERE else path.child(str(error.path))
    return FieldError(where, error.kind, error.message, error.value)
