"""JSON patch, merge patch and strategic merge patch: what each does, and what each refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import claim, configmap, deployment, node, pod
from tests.contract.api import JSON, MERGE, STRATEGIC, Api
from tests.contract.conftest import Allocated

MEANINGLESS = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        pytest.param(
            [{"op": "add", "path": "/data/n", "value": "1"}], {"k": "v", "l": "w", "n": "1"}, id="add"
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/k", "value": "2"}], {"k": "2", "l": "w"}, id="replace"
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/n", "value": "1"}],
            {"k": "v", "l": "w", "n": "1"},
            id="replace what is not there",  # RFC 6902 says this is an error; Kubernetes adds it
        ),
        pytest.param([{"op": "remove", "path": "/data/k"}], {"l": "w"}, id="remove"),
        pytest.param([{"op": "move", "from": "/data/k", "path": "/data/m"}], {"l": "w", "m": "v"}, id="move"),
        pytest.param(
            [{"op": "copy", "from": "/data/k", "path": "/data/m"}], {"k": "v", "l": "w", "m": "v"}, id="copy"
        ),
        pytest.param(
            [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/l"}],
            {"k": "v"},
            id="test that holds",
        ),
        pytest.param([{"op": "add", "path": "/data", "value": {"x": "y"}}], {"x": "y"}, id="add over"),
        pytest.param([{"op": "remove", "path": "/data"}], None, id="remove all"),
    ],
)
def test_json_patch(api: Api, configmaps: str, patch: Any, data: Any) -> None:
    api.post(configmaps, configmap("a", k="v", l="w")).must(201)
    assert api.patch(f"{configmaps}/a", patch, JSON).must(200).get("data") == data


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([{"op": "test", "path": "/data/k", "value": "x"}], id="test that fails"),
        pytest.param([{"op": "remove", "path": "/data/absent"}], id="remove what is not there"),
        pytest.param([{"op": "add", "path": "/absent/x", "value": "1"}], id="add below nothing"),
        pytest.param(
            [{"op": "move", "from": "/data/absent", "path": "/data/x"}], id="move what is not there"
        ),
        pytest.param([{"op": "bogus", "path": "/data/k"}], id="an unknown operation"),
    ],
)
def test_json_patch_that_does_not_apply(api: Api, configmaps: str, patch: Any) -> None:
    made = api.post(configmaps, configmap("a", k="v")).must(201)
    reply = api.patch(f"{configmaps}/a", patch, JSON)
    assert (reply.status, reply.reason, reply.message) == (422, "Invalid", MEANINGLESS)
    assert api.get(f"{configmaps}/a").must() == made


def test_json_patch_of_lists(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/1", "a.io/3"]
    api.post(configmaps, sent).must(201)
    patch = [
        {"op": "add", "path": "/metadata/finalizers/1", "value": "a.io/2"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "a.io/4"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    changed = api.patch(f"{configmaps}/a", patch, JSON).must(200)
    assert changed["metadata"]["finalizers"] == ["a.io/2", "a.io/3", "a.io/4"]


def test_json_pointers_escape(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    patch = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a.io~1x", "value": "1"},
    ]
    assert api.patch(f"{configmaps}/a", patch, JSON).must(200)["metadata"]["annotations"] == {"a.io/x": "1"}


def test_merge_patch_removes_by_null_and_replaces_lists(api: Api, pods: str) -> None:
    sent = pod("a", {"x": "1", "y": "2"})
    sent["metadata"]["finalizers"] = ["a.io/1", "a.io/2"]
    api.post(pods, sent).must(201)
    patch = {"metadata": {"labels": {"x": None, "z": "3"}, "finalizers": ["a.io/2"]}}
    meta = api.patch(f"{pods}/a", patch).must(200)["metadata"]
    assert (meta["labels"], meta["finalizers"]) == ({"y": "2", "z": "3"}, ["a.io/2"])


def images(obj: Any) -> dict[str, str]:
    spec = obj["spec"].get("template", obj)["spec"]
    return {each["name"]: each["image"] for each in spec["containers"]}


def test_strategic_patch_merges_containers_by_name(api: Api, pods: str) -> None:
    api.post(
        pods, pod("a", containers=[{"name": "one", "image": "i:1"}, {"name": "two", "image": "i:1"}])
    ).must(201)
    patch = {"spec": {"containers": [{"name": "two", "image": "i:2"}]}}
    assert images(api.patch(f"{pods}/a", patch, STRATEGIC).must(200)) == {"one": "i:1", "two": "i:2"}


STRATEGIC_CASES: dict[str, tuple[Any, dict[str, str]]] = {
    "adds an element": ([{"name": "new", "image": "i:9"}], {"new": "i:9", "one": "i:1", "two": "i:2"}),
    "deletes an element": ([{"name": "one", "$patch": "delete"}], {"two": "i:2"}),
    "replaces the list": ([{"name": "new", "image": "i:9"}, {"$patch": "replace"}], {"new": "i:9"}),
    "merges an element": ([{"name": "one", "image": "i:7"}], {"one": "i:7", "two": "i:2"}),
}


@pytest.mark.parametrize("case", STRATEGIC_CASES)
def test_strategic_patch_of_a_list(api: Api, namespace: str, case: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    sent = deployment("a")
    sent["spec"]["template"]["spec"]["containers"] = [
        {"name": "one", "image": "i:1"},
        {"name": "two", "image": "i:2"},
    ]
    api.post(path, sent).must(201)
    containers, expected = STRATEGIC_CASES[case]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    changed = api.patch(f"{path}/a", patch, STRATEGIC).must(200)
    assert images(changed) == expected
    assert list(images(changed)) == list(expected)  # in this order


def test_strategic_patch_sets_the_order_of_elements(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    sent = deployment("a")
    sent["spec"]["template"]["spec"]["containers"] = [
        {"name": "one", "image": "i:1"},
        {"name": "two", "image": "i:2"},
    ]
    api.post(path, sent).must(201)
    order = [{"name": "two"}, {"name": "three"}, {"name": "one"}]
    changes = [{"name": "three", "image": "i:3"}]
    patch = {"spec": {"template": {"spec": {"$setElementOrder/containers": order, "containers": changes}}}}
    assert list(images(api.patch(f"{path}/a", patch, STRATEGIC).must(200))) == ["two", "three", "one"]


def test_strategic_patch_merges_and_deletes_primitives(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/1", "a.io/2"]
    api.post(configmaps, sent).must(201)
    added = api.patch(f"{configmaps}/a", {"metadata": {"finalizers": ["a.io/3"]}}, STRATEGIC).must(200)
    assert added["metadata"]["finalizers"] == ["a.io/3", "a.io/1", "a.io/2"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/1"]}}
    assert api.patch(f"{configmaps}/a", patch, STRATEGIC).must(200)["metadata"]["finalizers"] == [
        "a.io/3",
        "a.io/2",
    ]


def test_strategic_patch_retains_keys(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = api.post(path, deployment("a")).must(201)
    assert made["spec"]["strategy"]["type"] == "RollingUpdate"
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert api.patch(f"{path}/a", patch, STRATEGIC).must(200)["spec"]["strategy"] == {"type": "Recreate"}


def test_strategic_patch_replaces_a_map(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a", k="v", l="w")).must(201)
    patch = {"data": {"$patch": "replace", "n": "1"}}
    assert api.patch(f"{configmaps}/a", patch, STRATEGIC).must(200)["data"] == {"n": "1"}


def test_strategic_patch_of_a_claims_reservations_merges_by_uid(
    api: Api, claims: str, allocated: Allocated
) -> None:
    api.post(claims, claim("a")).must(201)
    for uid in ("u1", "u2"):
        reserved = [{"resource": "pods", "name": f"p-{uid}", "uid": uid}]
        changed = api.patch(
            f"{claims}/a/status", {"status": {**allocated(), "reservedFor": reserved}}, STRATEGIC
        )
    assert [each["uid"] for each in changed.must(200)["status"]["reservedFor"]] == ["u2", "u1"]
    patch = {"status": {"reservedFor": [{"uid": "u1", "$patch": "delete"}]}}
    assert [
        each["uid"]
        for each in api.patch(f"{claims}/a/status", patch, STRATEGIC).must()["status"]["reservedFor"]
    ] == ["u2"]


REFUSED: dict[str, tuple[str, Any, int, str, str]] = {
    "an unknown type": ("application/nope", {}, 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    "text that is no JSON": (MERGE, b"{", 400, "BadRequest", "invalid JSON patch"),
    "text that is no JSON, strategic": (STRATEGIC, b"{", 400, "BadRequest", "invalid JSON patch"),
    "an object as JSON patch": (
        JSON,
        {"op": "add"},
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    "a list as merge patch": (
        MERGE,
        [1],
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    "another name": (
        MERGE,
        {"metadata": {"name": "b"}},
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    "another namespace": (
        MERGE,
        {"metadata": {"namespace": "b"}},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another uid": (
        MERGE,
        {"metadata": {"uid": "x"}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable',
    ),
    "an old revision": (
        MERGE,
        {"metadata": {"resourceVersion": "1"}, "data": {"k": "x"}},
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(api: Api, configmaps: str, case: str) -> None:
    kind, patch, *expected = REFUSED[case]
    api.post(configmaps, configmap("a", k="v")).must(201)
    reply = api.patch(f"{configmaps}/a", patch, kind)
    assert [reply.status, reply.reason, reply.message] == expected


def test_what_is_not_there(api: Api, configmaps: str) -> None:
    reply = api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
    assert (reply.status, reply.message) == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"metadata": {"labels": {"a": 1}}}, id="a label that is a number"),
        pytest.param({"data": "text"}, id="data that is a text"),
    ],
)
def test_a_patch_to_what_the_kind_cannot_be(api: Api, configmaps: str, patch: Any) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.patch(f"{configmaps}/a", patch)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert [(cause["reason"], cause["field"]) for cause in reply.causes] == [("FieldValueInvalid", "patch")]


def test_force_is_for_apply_only(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.patch(f"{configmaps}/a?force=true", {})
    assert (reply.status, reply.message) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


def test_a_stored_condition_without_a_type_hinders_no_patch(api: Api, fresh: str) -> None:
    """Whoever may write a status may leave a condition's type out; a kubelet's next patch of another one is taken."""
    odd = {"status": "True", "message": "whatever"}
    api.post("/api/v1/nodes", node(fresh)).must(201)
    path = f"/api/v1/nodes/{fresh}/status"
    api.patch(path, {"status": {"conditions": [odd]}}, MERGE).must()
    ready = {"type": "Ready", "status": "True"}
    patched = api.patch(path, {"status": {"conditions": [ready]}}, STRATEGIC).must()
    told = [(each.get("type") or "", each["status"]) for each in patched["status"]["conditions"]]
    assert sorted(told) == [("", "True"), ("Ready", "True")]
    api.delete(f"/api/v1/nodes/{fresh}").must()
