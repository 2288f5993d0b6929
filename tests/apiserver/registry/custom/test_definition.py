"""What a definition must be: fields and words of its faults are the real server's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from allotment.api.status import BadRequest, told_as_cause
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.custom.definition import (
    change_errors,
    definition_errors,
    definition_warnings,
)
from allotment.apiserver.registry.custom.schema_rules import MOST_RULES, MOST_VALUES
from allotment.apiserver.registry.kinds.custom_resource_definition import RESOURCES
from allotment.apiserver.registry.strategy import Operation, Write
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, Raw, array, definition, obj, rule

STRATEGY = RESOURCES[0].strategy
WRITE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-02T03:04:05Z")
ROOT = "spec.validation.openAPIV3Schema"
FIELD = f"{ROOT}.properties[x]"


def prepared(crd: Raw) -> Raw:
    """As it is when it is validated."""
    STRATEGY.default(crd, WRITE)
    STRATEGY.prepare_create(crd, WRITE)
    return crd


def told(crd: Raw) -> list[tuple[str, str]]:
    return [(str(error.path), told_as_cause(error)) for error in definition_errors(prepared(crd))]


def of_field(schema: Raw) -> list[tuple[str, str]]:
    return told(definition(schema=obj(x=schema)))


def test_a_good_one() -> None:
    crd = definition()
    assert told(crd) == []
    assert crd["spec"]["names"] == {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}  # fmt: skip
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]


def spec(**changes: Any) -> Callable[[Raw], None]:
    return lambda crd: crd["spec"].update(changes)


def names(**changes: Any) -> Callable[[Raw], None]:
    return lambda crd: crd["spec"]["names"].update(changes)


def version(**changes: Any) -> Callable[[Raw], None]:
    return lambda crd: crd["spec"]["versions"][0].update(changes)


SPOILED: dict[str, tuple[Callable[[Raw], None], str, str]] = {
    "scope": (spec(scope="x"), "spec.scope", 'Unsupported value: "x": supported values: "Cluster", "Namespaced"'),
    "another name": (names(plural="gadgets"), "metadata.name", 'Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group'),
    "group": (spec(group="example"), "spec.group", 'Invalid value: "example": should be a domain with at least one dot'),
    "list kind": (names(listKind="Widget"), "spec.names.listKind", 'Invalid value: "Widget": kind and listKind may not be the same'),
    "version's name": (version(name="1v"), "spec.versions[0].name", "Invalid value: \"1v\": a DNS-1035 label must"),
    "no storage": (version(storage=False), "spec.versions", "must have exactly one version marked as storage version"),
    "no schema": (version(schema=None), "spec.versions[0].schema.openAPIV3Schema", "Required value"),
    "preserving all": (spec(preserveUnknownFields=True), "spec.preserveUnknownFields", "cannot set to true"),
    "webhook": (spec(conversion={"strategy": "Webhook"}), "spec.conversion.strategy", "does not call conversion webhooks"),
    "column": (version(additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": ".a"}]), "spec.additionalPrinterColumns[0].type", "must be one of boolean,date,integer,number,string"),
    "scale": (version(subresources={"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}), "spec.subresources.scale.specReplicasPath", "should be a json path under .spec"),
    "selectable": (version(selectableFields=[{"jsonPath": ".spec.zz"}]), "spec.selectableFields[0].jsonPath", "is an invalid path: does not refer to a valid field"),
    "community group": (lambda crd: (crd["spec"].update(group="x.k8s.io"), crd["metadata"].update(name="widgets.x.k8s.io"))[0], "metadata.annotations[api-approved.kubernetes.io]", "protected groups must have approval annotation"),
    "warning without deprecation": (version(deprecationWarning="x"), "spec.versions[0].deprecationWarning", "can only be set for deprecated versions"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_spoiled(case: str) -> None:
    spoil, field, message = SPOILED[case]
    crd = definition()
    spoil(crd)
    assert any(path == field and message in text for path, text in told(crd)), told(crd)


SCHEMAS: dict[str, tuple[Raw, str, str]] = {
    "no type": ({}, f"{FIELD}.type", "Required value: must not be empty for specified object fields"),
    "unknown type": ({"type": "foo"}, f"{FIELD}.type", 'Unsupported value: "foo"'),
    "items without type": (array({}), f"{FIELD}.items.type", "must not be empty for specified array items"),
    "no items": ({"type": "array"}, f"{FIELD}.items", "Required value: must be specified"),
    "reference": ({"$ref": "#/a"}, f"{FIELD}.$ref", "Forbidden: $ref is not supported"),
    "additionalItems": (array(TEXT, additionalItems=False), f"{FIELD}.additionalItems", "additionalItems is not supported"),
    "unique items": (array(TEXT, uniqueItems=True), f"{FIELD}.uniqueItems", "quadratic"),
    "type in an alternative": ({**obj(a=TEXT), "anyOf": [{"properties": {"a": {"type": "string"}}}]}, f"{FIELD}.anyOf[0].properties[a].type", "must be empty to be structural"),
    "pattern": ({"type": "string", "pattern": "("}, f"{FIELD}.pattern", "must be a valid regular expression"),
    "map without keys": (array(obj(), **{"x-kubernetes-list-type": "map"}), f"{FIELD}.x-kubernetes-list-map-keys", "must not be empty"),
    "key that may be absent": (array(obj(a=TEXT), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}), f"{FIELD}.items.properties[a].default", "must have a default or be a required property"),
    "set of objects": (array(obj(), **{"x-kubernetes-list-type": "set"}), f"{FIELD}.items.x-kubernetes-map-type", "must be atomic"),
    "default of the wrong type": ({**WHOLE, "default": "x"}, f"{FIELD}.default", "must be of type integer"),
    "default with unknown fields": ({**obj(a=TEXT), "default": {"b": 1}}, f"{FIELD}.default", "must not have unknown fields"),
    "default against a rule": ({**WHOLE, "default": 1, **rule("self > 5", message="m")}, f"{FIELD}.default", "Invalid value: 1: m"),
    "rule that does not compile": ({**WHOLE, **rule("self >")}, f"{FIELD}.x-kubernetes-validations[0].rule", "compilation failed"),
    "rule about what is not there": ({**obj(a=TEXT), **rule("self.b == ''")}, f"{FIELD}.x-kubernetes-validations[0].rule", "undefined field 'b'"),
    "rule that is no condition": ({**WHOLE, **rule("self + 1")}, f"{FIELD}.x-kubernetes-validations[0].rule", "cel expression must evaluate to a bool"),
    "message that is no text": ({**WHOLE, **rule("self > 1", messageExpression="1")}, f"{FIELD}.x-kubernetes-validations[0].messageExpression", "messageExpression must evaluate to a string"),
    "rule that costs too much": (array(TEXT, **rule("self.all(x, self.exists(y, x == y))")), f"{FIELD}.x-kubernetes-validations[0].rule", "estimated rule cost exceeds budget by factor of more than 100x"),
    "old value in a plain list": (array({**WHOLE, **rule("self > oldSelf")}, maxItems=3), f"{FIELD}.items.x-kubernetes-validations[0].rule", f"uncorrelatable portion of the schema within {FIELD}"),
    "rule about what is left open": ({"x-kubernetes-preserve-unknown-fields": True, **rule("true")}, f"{FIELD}.x-kubernetes-validations", "unable to convert"),
    "rule longer than any": ({**WHOLE, **rule("self > 1" + " && self > 1" * 2000)}, f"{FIELD}.x-kubernetes-validations[0].rule", "longer than"),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEMAS)
def test_schema(case: str) -> None:
    schema, field, message = SCHEMAS[case]
    found = of_field(schema)
    assert any(path == field and message in text for path, text in found), found


GOOD: dict[str, Raw] = {
    "int or string": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "left open": {"x-kubernetes-preserve-unknown-fields": True},
    "an object inside": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "alternatives": {**obj(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "defaults in defaults": {**obj(a={**TEXT, "default": "x"}), "default": {}},
    "a rule with a message": {**obj(a=WHOLE), **rule("!has(self.a) || self.a > 1", messageExpression="'a is %d'.format([self.a])", fieldPath=".a")},
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_good_schema(case: str) -> None:
    assert of_field(GOOD[case]) == []


def test_metadata_may_restrict_names_only() -> None:
    assert told(definition(schema=obj(metadata=obj(name={"type": "string", "maxLength": 5})))) == []
    (found,) = told(definition(schema=obj(metadata=obj(labels={"type": "object"}))))
    assert found[0] == f"{ROOT}.properties[metadata]"


def test_what_is_restricted_must_be_there() -> None:
    schema = {**obj(a=TEXT), "allOf": [{"properties": {"b": {"minLength": 1}}}]}
    assert told(definition(schema=schema)) == [
        (f"{ROOT}.properties[b]", f"Required value: because it is defined in {ROOT}.allOf[0].properties[b]")
    ]


def test_versions_that_differ_are_judged_one_by_one() -> None:
    crd = definition()
    crd["spec"]["versions"].append({**deepcopy(crd["spec"]["versions"][0]), "name": "v2", "storage": False})
    crd["spec"]["versions"][1]["schema"] = {"openAPIV3Schema": obj(x={})}
    assert [path for path, _ in told(crd)] == ["spec.versions[1].schema.openAPIV3Schema.properties[x].type"]


def test_what_may_not_change() -> None:
    old = prepared(definition())
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new = deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"
    assert [str(error.path) for error in change_errors(new, old)] == ["spec.scope", "spec.names.kind"]


def test_a_version_that_was_stored_must_stay() -> None:
    old = prepared(definition())
    new = deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    STRATEGY.prepare_update(new, old, WRITE)
    (error,) = change_errors(new, old)
    assert (str(error.path), new["status"]["storedVersions"]) == ("status.storedVersions[0]", ["v1", "v2"])


def test_warnings() -> None:
    schema = obj(a={"type": "string", "format": "frob"}, s=array(obj(), **{"x-kubernetes-list-type": "set"}))
    assert definition_warnings(definition(schema=schema)) == [
        'unrecognized format "frob"',
        'x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules',
    ]


def test_size_is_bounded() -> None:
    wide = {f"f{number}": TEXT for number in range(MOST_VALUES)}
    (found,) = told(definition(schema=obj(**wide)))
    assert f"at most {MOST_VALUES} values" in found[1]
    many = {**WHOLE, "x-kubernetes-validations": [{"rule": "true"}] * (MOST_RULES + 1)}
    (found,) = of_field(many)
    assert f"{MOST_RULES} rules" in found[1]


def test_depth_is_no_problem_within_that_of_bodies() -> None:
    schema: Raw = TEXT
    for _ in range(95):
        schema = obj(x=schema)
    assert of_field(schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": 5},
        {"type": "array", "items": {"type": 5}},
        {"type": "array", "items": {"type": "object", "properties": []}},
        {"type": "array", "items": {"type": "array", "items": {"maxItems": "x"}}},
        {"type": "array", "items": [5]},
        {"type": "object", "additionalProperties": "x"},
        {"type": "object", "additionalProperties": {"required": "x"}},
        {"type": "object", "additionalProperties": {"x-kubernetes-validations": [5]}},
    ],
)
def test_no_schema_is_taken_for_one(schema: Raw) -> None:
    with pytest.raises(BadRequest):
        of_field(schema)


def test_what_is_unknown_in_items_is_left_out() -> None:
    crd = definition(schema=obj(x=array({"type": "string", "typo": 1})))
    assert told(crd) == []
    field = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"]
    assert field == array(TEXT)


BATCH: Raw = {
    **obj(
        spec={
            **obj(
                managedBy={**TEXT, "maxLength": 63, **rule("self == oldSelf", message="cannot be changed")},
                jobs=array(
                    {
                        **obj(
                            "name",
                            name={**TEXT, "maxLength": 63},
                            replicas={**WHOLE, "default": 1},
                            dependsOn=array(
                                obj("name", name={**TEXT, "maxLength": 63}),
                                maxItems=10,
                                **rule("self.all(x, x.name != '')"),
                            ),
                            overrides=array(
                                obj(
                                    namespace={**TEXT, "maxLength": 63}, **{"for": {**TEXT, "maxLength": 63}}
                                ),
                                maxItems=10,
                                **rule("self.all(x, !has(x.namespace) || x.__namespace__ != x.__for__)"),
                            ),
                        ),
                    },
                    maxItems=20,
                    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
                ),
                network=obj(subdomain={**TEXT, "maxLength": 63}),
            ),
            "x-kubernetes-validations": [
                {
                    "rule": "has(oldSelf.managedBy) == has(self.managedBy)",
                    "message": "cannot be added or removed",
                },
                {"rule": "!has(self.network) || self.?network.subdomain.orValue('a') != ''"},
            ],
        },
    ),
    **rule("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63"),
}


def test_definitions_of_batch_systems_apply() -> None:
    """Of the kind that JobSet and Kubeflow's Trainer have: rules about names, lists by key, reserved words, optionals."""
    assert told(definition(schema=BATCH)) == []


@pytest.mark.parametrize(
    ("name", "refused"), [("namespace", True), ("__namespace__", False), ("other", False)]
)
def test_rules_that_compare_fields_have_a_known_cost_by_escaped_names_only(name: str, refused: bool) -> None:
    """As in Kubernetes, which does not find the size of a field under a reserved word."""
    short = {**TEXT, "maxLength": 63}
    schema = obj(spec={**obj(namespace=short, other=short), **rule(f"self.other.contains(self.{name})")})
    assert (
        any(
            "estimated rule cost exceeds budget" in each for each in map(str, told(definition(schema=schema)))
        )
        == refused
    )
    assert told(definition(schema=obj(spec={**obj(namespace=short), **rule("self.namespace == 'a'")}))) == []


def test_a_faulty_rule_is_quoted_as_kubernetes_does() -> None:
    [fault] = told(definition(schema={**obj(), **rule("nope")}))
    quoted = '{"Rule":"nope","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}'
    assert f"Invalid value: {quoted}: compilation failed: " in str(fault)
