"""ResourceClaimTemplate: the template for claims that are made for one pod each."""

from __future__ import annotations

from allotment.api import resource, semantic
from allotment.api.conversion import v1alpha2
from allotment.api.defaults import TEMPLATE, fill_in
from allotment.api.fields import FieldError
from allotment.api.validation import validate_semantic_template, validate_template, validate_template_update
from allotment.apiserver.registry.expressions import check_expression
from allotment.apiserver.registry.older_versions import V1ALPHA2, V1BETA1, V1BETA2
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import content_errors, view
from allotment.apiserver.store.record import Obj


class _TemplateStrategy(Strategy):
    """The spec never changes, so all claims made from it are alike."""

    def default(self, obj: Obj, write: Write) -> None:
        fill_in(obj, TEMPLATE)
        v1alpha2.default_carried_spec(at(obj, "spec", "spec"))

    def validate(self, obj: Obj) -> list[FieldError]:
        carried = v1alpha2.as_carried(obj)
        if carried is not None:
            return content_errors(validate_semantic_template(view(semantic.ResourceClaimTemplate, carried)))
        template = view(resource.ResourceClaimTemplate, obj)
        return content_errors(validate_template(template, check=check_expression))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        new, before = view(resource.ResourceClaimTemplate, obj), view(resource.ResourceClaimTemplate, old)
        changed = content_errors(validate_template_update(new, before))
        return changed + self.validate(obj) if changed else []


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1",
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        namespaced=True,
        strategy=_TemplateStrategy(),
        versions=(
            V1BETA2,
            V1BETA1,
            V1ALPHA2,
        ),
    ),
)
