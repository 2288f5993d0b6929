"""DeviceClass: a named selection of devices that a cluster's operator offers."""

from __future__ import annotations

from allotment.api import resource
from allotment.api.fields import FieldError
from allotment.api.validation import validate_class
from allotment.apiserver.registry.expressions import check_expression
from allotment.apiserver.registry.older_versions import V1BETA1, V1BETA2
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import content_errors, first_generation, next_generation, view
from allotment.apiserver.store.record import Obj


class _DeviceClassStrategy(Strategy):
    """All of a class may change; its generation counts the changes."""

    def prepare_create(self, obj: Obj, write: Write) -> None:
        first_generation(obj)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        next_generation(resource.DeviceClass, obj, old)

    def validate(self, obj: Obj) -> list[FieldError]:
        return content_errors(validate_class(view(resource.DeviceClass, obj), check=check_expression))


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1",
        kind="DeviceClass",
        plural="deviceclasses",
        namespaced=False,
        strategy=_DeviceClassStrategy(),
        versions=(
            V1BETA2,
            V1BETA1,
        ),
    ),
)
