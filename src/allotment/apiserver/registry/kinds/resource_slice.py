"""ResourceSlice: devices that a driver publishes."""

from __future__ import annotations

from typing import Any

from allotment.api import resource
from allotment.api.defaults import SLICE, fill_in
from allotment.api.fields import FieldError
from allotment.api.validation import validate_slice, validate_slice_update
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.older_versions import V1BETA1, V1BETA2
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import content_errors, first_generation, next_generation, view
from allotment.apiserver.store.record import Obj


class _ResourceSliceStrategy(Strategy):
    """The driver rewrites its slices as devices come and go; driver, pool and node of a slice stay."""

    def default(self, obj: Obj, write: Write) -> None:
        fill_in(obj, SLICE, write.now)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        first_generation(obj)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        next_generation(resource.ResourceSlice, obj, old)

    def validate(self, obj: Obj) -> list[FieldError]:
        return content_errors(validate_slice(view(resource.ResourceSlice, obj)))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        new, before = view(resource.ResourceSlice, obj), view(resource.ResourceSlice, old)
        return content_errors(validate_slice_update(new, before))

    def warnings(self, obj: Obj) -> list[str]:
        driver = str(_spec(obj, "driver"))
        if driver == driver.lower():
            return []
        return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def _spec(obj: Obj, *path: str) -> Any:
    """A field of the spec; empty where it is absent."""
    value = at(obj, "spec", *path)
    return "" if value is None else value


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1",
        kind="ResourceSlice",
        plural="resourceslices",
        namespaced=False,
        strategy=_ResourceSliceStrategy(),
        columns=(
            PrinterColumn("Node", "string", lambda obj, now: _spec(obj, "nodeName")),
            PrinterColumn("Driver", "string", lambda obj, now: _spec(obj, "driver")),
            PrinterColumn("Pool", "string", lambda obj, now: _spec(obj, "pool", "name")),
            AGE,
        ),
        fields={
            "spec.nodeName": lambda obj: _spec(obj, "nodeName"),
            "spec.driver": lambda obj: _spec(obj, "driver"),
            "spec.pool.name": lambda obj: _spec(obj, "pool", "name"),
        },
        versions=(
            V1BETA2,
            V1BETA1,
        ),
    ),
)
