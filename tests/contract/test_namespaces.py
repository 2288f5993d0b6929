"""Namespaces: what they start with, and how everything in them goes before they do."""

from __future__ import annotations

from tests.builders.plain import claim, configmap, pod
from tests.contract.api import Api


def test_a_new_one(api: Api, fresh: str) -> None:
    made = api.post("/api/v1/namespaces", {"metadata": {"name": fresh}}).must(201)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": fresh}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}


def test_some_are_always_there(api: Api) -> None:
    for name in ("default", "kube-system", "kube-node-lease"):
        assert api.get(f"/api/v1/namespaces/{name}").status == 200


def test_its_name_is_a_label(api: Api, fresh: str) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": fresh, "labels": {"x": "y"}}}).must(201)
    api.patch(
        f"/api/v1/namespaces/{fresh}", {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}
    ).must()
    kept = api.get(f"/api/v1/namespaces/{fresh}").must()["metadata"]["labels"]
    assert kept == {"x": "y", "kubernetes.io/metadata.name": fresh}


def test_a_bad_name(api: Api) -> None:
    reply = api.post("/api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message.startswith(
        'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots'
    ) or reply.message.startswith(
        'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": a lowercase RFC 1123 label must consist of'
    )


def test_deleting_takes_everything_along(
    api: Api, namespace: str, configmaps: str, pods: str, claims: str
) -> None:
    held = configmap("held")
    held["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, held).must(201)
    api.post(configmaps, configmap("free")).must(201)
    api.post(pods, pod("p")).must(201)
    api.post(claims, claim("c")).must(201)
    path = f"/api/v1/namespaces/{namespace}"
    going = api.delete(path).must()
    assert going["status"]["phase"] == "Terminating"
    assert going["metadata"]["deletionTimestamp"]
    for gone in (f"{configmaps}/free", f"{pods}/p", f"{claims}/c"):
        api.gone(gone)
    assert api.get(path).must()["status"]["phase"] == "Terminating"  # held by the finalizer of what is in it
    api.patch(f"{configmaps}/held", {"metadata": {"finalizers": None}}).must()
    api.gone(path)


def test_pods_go_first(api: Api, namespace: str, configmaps: str, pods: str) -> None:
    """The rest waits until the last of them is gone, whatever holds it; the namespace says so."""
    held = pod("held")
    held["metadata"]["finalizers"] = ["a.io/x"]
    api.post(pods, held).must(201)
    api.post(pods, pod("free")).must(201)
    api.post(configmaps, configmap("needed")).must(201)
    path = f"/api/v1/namespaces/{namespace}"
    api.delete(path).must()
    api.gone(f"{pods}/free")
    told = api.eventually(lambda: _conditions(api, path) or None, "the namespace says what keeps it")
    assert api.get(f"{configmaps}/needed").status == 200
    assert told["NamespaceDeletionContentFailure"] == ("False", "ContentDeleted")
    assert told["NamespaceContentRemaining"] == api.unlike(
        kubernetes=("False", "ContentRemoved"), ours=("True", "SomeResourcesRemain")
    )
    api.patch(f"{pods}/held", {"metadata": {"finalizers": None}}).must()
    api.gone(f"{configmaps}/needed")
    api.gone(path)


def test_it_says_what_keeps_it(api: Api, namespace: str, configmaps: str) -> None:
    held = configmap("held")
    held["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, held).must(201)
    path = f"/api/v1/namespaces/{namespace}"
    api.delete(path).must()
    api.eventually(
        lambda: (
            _conditions(api, path).get("NamespaceFinalizersRemaining") == ("True", "SomeFinalizersRemain")
            or None
        ),
        "conditions",
    )
    told = {each["type"]: each for each in api.get(path).must()["status"]["conditions"]}
    assert [*told] == [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    ]
    assert "configmaps. has 1 resource instances" in told["NamespaceContentRemaining"]["message"]
    finalizers = "Some content in the namespace has finalizers remaining: a.io/x in 1 resource instances"
    assert told["NamespaceFinalizersRemaining"]["message"] == finalizers
    api.patch(f"{configmaps}/held", {"metadata": {"finalizers": None}}).must()
    api.gone(path)


def _conditions(api: Api, path: str) -> dict[str, tuple[str, str]]:
    told = api.get(path).must()["status"].get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"]) for each in told}


def test_nothing_is_created_in_one_that_goes(api: Api, namespace: str, configmaps: str) -> None:
    held = configmap("held")
    held["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, held).must(201)
    api.delete(f"/api/v1/namespaces/{namespace}").must()
    reply = api.post(configmaps, configmap("late"))
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {namespace} because it is being terminated'
    )
    assert reply.causes == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    api.patch(f"{configmaps}/held", {"metadata": {"finalizers": None}}).must()


def test_the_default_one_stays(api: Api) -> None:
    reply = api.delete("/api/v1/namespaces/default")
    assert (reply.status, reply.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


def test_finalize_is_a_path_of_its_own(api: Api, namespace: str) -> None:
    found = api.get(f"/api/v1/namespaces/{namespace}").must()
    kept = api.put(f"/api/v1/namespaces/{namespace}", {**found, "spec": {}}).must()
    assert kept["spec"] == {"finalizers": ["kubernetes"]}
    cleared = api.put(f"/api/v1/namespaces/{namespace}/finalize", {**found, "spec": {}}).must()
    assert cleared["spec"] == {}
