"""Server-side apply: who owns which field, who is asked before it changes, and what goes when nobody wants it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import claim, configmap, deployment, pod
from tests.contract.api import APPLY, MERGE, Api, Reply
from tests.contract.conftest import Allocated


def owners(obj: Any) -> dict[tuple[str, str, str], Any]:
    """Fields by (manager, operation, subresource)."""
    return {
        (each["manager"], each["operation"], each.get("subresource", "")): each["fieldsV1"]
        for each in obj["metadata"].get("managedFields", [])
    }


def cm(**data: Any) -> dict[str, Any]:
    return configmap("a", **data)


def test_what_does_not_exist_is_created(api: Api, configmaps: str) -> None:
    reply = api.apply(f"{configmaps}/a", cm(k="1"), "one")
    made = reply.must(201)
    assert made["data"] == {"k": "1"}
    (entry,) = made["metadata"]["managedFields"]
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": entry["time"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}},
    }


def test_applying_the_same_again_changes_nothing(api: Api, configmaps: str) -> None:
    made = api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    assert api.apply(f"{configmaps}/a", cm(k="1"), "one").must(200) == made


def test_a_field_of_another_manager_is_a_conflict(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    reply = api.apply(f"{configmaps}/a", cm(k="2", l="1"), "two")
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert reply.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]


def test_several_conflicts_are_all_told(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1", l="1"), "one").must(201)
    reply = api.apply(f"{configmaps}/a", cm(k="2", l="2"), "two")
    assert reply.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\n- .data.l'
    assert [cause["field"] for cause in reply.causes] == [".data.k", ".data.l"]


def test_a_conflict_with_an_update_names_it_and_its_version(api: Api, configmaps: str) -> None:
    api.post(f"{configmaps}?fieldManager=editor", cm(k="1")).must(201)
    reply = api.apply(f"{configmaps}/a", cm(k="2"), "two")
    assert reply.status == 409
    assert reply.message.startswith('Apply failed with 1 conflict: conflict with "editor" using v1')
    assert reply.message.endswith(": .data.k")


def test_force_takes_the_field_over(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1", mine="1"), "one").must(201)
    changed = api.apply(f"{configmaps}/a", cm(k="2"), "two", force=True).must(200)
    assert changed["data"] == {"k": "2", "mine": "1"}
    assert owners(changed) == {
        ("one", "Apply", ""): {"f:data": {"f:mine": {}}},
        ("two", "Apply", ""): {"f:data": {"f:k": {}}},
    }


def test_the_same_value_is_shared(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    shared = api.apply(f"{configmaps}/a", cm(k="1"), "two").must(200)
    assert owners(shared) == {
        ("one", "Apply", ""): {"f:data": {"f:k": {}}},
        ("two", "Apply", ""): {"f:data": {"f:k": {}}},
    }
    left = api.apply(f"{configmaps}/a", cm(), "one").must(200)
    assert left["data"] == {"k": "1"}  # two still wants it


def test_what_one_no_longer_applies_goes(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1", l="1"), "one").must(201)
    changed = api.apply(f"{configmaps}/a", cm(l="1"), "one").must(200)
    assert changed["data"] == {"l": "1"}


def test_what_others_wrote_stays(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    api.patch(f"{configmaps}/a?fieldManager=editor", {"data": {"e": "1"}}).must(200)
    changed = api.apply(f"{configmaps}/a", cm(k="2"), "one").must(200)
    assert changed["data"] == {"k": "2", "e": "1"}
    assert owners(changed)["editor", "Update", ""] == {"f:data": {"f:e": {}}}


def test_an_update_takes_over_without_asking(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    changed = api.patch(f"{configmaps}/a?fieldManager=editor", {"data": {"k": "2"}}).must(200)
    assert owners(changed) == {("editor", "Update", ""): {"f:data": {"f:k": {}}}}


def test_the_manager_of_an_update_comes_from_the_user_agent(api: Api, configmaps: str) -> None:
    agent = {"User-Agent": "tool/v1.2 (linux/amd64)"}
    made = api.request("POST", configmaps, cm(k="1"), headers=agent).must(201)
    assert list(owners(made)) == [("tool", "Update", "")]


def test_maps_in_lists_are_owned_by_key(api: Api, pods: str) -> None:
    sent = pod("a", containers=[{"name": "one", "image": "i:1"}])
    made = api.apply(f"{pods}/a", sent, "one").must(201)
    fields = owners(made)["one", "Apply", ""]["f:spec"]["f:containers"]
    assert fields == {'k:{"name":"one"}': {".": {}, "f:image": {}, "f:name": {}}}


def test_elements_of_several_managers_live_together(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/a"

    def applied(name: str, manager: str) -> Reply:
        sent = deployment("a")
        sent["spec"]["template"]["spec"]["containers"] = [{"name": name, "image": f"{name}:1"}]
        return api.apply(path, sent, manager)

    applied("one", "first").must(201)
    both = applied("two", "second").must(200)
    assert [each["name"] for each in both["spec"]["template"]["spec"]["containers"]] == ["one", "two"]
    swapped = applied("three", "first").must(200)
    assert [each["name"] for each in swapped["spec"]["template"]["spec"]["containers"]] == ["two", "three"]


def test_sets_are_owned_by_value(api: Api, configmaps: str) -> None:
    def applied(value: str, manager: str) -> Any:
        sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [value]}}
        return api.apply(f"{configmaps}/a", sent, manager).must()

    applied("a.io/1", "one")
    both = applied("a.io/2", "two")
    assert both["metadata"]["finalizers"] == ["a.io/1", "a.io/2"]
    assert owners(both)["two", "Apply", ""]["f:metadata"]["f:finalizers"] == {'v:"a.io/2"': {}}


def test_an_empty_map_is_a_field_too(api: Api, configmaps: str) -> None:
    made = api.apply(f"{configmaps}/a", cm(), "one").must(201)
    assert owners(made) == {("one", "Apply", ""): {"f:data": {}}}
    reply = api.apply(f"{configmaps}/a", cm(k="1"), "two")
    conflict = (409, 'Apply failed with 1 conflict: conflict with "one": .data')
    assert (reply.status, reply.message) == api.unlike(kubernetes=conflict, ours=(200, ""))


def test_status_has_managers_of_its_own(api: Api, claims: str, allocated: Allocated) -> None:
    api.apply(f"{claims}/a", claim("a"), "author").must(201)
    status = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
    changed = api.apply(f"{claims}/a/status", {**status, "status": allocated()}, "scheduler").must(200)
    assert set(owners(changed)) == {("author", "Apply", ""), ("scheduler", "Apply", "status")}
    assert changed["status"] == allocated()


def test_managed_fields_can_be_cleared(api: Api, configmaps: str) -> None:
    api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    cleared = api.patch(f"{configmaps}/a", {"metadata": {"managedFields": [{}]}}).must(200)
    assert "managedFields" not in cleared["metadata"]


def test_a_dry_run_tells_without_doing(api: Api, configmaps: str) -> None:
    made = api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    told = api.apply(f"{configmaps}/a", cm(k="2"), "one", more="&dryRun=All").must(200)
    assert told["data"] == {"k": "2"}
    assert api.get(f"{configmaps}/a").must() == made


def test_apply_takes_yaml(api: Api, configmaps: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'yes'\n"
    assert api.apply(f"{configmaps}/a", text, "one").must(201)["data"] == {"k": "yes"}


REFUSED: dict[str, tuple[str, Any, int, str, str]] = {
    "no manager": (
        "",
        cm(),
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    ),
    "no kind": ("?fieldManager=x", {"data": {}}, 400, "BadRequest", "invalid object type: /, Kind="),
    "another kind": (
        "?fieldManager=x",
        {**cm(), "kind": "Secret"},
        400,
        "BadRequest",
        "invalid object type: /v1, Kind=Secret",
    ),
    "another name": (
        "?fieldManager=x",
        configmap("b"),
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    "managed fields": (
        "?fieldManager=x",
        {**cm(), "metadata": {"name": "a", "managedFields": [{}]}},
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    ),
    "an old revision": (
        "?fieldManager=x",
        {**cm(), "metadata": {"name": "a", "resourceVersion": "1"}},
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(api: Api, configmaps: str, case: str) -> None:
    query, body, *expected = REFUSED[case]
    api.post(configmaps, cm(k="1")).must(201)
    reply = api.patch(f"{configmaps}/a{query}", body, APPLY)
    assert [reply.status, reply.reason, reply.message] == expected


def test_a_field_that_the_kind_does_not_have(api: Api, configmaps: str) -> None:
    reply = api.apply(f"{configmaps}/a", {**cm(), "nope": 1}, "one")
    assert (reply.status, reply.reason) == api.unlike(kubernetes=(500, ""), ours=(400, "BadRequest"))
    assert reply.message.startswith("failed to create typed patch object (")
    assert reply.message.endswith("/a; /v1, Kind=ConfigMap): .nope: field not declared in schema")


def test_what_is_applied_to_what_is_being_made_by_hand(api: Api, configmaps: str) -> None:
    """kubectl's way from client-side to server-side apply: the old manager's fields are shared."""
    api.post(f"{configmaps}?fieldManager=kubectl-create", cm(k="1")).must(201)
    changed = api.apply(f"{configmaps}/a", cm(k="1"), "kubectl").must(200)
    assert set(owners(changed)) == {("kubectl", "Apply", ""), ("kubectl-create", "Update", "")}


def test_an_empty_patch_after_apply_is_no_change(api: Api, configmaps: str) -> None:
    made = api.apply(f"{configmaps}/a", cm(k="1"), "one").must(201)
    assert api.patch(f"{configmaps}/a?fieldManager=other", {"data": {"k": "1"}}, MERGE).must(200) == made


def test_owned_fields_are_sorted(api: Api, pods: str) -> None:
    """However they were sent; those who compare texts of objects go by it."""
    ports = [{"containerPort": 9}, {"containerPort": 80, "name": "web"}, {"containerPort": 8080}]
    env = [{"name": "Z", "value": "1"}, {"name": "A", "value": "2"}]
    main = {"ports": ports, "name": "main", "image": "example.com/main:1", "env": env}
    labels = {"z": "1", "a": "2"}
    sent = {"spec": {"containers": [main]}, "metadata": {"name": "a", "labels": labels}}
    fields = api.post(pods, {"kind": "Pod", "apiVersion": "v1", **sent}).must(201)["metadata"][
        "managedFields"
    ][0]["fieldsV1"]
    assert list(fields["f:metadata"]["f:labels"]) == [".", "f:a", "f:z"]
    container = fields["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert list(container)[:4] == [".", "f:env", "f:image", "f:imagePullPolicy"]
    assert list(container["f:env"]) == [".", 'k:{"name":"A"}', 'k:{"name":"Z"}']
    assert list(container["f:ports"]) == [
        ".",
        'k:{"containerPort":9,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":8080,"protocol":"TCP"}',
    ]


def test_a_changed_share_is_sorted_too(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a", z="1")).must(201)
    changed = api.put(f"{configmaps}/a", configmap("a", z="1", a="2")).must()
    assert list(changed["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]) == [".", "f:a", "f:z"]
