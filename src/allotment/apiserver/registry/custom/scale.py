"""The scale subresource of custom objects, which reads and writes the paths that their definition names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import BadRequest, InternalError
from allotment.apiserver.registry.resource import SubresourceView
from allotment.apiserver.store.record import Obj

_MOST_REPLICAS: Final = 2**31 - 1
_GO: Final = {str: "string", int: "int64", float: "float64", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}", type(None): "<nil>"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The three paths. Names with dots between, as ``.spec.replicas``."""

    spec: str
    status: str
    selector: str = ""

    def view(self) -> SubresourceView:
        return SubresourceView("autoscaling/v1", "Scale", self._read, self._write, shown=self._shown)

    def spec_errors(self, obj: Obj) -> Iterator[FieldError]:
        return _count_errors(obj, self.spec)

    def status_errors(self, obj: Obj) -> Iterator[FieldError]:
        yield from _count_errors(obj, self.status)
        if self.selector:
            problem = _at(obj, self.selector, str)[1]
            if problem:
                yield FieldPath(self.selector).invalid(problem, "")

    def _shown(self, obj: Obj) -> Obj:
        if _at(obj, self.spec, int) == (None, None):
            raise _failed(f'the spec replicas field "{self.spec}" does not exist')
        return self._read(obj)

    def _read(self, obj: Obj) -> Obj:
        """The scale to patch: without ``replicas`` where the object says nothing of them."""
        wanted, problem = _at(obj, self.spec, int)
        there, status_problem = _at(obj, self.status, int)
        if problem or status_problem:
            raise _failed(str(problem or status_problem))
        metadata = obj["metadata"]
        shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Obj = {"replicas": there or 0}
        if self.selector and (selector := _at(obj, self.selector, str)[0]):
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in shown if name in metadata},
            "spec": {"replicas": wanted} if wanted is not None else {},
            "status": status,
        }

    def _write(self, obj: Obj, body: Obj) -> None:
        replicas = (body.get("spec") or {}).get("replicas")
        if replicas is None:
            raise BadRequest(f'the spec replicas field "{self.spec}" cannot be empty')
        *way, last = _names(self.spec)
        here: Any = obj
        for name in way:
            here = here.setdefault(name, {})
            if not isinstance(here, dict):
                raise BadRequest(f"the spec replicas field {self.spec!r} cannot be set: {name} is no object")
        here[last] = replicas


def _failed(why: str) -> InternalError:
    return InternalError(f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def _names(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _at(obj: Obj, path: str, kind: type) -> tuple[Any, str | None]:
    """The value at a path, None if there is none; and what is wrong with its type."""
    here: Any = obj
    names = _names(path)
    for name in names:
        if not isinstance(here, dict):
            given = f"{here} is of the type {_GO.get(type(here), 'interface {}')}, expected map[string]interface{{}}"
            return None, f".{'.'.join(names)} accessor error: {given}"
        if name not in here:
            return None, None
        here = here[name]
    if type(here) is not kind:
        given = f"{here} is of the type {_GO.get(type(here), 'interface {}')}, expected {_GO[kind]}"
        return None, f".{'.'.join(names)} accessor error: {given}"
    return here, None


def _count_errors(obj: Obj, path: str) -> Iterator[FieldError]:
    value, problem = _at(obj, path, int)
    if problem:
        yield FieldPath(path).invalid(problem, 0)
    elif value is not None and value < 0:
        yield FieldPath(path).invalid("should be a non-negative integer", value)
    elif value is not None and value > _MOST_REPLICAS:
        yield FieldPath(path).invalid(f"should be less than or equal to {_MOST_REPLICAS}", value)
