"""The kinds of KEP-4381 semantic parameters that v1 has no counterpart of, native in v1alpha2: NodeResourceSlice, ResourceClass and parameters.

A NodeResourceSlice belongs to its Node: ``admissions.node_slices`` sees to the owner reference, and the garbage
collector takes the slice away with the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from allotment.api import semantic
from allotment.api.fields import FieldError, FieldPath
from allotment.api.meta import ApiStruct
from allotment.api.validation import (
    validate_claim_parameters,
    validate_class_parameters,
    validate_node_resource_slice,
    validate_resource_class,
)
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.expressions import check_expression
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import IMMUTABLE, StrategyRules, at
from allotment.apiserver.registry.view import content_errors, view
from allotment.apiserver.store.record import Obj

T = TypeVar("T", bound=ApiStruct)
Check = Callable[[Obj], list[FieldError]]


def _checked(kind: type[T], validate: Callable[[T], Iterable[FieldError]]) -> Check:
    return lambda obj: content_errors(validate(view(kind, obj)))


def _field(*path: str) -> Callable[..., Any]:
    """Reads a text for a column or a field selector; empty where it is absent."""
    return lambda obj, *_: at(obj, *path) or ""


def _unmoved(obj: Obj, old: Obj) -> Iterable[FieldError]:
    """A slice stays with its node and driver."""
    for name in ("nodeName", "driverName"):
        value = at(obj, "spec", name)
        if value != at(old, "spec", name):
            yield FieldPath("spec", name).invalid(IMMUTABLE, value)


def _resource(kind: str, plural: str, *, namespaced: bool, strategy: StrategyRules, **more: Any) -> Resource:
    return Resource(
        group="resource.k8s.io",
        version="v1alpha2",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        strategy=strategy,
        doc=" ".join((getattr(semantic, kind).__doc__ or "").split()),
        **more,
    )


RESOURCES = (
    _resource(
        "NodeResourceSlice",
        "noderesourceslices",
        namespaced=False,
        strategy=StrategyRules(
            generation=True,
            check=_checked(semantic.NodeResourceSlice, validate_node_resource_slice),
            check_change=_unmoved,
        ),
        columns=(
            PrinterColumn("Node", "string", _field("spec", "nodeName"), "The node that has the resources."),
            PrinterColumn("Driver", "string", _field("spec", "driverName"), "The driver that offers them."),
            AGE,
        ),
        fields={
            "nodeName": _field("spec", "nodeName"),
            "driverName": _field("spec", "driverName"),
            "spec.nodeName": _field("spec", "nodeName"),
            "spec.driverName": _field("spec", "driverName"),
        },
    ),
    _resource(
        "ResourceClass",
        "resourceclasses",
        namespaced=False,
        strategy=StrategyRules(check=_checked(semantic.ResourceClass, validate_resource_class)),
        columns=(
            PrinterColumn(
                "DriverName", "string", _field("driverName"), "The driver that serves claims of the class."
            ),
            AGE,
        ),
    ),
    _resource(
        "ResourceClassParameters",
        "resourceclassparameters",
        namespaced=False,
        strategy=StrategyRules(
            generation=True,
            check=_checked(
                semantic.ResourceClassParameters,
                lambda obj: validate_class_parameters(obj, check=check_expression),
            ),
        ),
    ),
    _resource(
        "ResourceClaimParameters",
        "resourceclaimparameters",
        namespaced=True,
        strategy=StrategyRules(
            generation=True,
            check=_checked(
                semantic.ResourceClaimParameters,
                lambda obj: validate_claim_parameters(obj, check=check_expression),
            ),
        ),
    ),
)
