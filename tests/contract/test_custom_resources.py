"""CustomResourceDefinitions: kinds that users bring, with structural schemas, pruning, defaults, rules and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.api import APPLY, MERGE, STRATEGIC, Api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
        "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
        "replicas": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "n": {"type": "integer", "default": 1}},
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed may not change"}],
        },
        "least": {"type": "integer"},
        "most": {"type": "integer"},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.least) || !has(self.most) || self.least <= self.most",
            "message": "least must not be more than most",
        }
    ],
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}


def definition(stem: str, *, kind: str = "Widget", **version: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{stem}s.{stem}.example.com"},
        "spec": {
            "group": f"{stem}.example.com",
            "scope": "Namespaced",
            "names": {"plural": f"{stem}s", "singular": stem, "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    **version,
                }
            ],
        },
    }


def established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return {"NamesAccepted": "True", "Established": "True"}.items() <= {
        each["type"]: each["status"] for each in conditions
    }.items()


def install(api: Api, crd: dict[str, Any]) -> None:
    """Defines a kind and waits until it is served."""
    name = crd["metadata"]["name"]
    api.post(CRDS, crd).must(201)
    with api.watch(f"{CRDS}?fieldSelector=metadata.name={name}") as events:
        events.until(lambda event: established(event["object"]))
    plural = crd["spec"]["names"]["plural"]
    path = f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{plural}"
    api.eventually(lambda: api.get(path).status == 200 or None, f"{path} is served")


@dataclass
class Widgets:
    """A kind of the test's own, and where its objects are."""

    stem: str
    path: str

    def body(self, name: str, /, **spec: Any) -> dict[str, Any]:
        api_version = f"{self.stem}.example.com/v1"
        return {
            "apiVersion": api_version,
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"size": 1, **spec},
        }

    def create(self, api: Api, name: str = "a", /, **spec: Any) -> Any:
        return api.post(self.path, self.body(name, **spec)).must(201)


@pytest.fixture
def widgets(api: Api, namespace: str) -> Widgets:
    if api.get(f"{CRDS}/widgets.widget.example.com").status == 404:  # one for all tests on a server
        install(api, definition("widget"))
    return Widgets("widget", f"/apis/widget.example.com/v1/namespaces/{namespace}/widgets")


def test_it_is_found_by_discovery(api: Api, widgets: Widgets) -> None:
    found = {each["name"]: each for each in api.get("/apis/widget.example.com/v1").must()["resources"]}
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    assert (found["widgets"]["kind"], found["widgets"]["singularName"]) == ("Widget", "widget")
    group = api.eventually(
        lambda: {each["name"]: each for each in api.get("/apis").must()["groups"]}.get("widget.example.com"),
        "the group is listed",
    )
    assert group["preferredVersion"]["version"] == "v1"


def test_objects_live_as_others_do(api: Api, widgets: Widgets) -> None:
    made = widgets.create(api, size=3)
    assert (made["kind"], made["apiVersion"]) == ("Widget", "widget.example.com/v1")
    assert made["metadata"]["generation"] == 1
    assert api.get(f"{widgets.path}/a").must() == made
    listed = api.get(widgets.path).must()
    assert listed["kind"] == "WidgetList"
    assert listed["items"] == [made]  # objects of custom kinds keep kind and apiVersion in lists
    with api.watch(widgets.path) as events:
        assert next(events)["object"] == made
    gone = api.delete(f"{widgets.path}/a").must(200)
    assert gone["status"] == "Success"
    assert gone["details"]["group"] == "widget.example.com"


def test_unknown_fields_are_pruned(api: Api, widgets: Widgets) -> None:
    reply = api.post(f"{widgets.path}?fieldValidation=Ignore", {**widgets.body("a", typo=1), "extra": 1})
    made = reply.must(201)
    assert made["spec"] == {"size": 1, "color": "blue"}
    assert "extra" not in made


def test_strict_validation_tells_them(api: Api, widgets: Widgets) -> None:
    body = {**widgets.body("a", typo=1), "extra": 1}
    reply = api.post(f"{widgets.path}?fieldValidation=Strict", body)
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "extra", unknown field "spec.typo"'
    )
    warned = api.post(f"{widgets.path}?fieldValidation=Warn", body)
    assert (warned.status, warned.warnings) == (201, ['unknown field "extra"', 'unknown field "spec.typo"'])


def test_what_is_to_be_preserved_is(api: Api, widgets: Widgets) -> None:
    made = widgets.create(api, free={"any": {"thing": [1, "x"]}}, port="http")
    assert made["spec"]["free"] == {"any": {"thing": [1, "x"]}}
    assert made["spec"]["port"] == "http"
    assert widgets.create(api, "b", port=80)["spec"]["port"] == 80


def test_defaults_are_filled_in(api: Api, widgets: Widgets) -> None:
    made = widgets.create(api, parts=[{"id": "x"}, {"id": "y", "n": 5}])
    assert made["spec"]["color"] == "blue"
    assert made["spec"]["parts"] == [{"id": "x", "n": 1}, {"id": "y", "n": 5}]


UNCHECKED = (
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
)
"""Rules run only on what has the right shape, and the reply says so."""

INVALID: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]] = {
    "too small": (
        {"size": 0},
        [("FieldValueInvalid", "spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1")],
    ),
    "too large": (
        {"size": 11},
        [("FieldValueInvalid", "spec.size", "Invalid value: 11: spec.size in body should be less than or equal to 10")],
    ),
    "not of the type": (
        {"size": "big"},
        [("FieldValueTypeInvalid", "spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"'), UNCHECKED],
    ),
    "not in the list": (
        {"color": "green"},
        [("FieldValueNotSupported", "spec.color", 'Unsupported value: "green": supported values: "red", "blue"'), UNCHECKED],
    ),
    "too long": (
        {"name": "abcdef"},
        [("FieldValueTooLong", "spec.name", "Too long: may not be more than 5 bytes"), UNCHECKED],
    ),
    "not of the pattern": (
        {"name": "A"},
        [("FieldValueInvalid", "spec.name", "Invalid value: \"A\": spec.name in body should match '^[a-z]*$'")],
    ),
    "without a key": (
        {"parts": [{"n": 1}]},
        [("FieldValueRequired", "spec.parts[0].id", "Required value"), UNCHECKED],
    ),
    "twice the same key": (
        {"parts": [{"id": "x"}, {"id": "x"}]},
        [("FieldValueDuplicate", "spec.parts[1]", 'Duplicate value: {"id":"x"}')],
    ),
    "twice the same tag": (
        {"tags": ["x", "x"]},
        [("FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "x"')],
    ),
    "against a rule": (
        {"least": 3, "most": 2},
        [("FieldValueInvalid", "spec", "Invalid value: least must not be more than most")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_invalid(api: Api, widgets: Widgets, case: str) -> None:
    spec, causes = INVALID[case]
    reply = api.post(widgets.path, widgets.body("a", **spec))
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message.startswith('Widget.widget.example.com "a" is invalid: ')
    assert [(cause["reason"], cause["field"], cause["message"]) for cause in reply.causes] == causes


def test_without_a_field_that_is_required(api: Api, widgets: Widgets) -> None:
    body = widgets.body("a")
    body["spec"] = {}
    reply = api.post(widgets.path, body)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.causes[0] == {
        "reason": "FieldValueRequired",
        "message": "Required value",
        "field": "spec.size",
    }
    assert reply.causes[1]["message"] == UNCHECKED[2]


def test_rules_on_changes(api: Api, widgets: Widgets) -> None:
    widgets.create(api, fixed="x")
    reply = api.patch(f"{widgets.path}/a", {"spec": {"fixed": "y"}})
    assert (reply.status, reply.message) == (
        422,
        'Widget.widget.example.com "a" is invalid: spec.fixed: Invalid value: "y": fixed may not change',
    )


def test_generation_counts_the_spec_only(api: Api, widgets: Widgets) -> None:
    widgets.create(api)
    labelled = api.patch(f"{widgets.path}/a", {"metadata": {"labels": {"x": "y"}}}).must()
    assert labelled["metadata"]["generation"] == 1
    assert api.patch(f"{widgets.path}/a", {"spec": {"size": 2}}).must()["metadata"]["generation"] == 2
    status = api.patch(f"{widgets.path}/a/status", {"status": {"phase": "On"}}).must()
    assert status["metadata"]["generation"] == 2


def test_status_is_a_subresource(api: Api, widgets: Widgets) -> None:
    body = {**widgets.body("a"), "status": {"phase": "On"}}
    assert "status" not in api.post(widgets.path, body).must(201)
    set_ = api.patch(f"{widgets.path}/a/status", {"status": {"phase": "On"}, "spec": {"size": 9}}).must()
    assert (set_["status"], set_["spec"]["size"]) == ({"phase": "On"}, 1)
    kept = api.patch(f"{widgets.path}/a", {"status": {"phase": "Off"}, "spec": {"size": 2}}).must()
    assert (kept["status"], kept["spec"]["size"]) == ({"phase": "On"}, 2)


def test_scale_follows_its_paths(api: Api, widgets: Widgets) -> None:
    widgets.create(api, replicas=2)
    scale = api.get(f"{widgets.path}/a/scale").must()
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
    api.patch(f"{widgets.path}/a/scale", {"spec": {"replicas": 5}}).must()
    assert api.get(f"{widgets.path}/a").must()["spec"]["replicas"] == 5


def test_columns(api: Api, widgets: Widgets) -> None:
    widgets.create(api, size=4, color="red")
    told = api.get(widgets.path, headers=TABLE).must()
    assert [(each["name"], each["priority"]) for each in told["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Color", 1),
        ("Age", 0),
    ]
    assert told["rows"][0]["cells"][:3] == ["a", 4, "red"]


def test_merge_patches_work_and_strategic_ones_do_not(api: Api, widgets: Widgets) -> None:
    widgets.create(api)
    assert api.patch(f"{widgets.path}/a", {"spec": {"size": 2}}, MERGE).must()["spec"]["size"] == 2
    reply = api.patch(f"{widgets.path}/a", {"spec": {"size": 3}}, STRATEGIC)
    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")
    assert reply.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_server_side_apply_knows_list_keys(api: Api, widgets: Widgets) -> None:
    def applied(part: str, manager: str) -> Any:
        body = widgets.body("a", parts=[{"id": part}])
        return api.patch(f"{widgets.path}/a?fieldManager={manager}", body, APPLY).must()

    applied("x", "one")
    both = applied("y", "two")
    assert [each["id"] for each in both["spec"]["parts"]] == ["x", "y"]
    fields = {
        each["manager"]: each["fieldsV1"]["f:spec"]["f:parts"] for each in both["metadata"]["managedFields"]
    }
    assert fields["two"] == {'k:{"id":"y"}': {".": {}, "f:id": {}}}


def test_openapi_is_published(api: Api, widgets: Widgets) -> None:
    entry = api.eventually(
        lambda: api.get("/openapi/v3").must()["paths"].get("apis/widget.example.com/v1"),
        "the schema is listed",
    )
    schemas = api.get(entry["serverRelativeURL"]).must()["components"]["schemas"]
    (schema,) = [
        each
        for each in schemas.values()
        if any(kind["kind"] == "Widget" for kind in each.get("x-kubernetes-group-version-kind", []))
    ]
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"


# --- definitions themselves ---


def test_a_definition_is_accepted_and_established(api: Api, fresh: str) -> None:
    stem = f"x{fresh}"
    install(api, definition(stem))
    found = api.get(f"{CRDS}/{stem}s.{stem}.example.com").must()
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["status"]["acceptedNames"]["kind"] == "Widget"
    assert found["spec"]["conversion"] == {"strategy": "None"}


def test_deleting_a_definition_deletes_its_objects(api: Api, namespace: str, fresh: str) -> None:
    stem = f"d{fresh}"
    install(api, definition(stem))
    mine = Widgets(stem, f"/apis/{stem}.example.com/v1/namespaces/{namespace}/{stem}s")
    mine.create(api)
    api.delete(f"{CRDS}/{stem}s.{stem}.example.com").must()
    api.gone(f"{CRDS}/{stem}s.{stem}.example.com")
    api.eventually(lambda: api.get(mine.path).status == 404 or None, "the kind is no longer served")


def test_several_versions_differ_in_name_only(api: Api, namespace: str, fresh: str) -> None:
    stem = f"v{fresh}"
    crd = definition(stem)
    (first,) = crd["spec"]["versions"]
    crd["spec"]["versions"].append({**first, "name": "v1beta1", "storage": False})
    install(api, crd)
    mine = Widgets(stem, f"/apis/{stem}.example.com/v1/namespaces/{namespace}/{stem}s")
    mine.create(api, size=7)
    old = api.get(f"/apis/{stem}.example.com/v1beta1/namespaces/{namespace}/{stem}s/a").must()
    assert (old["apiVersion"], old["spec"]["size"]) == (f"{stem}.example.com/v1beta1", 7)


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "a name that does not match": (
        lambda crd: crd["metadata"].update(name="other.example.com"),
        "metadata.name",
        'Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group',
    ),
    "no schema": (
        lambda crd: crd["spec"]["versions"][0].update(schema=None),
        "spec.versions[0].schema.openAPIV3Schema",
        "Required value",
    ),
    "no version that is stored": (
        lambda crd: crd["spec"]["versions"][0].update(storage=False),
        "spec.versions",
        "must have exactly one version marked as storage version",
    ),
    "a schema without a type": (
        lambda crd: crd["spec"]["versions"][0].update(schema={"openAPIV3Schema": {"properties": {}}}),
        "spec.validation.openAPIV3Schema.type",
        "Required value: must not be empty at the root",
    ),
    "a field without a type": (
        lambda crd: crd["spec"]["versions"][0].update(
            schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}}
        ),
        "spec.validation.openAPIV3Schema.properties[spec].type",
        "Required value: must not be empty for specified object fields",
    ),
    "a rule that does not compile": (
        lambda crd: crd["spec"]["versions"][0].update(
            schema={
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.nope"}]}},
                }
            }
        ),
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
        "undefined field 'nope'",
    ),
    "an unknown scope": (
        lambda crd: crd["spec"].update(scope="Galaxy"),
        "spec.scope",
        'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ),
    "a default that breaks the schema": (
        lambda crd: crd["spec"]["versions"][0].update(
            schema={
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer", "default": "text"}},
                }
            }
        ),
        "spec.validation.openAPIV3Schema.properties[n].default",
        "must be of type integer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_definition_is_refused(api: Api, fresh: str, case: str) -> None:
    spoil, field, message = REFUSED[case]
    crd = definition(f"r{fresh}")
    spoil(crd)
    reply = api.post(CRDS, crd)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert any(cause["field"] == field and message in cause["message"] for cause in reply.causes), (
        reply.causes
    )


# --- definitions that change, compete and go ---


@pytest.fixture
def mine(api: Api, fresh: str, namespace: str) -> Widgets:
    """A kind of one test's own."""
    stem = f"m{fresh}"
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    install(api, definition(stem, selectableFields=fields))
    return Widgets(stem, f"/apis/{stem}.example.com/v1/namespaces/{namespace}/{stem}s")


def name_of(widgets: Widgets) -> str:
    return f"{widgets.stem}s.{widgets.stem}.example.com"


def condition(api: Api, name: str, type_: str, reason: str) -> dict[str, Any]:
    """A definition's condition, once it has this reason."""

    def found() -> dict[str, Any] | None:
        conditions = api.get(f"{CRDS}/{name}").must()["status"].get("conditions") or []
        return next((each for each in conditions if (each["type"], each["reason"]) == (type_, reason)), None)

    return api.eventually(found, f"{name} is {type_}: {reason}")


def test_fields_can_be_selected(api: Api, mine: Widgets) -> None:
    mine.create(api, "a", color="red", size=3)
    mine.create(api, "b", color="blue", size=3)

    def names(selector: str) -> list[str]:
        return [
            each["metadata"]["name"]
            for each in api.get(f"{mine.path}?fieldSelector={selector}").must()["items"]
        ]

    assert (names("spec.color=red"), names("spec.size=3,spec.color!=red")) == (["a"], ["b"])
    reply = api.get(f"{mine.path}?fieldSelector=spec.name=x")
    assert (reply.status, reply.message) == (400, "field label not supported: spec.name")


def test_a_changed_schema_holds_for_what_is_stored(api: Api, mine: Widgets) -> None:
    mine.create(api, size=2, name="abc")
    crd = api.get(f"{CRDS}/{name_of(mine)}").must()
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["added"] = {"type": "string", "default": "new"}
    fields["size"]["minimum"] = 5
    del fields["name"]
    api.put(f"{CRDS}/{name_of(mine)}", crd).must()
    path = f"{mine.path}/a"
    api.eventually(lambda: api.get(path).must()["spec"].get("added"), "the default is there")
    assert api.get(path).must()["spec"] == {"size": 2, "color": "blue", "added": "new"}
    assert (
        api.patch(path, {"spec": {"color": "red"}}).must()["spec"]["size"] == 2
    )  # what is not touched may stay
    reply = api.patch(path, {"spec": {"size": 3}})
    assert reply.causes == [
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 3: spec.size in body should be greater than or equal to 5",
            "field": "spec.size",
        }
    ]


def test_a_name_is_given_once(api: Api, mine: Widgets) -> None:
    rival = definition(f"{mine.stem}x")
    rival["metadata"]["name"] = f"{mine.stem}xs.{mine.stem}.example.com"
    rival["spec"]["group"] = f"{mine.stem}.example.com"
    api.post(CRDS, rival).must(201)
    name = rival["metadata"]["name"]
    refused = condition(api, name, "NamesAccepted", "ListKindConflict")
    assert (refused["status"], refused["message"]) == ("False", '"WidgetList" is already in use')
    assert condition(api, name, "Established", "NotAccepted")["status"] == "False"
    api.delete(f"{CRDS}/{name_of(mine)}").must()
    condition(api, name, "NamesAccepted", "NoConflicts")


def test_a_definition_goes_after_its_objects(api: Api, mine: Widgets) -> None:
    body = mine.body("held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(mine.path, body).must(201)
    mine.create(api, "free")
    gone = api.delete(f"{CRDS}/{name_of(mine)}").must()
    assert gone["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    condition(api, name_of(mine), "Terminating", "InstanceDeletionInProgress")
    api.gone(f"{mine.path}/free")
    late = api.post(mine.path, mine.body("late"))
    assert (late.status, late.reason) == (403, "Forbidden")
    assert late.message.endswith("create not allowed while custom resource definition is terminating")
    api.patch(f"{mine.path}/held", {"metadata": {"finalizers": None}}).must()
    api.gone(f"{CRDS}/{name_of(mine)}")
