"""Objects of a custom kind, in one of its versions, on their way into the store.

The order of checks is upstream's: values, scale, objects inside the object, sets and maps, and then, only if the shapes
are right, the rules. Objects stored under an earlier schema are read by the present one first, so that an update is
compared with what clients saw.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import forbidden
from allotment.apiserver.registry.custom.embedded import embedded_errors
from allotment.apiserver.registry.custom.lists import list_errors
from allotment.apiserver.registry.custom.pruning import fill
from allotment.apiserver.registry.custom.rules import RuleTree, rule_tree
from allotment.apiserver.registry.custom.scale import ScalePaths
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.custom.values import UNCHECKED, UNCORRELATED, ValueSchema, blocking
from allotment.apiserver.registry.strategies import keep
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.store.record import Obj

_ROOT: Final = FieldPath()
_NOT_COUNTED: Final = frozenset({"apiVersion", "kind", "metadata"})
_TERMINATING: Final = "create not allowed while custom resource definition is terminating"


class CustomStrategy(Strategy):
    """The rules of one version, made from its schema."""

    def __init__(
        self,
        resource: tuple[str, str],
        api_version: str,
        structural: Structural,
        read: Callable[[Obj], Obj],
        *,
        status: bool,
        scale: ScalePaths | None,
        terminating: bool,
    ) -> None:
        self._resource = resource  # plural, group
        self.api_version = api_version
        self.structural = structural
        self.read = read  # a stored object in this version
        self._status = status
        self._scale = scale
        self._terminating = terminating

    @cached_property
    def _values(self) -> ValueSchema:
        return ValueSchema(self.structural.raw)

    @cached_property
    def _rules(self) -> RuleTree | None:
        return rule_tree(self.structural, root=True)

    def compile(self) -> None:
        """Compiles in advance what the first write would compile: thousands of rules take seconds."""
        _ = self._values, self._rules

    def default(self, obj: Obj, write: Write) -> None:
        fill(self.structural, obj)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        if self._terminating:
            plural, group = self._resource
            raise forbidden(plural, obj["metadata"].get("name") or "", group, _TERMINATING)
        if self._status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        if self._status:
            keep(obj, old, "status")
        before = self.read(old)
        # the server's own edits start from the stored object, not from the shown one
        changed = _differ(obj, before) and _differ(self.read(obj), before)
        obj["metadata"]["generation"] = old["metadata"].get("generation", 1) + changed

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        for name in (obj.keys() | old.keys()) - {"status", "metadata"}:
            keep(obj, old, name)
        sent = obj["metadata"]
        obj["metadata"] = {**old["metadata"]}
        for name in ("managedFields", "resourceVersion"):
            keep(obj["metadata"], sent, name)

    def validate(self, obj: Obj) -> list[FieldError]:
        obj = self._shown(obj)
        errors = self._values.errors(obj)
        errors += self._scale_errors(obj)
        errors += embedded_errors(self.structural, obj, _ROOT)
        errors += list_errors(self.structural, obj, _ROOT)
        return errors + self._broken_rules(errors, obj, None)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        obj, old = self._shown(obj), self.read(old)
        errors = self._values.errors(obj, old=old)
        errors += self._scale_errors(obj)
        errors += embedded_errors(self.structural, obj, _ROOT)
        errors += self._new_list_errors(obj, old)
        return errors + self._broken_rules(errors, obj, old)

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        obj, old = self._shown(obj), self.read(old)
        errors: list[FieldError] = []
        schema = self._values.property("status")
        if schema is not None and "status" in obj:
            before = old.get("status", UNCORRELATED)
            errors += schema.errors(obj["status"], FieldPath("status"), before)
        if self._scale is not None:
            errors += self._scale.status_errors(obj)
        errors += self._new_list_errors(obj, old)
        return errors + self._broken_rules(errors, obj, old)

    def _shown(self, obj: Obj) -> Obj:
        return {**obj, "apiVersion": self.api_version}

    def _scale_errors(self, obj: Obj) -> list[FieldError]:
        if self._scale is None:
            return []
        return [*self._scale.spec_errors(obj), *self._scale.status_errors(obj)]

    def _new_list_errors(self, obj: Obj, old: Obj) -> list[FieldError]:
        """Errors about duplicates in sets and maps, unless the old object had duplicates too."""
        errors = list(list_errors(self.structural, obj, _ROOT))
        return [] if errors and any(True for _ in list_errors(self.structural, old, _ROOT)) else errors

    def _broken_rules(self, errors: list[FieldError], obj: Obj, old: Any) -> list[FieldError]:
        if self._rules is None:
            return []
        if any(True for _ in blocking(errors)):
            return [UNCHECKED]
        return self._rules.run(obj, old, ratchet=old is not None).errors


def _differ(one: Obj, other: Obj) -> bool:
    """Whether objects differ in anything that the generation counts: everything but metadata."""
    return any(one.get(name) != other.get(name) for name in (one.keys() | other.keys()) - _NOT_COUNTED)
