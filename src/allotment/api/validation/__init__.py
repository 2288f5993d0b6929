"""The rules that objects must satisfy: those of Kubernetes 1.37 for resource.k8s.io, and ours for v1alpha2.

There is one module for each kind, and one for each part that kinds share. Each ``validate_…`` function returns all
errors at once, with the paths of their fields; it never raises and takes time in proportion to the object. Rules that
need other objects (does the class exist?) are not here. Validation treats all features as enabled: the allocator
knows which of them are off.

``validate`` chooses the function by the type of the object, for callers that read several kinds.
"""

from collections.abc import Callable
from typing import Any, Final

from allotment.api import autoscaling, pools, resource, semantic
from allotment.api.fields import FieldError
from allotment.api.validation.claim import (
    validate_claim,
    validate_claim_update,
    validate_template,
    validate_template_update,
)
from allotment.api.validation.claim_status import validate_claim_status
from allotment.api.validation.device_class import validate_class
from allotment.api.validation.expressions import (
    EXPRESSION_COST,
    CheckedExpression,
    ExpressionChecker,
    ExpressionUse,
)
from allotment.api.validation.machines import (
    validate_instance_type,
    validate_node_claim,
    validate_node_group,
    validate_node_pool,
)
from allotment.api.validation.node_overlay import (
    validate_node_overlay,
    validate_node_overlay_status,
)
from allotment.api.validation.node_resource_slice import validate_node_resource_slice
from allotment.api.validation.parameters import (
    validate_claim_parameters,
    validate_class_parameters,
    validate_resource_class,
)
from allotment.api.validation.pool_status_request import (
    validate_pool_status_answer,
    validate_pool_status_request,
)
from allotment.api.validation.resource_pool import (
    validate_resource_pool,
    validate_resource_pool_status,
)
from allotment.api.validation.semantic_claim import (
    validate_semantic_claim,
    validate_semantic_claim_status,
    validate_semantic_claim_update,
    validate_semantic_template,
)
from allotment.api.validation.slice import validate_slice, validate_slice_update
from allotment.api.validation.taint_rule import validate_taint_rule

__all__ = [
    "EXPRESSION_COST",
    "CheckedExpression",
    "ExpressionChecker",
    "ExpressionUse",
    "validate",
    "validate_claim",
    "validate_claim_parameters",
    "validate_claim_status",
    "validate_claim_update",
    "validate_class",
    "validate_class_parameters",
    "validate_instance_type",
    "validate_node_claim",
    "validate_node_group",
    "validate_node_overlay",
    "validate_node_overlay_status",
    "validate_node_pool",
    "validate_node_resource_slice",
    "validate_pool_status_answer",
    "validate_pool_status_request",
    "validate_resource_class",
    "validate_resource_pool",
    "validate_resource_pool_status",
    "validate_semantic_claim",
    "validate_semantic_claim_status",
    "validate_semantic_claim_update",
    "validate_semantic_template",
    "validate_slice",
    "validate_slice_update",
    "validate_taint_rule",
    "validate_template",
    "validate_template_update",
]


def validate(obj: object, *, check: ExpressionChecker) -> list[FieldError]:
    """Everything that is wrong with an object, including its status; nothing for kinds that have no rules here."""
    validator = _VALIDATORS.get(type(obj))
    return validator(obj, check) if validator is not None else []


_VALIDATORS: Final[dict[type, Callable[[Any, ExpressionChecker], list[FieldError]]]] = {
    resource.ResourceSlice: lambda obj, check: validate_slice(obj),
    resource.ResourceClaim: lambda obj, check: validate_claim(obj, check=check) + validate_claim_status(obj),
    resource.ResourceClaimTemplate: lambda obj, check: validate_template(obj, check=check),
    resource.DeviceClass: lambda obj, check: validate_class(obj, check=check),
    resource.DeviceTaintRule: lambda obj, check: validate_taint_rule(obj),
    semantic.NodeResourceSlice: lambda obj, check: validate_node_resource_slice(obj),
    semantic.ResourceClass: lambda obj, check: validate_resource_class(obj),
    semantic.ResourceClassParameters: lambda obj, check: validate_class_parameters(obj, check=check),
    semantic.ResourceClaimParameters: lambda obj, check: validate_claim_parameters(obj, check=check),
    semantic.ResourceClaim: lambda obj, check: (
        validate_semantic_claim(obj) + validate_semantic_claim_status(obj)
    ),
    semantic.ResourceClaimTemplate: lambda obj, check: validate_semantic_template(obj),
    pools.ResourcePool: lambda obj, check: (
        validate_resource_pool(obj) + validate_resource_pool_status(obj.status)
    ),
    pools.ResourcePoolStatusRequest: lambda obj, check: (
        validate_pool_status_request(obj) + validate_pool_status_answer(obj.status, None)
    ),
    autoscaling.NodeOverlay: lambda obj, check: (
        validate_node_overlay(obj) + validate_node_overlay_status(obj.status)
    ),
    autoscaling.NodePool: lambda obj, check: validate_node_pool(obj),
    autoscaling.NodeClaim: lambda obj, check: validate_node_claim(obj),
    autoscaling.NodeGroup: lambda obj, check: validate_node_group(obj),
    autoscaling.InstanceType: lambda obj, check: validate_instance_type(obj),
}
