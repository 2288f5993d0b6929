"""authorization.k8s.io: questions about the rights of the sender and of others.

``kubectl auth can-i`` sends a SelfSubjectAccessReview, with ``--list`` a SelfSubjectRulesReview. Servers that delegate
their decisions send a SubjectAccessReview about others, or a LocalSubjectAccessReview in a namespace they have access to.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import BadRequest, invalid
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.node import node_name
from allotment.apiserver.registry.review import Review, ReviewCall
from allotment.apiserver.registry.reviews.body import mapping, strings, text
from allotment.apiserver.store.record import Obj

GROUP = "authorization.k8s.io"
_VERSION = f"{GROUP}/v1"
MOST_LISTED_RULES = 2000
"""The most rules in an answer: a longer list, which nobody reads, would take longer than others should wait."""
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def access_reviews(authorization: Authorization) -> tuple[Review, ...]:
    """The four kinds, answered by this authorization."""
    return (
        Review(
            _VERSION,
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            False,
            partial(_self_access, authorization),
            "Asks whether whoever sends it may do something.",
        ),
        Review(
            _VERSION,
            "SubjectAccessReview",
            "subjectaccessreviews",
            False,
            partial(_access, authorization),
            "Asks whether somebody may do something.",
        ),
        Review(
            _VERSION,
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
            True,
            partial(_local_access, authorization),
            "Asks whether somebody may do something in this namespace.",
        ),
        Review(
            _VERSION,
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            False,
            partial(_rules, authorization),
            "Asks for everything that whoever sends it may do in a namespace.",
        ),
    )


def _self_access(authorization: Authorization, body: Obj, call: ReviewCall) -> Obj:
    spec = mapping(body.get("spec"))
    _refuse_if(body, [*_spec_errors(spec), *_metadata_errors(body, "must be empty")])
    return _decided(authorization, body, _attributes(call.identity, spec))


def _access(authorization: Authorization, body: Obj, call: ReviewCall) -> Obj:
    spec = mapping(body.get("spec"))
    errors = [*_spec_errors(spec), *_subject_errors(spec), *_metadata_errors(body, "must be empty")]
    _refuse_if(body, errors)
    return _decided(authorization, body, _attributes(_subject(spec), spec))


def _local_access(authorization: Authorization, body: Obj, call: ReviewCall) -> Obj:
    spec, metadata = mapping(body.get("spec")), mapping(body.get("metadata"))
    errors = [*_spec_errors(spec), *_subject_errors(spec)]
    errors += _metadata_errors(body, "must be empty except for namespace", "namespace")
    asked = mapping(spec.get("resourceAttributes"))
    namespace = text(metadata.get("namespace")) or call.namespace
    if asked and text(asked.get("namespace")) != namespace:
        path = FieldPath("spec.resourceAttributes.namespace")
        errors.append(path.invalid("must match metadata.namespace", asked.get("namespace", "")))
    if spec.get("nonResourceAttributes") is not None:
        path = FieldPath("spec.nonResourceAttributes")
        errors.append(path.invalid("disallowed on this kind of request", spec["nonResourceAttributes"]))
    _refuse_if(body, errors)
    if namespace != call.namespace:
        raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {call.namespace}")
    here = {**body, "metadata": {**metadata, "namespace": namespace}}
    return _decided(authorization, here, _attributes(_subject(spec), spec))


def _rules(authorization: Authorization, body: Obj, call: ReviewCall) -> Obj:
    """Resource rules and path rules apart, as the kind has them. A node's rights are not a list of rules."""
    namespace = text(mapping(body.get("spec")).get("namespace"))
    if not namespace:
        raise BadRequest("no namespace on request")
    resources, paths = [], []
    rules = authorization.rbac.rules_for(call.identity, namespace)
    for rule, _ in islice(rules, MOST_LISTED_RULES):
        told = rule.to_json()
        if rule.resources:
            resources.append({key: value for key, value in told.items() if key != "nonResourceURLs"})
        if rule.paths:
            paths.append({"verbs": told["verbs"], "nonResourceURLs": told["nonResourceURLs"]})
    status: Obj = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    count = authorization.rbac.count_of_rules(call.identity, namespace)
    if count > MOST_LISTED_RULES:
        status["incomplete"] = True
        status["evaluationError"] = f"only the first {MOST_LISTED_RULES} of {count} rules are listed"
    if node_name(call.identity) is not None:
        status["incomplete"] = True
        status["evaluationError"] = "node authorizer does not support user rule resolution"
    return {**body, "metadata": {}, "spec": {}, "status": status}


def _decided(authorization: Authorization, body: Obj, attributes: Attributes) -> Obj:
    decision = authorization.decide(attributes)
    status: Obj = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {"metadata": {}, **body, "status": status}


def _attributes(identity: Identity, spec: Mapping[str, Any]) -> Attributes:
    paths = mapping(spec.get("nonResourceAttributes"))
    if spec.get("resourceAttributes") is None:
        return Attributes(identity, text(paths.get("verb")), path=text(paths.get("path")))
    asked = mapping(spec["resourceAttributes"])
    return Attributes(
        identity,
        text(asked.get("verb")),
        text(asked.get("group")),
        text(asked.get("version")),
        text(asked.get("resource")) or "*",
        text(asked.get("subresource")),
        text(asked.get("namespace")),
        text(asked.get("name")),
        fields=_fields(mapping(asked.get("fieldSelector"))),
    )


def _fields(selector: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Requirements that a field has one value; others can only narrow what is asked for, so leaving them out is safe."""
    found = []
    for one in selector.get("requirements") or ():
        values = strings(mapping(one).get("values"))
        if mapping(one).get("operator") == "In" and len(values) == 1:
            found.append((text(mapping(one).get("key")), values[0]))
    return tuple(found)


def _subject(spec: Mapping[str, Any]) -> Identity:
    extra = {key: strings(values) for key, values in mapping(spec.get("extra")).items()}
    return Identity(text(spec.get("user")), strings(spec.get("groups")), text(spec.get("uid")), extra)


def _spec_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    both = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"))
    if sum(part is not None for part in both) == 1:
        return []
    return [FieldPath("spec").invalid(_ONE_OF, spec.get("nonResourceAttributes"))]


def _subject_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [FieldPath("spec", "user").invalid("at least one of user or group must be specified", "")]


def _metadata_errors(body: Obj, told: str, *allowed: str) -> list[FieldError]:
    metadata = mapping(body.get("metadata"))
    others = {key for key, value in metadata.items() if value} - {"managedFields", *allowed}
    return [FieldPath("metadata").invalid(told, dict(metadata))] if others else []


def _refuse_if(body: Obj, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(text(body.get("kind")), "", errors, GROUP)
