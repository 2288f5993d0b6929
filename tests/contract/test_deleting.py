"""Deleting: at once, after finalizers, after a grace period, with or without what it owns."""

from __future__ import annotations

import pytest

from tests.builders.plain import claim, configmap, node, owned, pod, resource_slice
from tests.contract.api import Api


def test_the_reply_names_what_was_deleted(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    reply = api.delete(f"{configmaps}/a")
    assert reply.must(200) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert api.get(f"{configmaps}/a").status == 404


def test_the_reply_in_a_group(api: Api, fresh: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    api.post(slices, resource_slice(fresh)).must(201)
    gone = api.delete(f"{slices}/{fresh}").must(200)
    assert (gone["kind"], gone["metadata"]["name"]) == ("ResourceSlice", fresh)  # DRA kinds return the object


def test_what_is_not_there(api: Api, configmaps: str) -> None:
    reply = api.delete(f"{configmaps}/a")
    assert (reply.status, reply.message) == (404, 'configmaps "a" not found')


def test_finalizers_hold_it(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/x", "b.io/y"]
    made = api.post(configmaps, sent).must(201)
    held = api.delete(f"{configmaps}/a").must(200)
    assert held["metadata"]["deletionTimestamp"] >= made["metadata"]["creationTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert int(held["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert api.delete(f"{configmaps}/a").must(200) == held  # a second time changes nothing
    left = api.patch(f"{configmaps}/a", {"metadata": {"finalizers": ["b.io/y"]}}).must(200)
    assert left["metadata"]["finalizers"] == ["b.io/y"]
    last = api.patch(f"{configmaps}/a", {"metadata": {"finalizers": None}}).must(200)
    assert "finalizers" not in last["metadata"]
    assert api.get(f"{configmaps}/a").status == 404


def test_watchers_of_a_held_object_see_modified_then_deleted(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/x"]
    since = api.post(configmaps, sent).must(201)["metadata"]["resourceVersion"]
    api.delete(f"{configmaps}/a").must(200)
    api.patch(f"{configmaps}/a", {"metadata": {"finalizers": []}}).must(200)
    with api.watch(f"{configmaps}?resourceVersion={since}") as events:
        seen = events.take(2)
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    assert "deletionTimestamp" in seen[0]["object"]["metadata"]


def test_no_finalizer_is_added_while_it_goes(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, sent).must(201)
    api.delete(f"{configmaps}/a").must(200)
    reply = api.patch(f"{configmaps}/a", {"metadata": {"finalizers": ["a.io/x", "c.io/x"]}})
    assert (reply.status, reply.message) == (
        422,
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"c.io/x"}',
    )


def test_a_deletion_is_not_taken_back(api: Api, configmaps: str) -> None:
    sent = configmap("a")
    sent["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, sent).must(201)
    held = api.delete(f"{configmaps}/a").must(200)
    assert api.patch(f"{configmaps}/a", {"metadata": {"deletionTimestamp": None}}).must(200) == held


@pytest.mark.parametrize("what", ["uid", "resourceVersion"])
def test_preconditions_that_fail(api: Api, configmaps: str, what: str) -> None:
    meta = api.post(configmaps, configmap("a")).must(201)["metadata"]
    reply = api.delete(f"{configmaps}/a", {"preconditions": {what: "5"}})
    expected = {
        "uid": f"the UID in the precondition (5) does not match the UID in record ({meta['uid']}). The object might have been deleted and then recreated",
        "resourceVersion": f"the ResourceVersion in the precondition (5) does not match the ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
    }
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.message == f'Operation cannot be fulfilled on ConfigMap "a": {expected[what]}'
    assert reply.json["details"] == {"name": "a", "kind": "ConfigMap"}


@pytest.mark.parametrize("what", ["uid", "resourceVersion"])
def test_preconditions_that_hold(api: Api, configmaps: str, what: str) -> None:
    meta = api.post(configmaps, configmap("a")).must(201)["metadata"]
    api.delete(f"{configmaps}/a", {"preconditions": {what: meta[what]}}).must(200)


REFUSED = {
    "an unknown policy": (
        {"propagationPolicy": "Nope"},
        'propagationPolicy: Unsupported value: "Nope": supported values: "Foreground", "Background", "Orphan", "nil"',
    ),
    "both ways to say orphan": (
        {"propagationPolicy": "Foreground", "orphanDependents": True},
        'propagationPolicy: Invalid value: "Foreground": orphanDependents and deletionPropagation cannot be both set',
    ),
    "a dry run of something": (
        {"dryRun": ["Some"]},
        'dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_are_checked(api: Api, configmaps: str, case: str) -> None:
    options, message = REFUSED[case]
    api.post(configmaps, configmap("a")).must(201)
    reply = api.delete(f"{configmaps}/a", options)
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message == f'DeleteOptions.meta.k8s.io "" is invalid: {message}'


def test_a_collection_by_label(api: Api, configmaps: str) -> None:
    for name, label in {"a": "1", "b": "1", "c": "2"}.items():
        api.post(configmaps, configmap(name, {"n": label})).must(201)
    gone = api.delete(f"{configmaps}?labelSelector=n=1").must(200)
    assert gone["kind"] == "ConfigMapList"
    assert sorted(item["metadata"]["name"] for item in gone["items"]) == ["a", "b"]
    assert [
        item["metadata"]["name"] for item in api.get(f"{configmaps}?labelSelector=n").must()["items"]
    ] == ["c"]


def test_a_pod_on_no_node_goes_at_once(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    gone = api.delete(f"{pods}/a").must(200)
    assert gone["kind"] == "Pod"
    assert api.get(f"{pods}/a").status == 404


def test_a_pod_on_a_node_has_a_grace_period(api: Api, pods: str) -> None:
    api.post(pods, pod("a", nodeName="n1")).must(201)
    held = api.delete(f"{pods}/a").must(200)
    assert held["metadata"]["deletionGracePeriodSeconds"] == 30
    assert held["metadata"]["generation"] == 2
    assert api.delete(f"{pods}/a").must(200)["metadata"] == held["metadata"]
    shorter = api.delete(f"{pods}/a", {"gracePeriodSeconds": 5}).must(200)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    api.delete(f"{pods}/a", {"gracePeriodSeconds": 0}).must(200)
    assert api.get(f"{pods}/a").status == 404


def test_a_pod_may_ask_for_its_own_grace(api: Api, pods: str) -> None:
    api.post(pods, pod("a", nodeName="n1", terminationGracePeriodSeconds=7)).must(201)
    assert api.delete(f"{pods}/a").must(200)["metadata"]["deletionGracePeriodSeconds"] == 7
    api.delete(f"{pods}/a?gracePeriodSeconds=0").must(200)
    assert api.get(f"{pods}/a").status == 404


def test_in_the_background_what_it_owns_follows(api: Api, configmaps: str) -> None:
    owner = api.post(configmaps, configmap("owner")).must(201)
    child = api.post(configmaps, owned(configmap("child"), owner)).must(201)
    api.post(configmaps, owned(configmap("grandchild"), child)).must(201)
    api.delete(f"{configmaps}/owner", {"propagationPolicy": "Background"}).must(200)
    assert api.get(f"{configmaps}/owner").status == 404
    api.gone(f"{configmaps}/child")
    api.gone(f"{configmaps}/grandchild")


def test_in_the_foreground_it_waits_for_what_it_owns(api: Api, configmaps: str) -> None:
    owner = api.post(configmaps, configmap("owner")).must(201)
    child = owned(configmap("child"), owner, blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["a.io/x"]
    api.post(configmaps, child).must(201)
    held = api.delete(f"{configmaps}/owner", {"propagationPolicy": "Foreground"}).must(200)
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    with api.watch(f"{configmaps}?fieldSelector=metadata.name=child") as events:
        events.until(lambda event: "deletionTimestamp" in event["object"]["metadata"])
    assert api.get(f"{configmaps}/owner").status == 200
    api.patch(f"{configmaps}/child", {"metadata": {"finalizers": None}}).must(200)
    api.gone(f"{configmaps}/owner")


@pytest.mark.parametrize("options", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
def test_orphans_stay_without_their_owner(api: Api, configmaps: str, options: dict[str, object]) -> None:
    owner = api.post(configmaps, configmap("owner")).must(201)
    api.post(configmaps, owned(configmap("child"), owner)).must(201)
    held = api.delete(f"{configmaps}/owner", options).must(200)
    assert held["metadata"]["finalizers"] == ["orphan"]
    api.gone(f"{configmaps}/owner")
    assert "ownerReferences" not in api.get(f"{configmaps}/child").must()["metadata"]


def test_what_is_owned_by_nothing_that_exists_goes(api: Api, configmaps: str) -> None:
    owner = api.post(configmaps, configmap("owner")).must(201)
    api.delete(f"{configmaps}/owner").must(200)
    api.post(configmaps, owned(configmap("late"), owner)).must(201)
    api.gone(f"{configmaps}/late")


def test_two_owners_are_enough_for_one_to_go(api: Api, configmaps: str) -> None:
    one, two = (api.post(configmaps, configmap(name)).must(201) for name in ("one", "two"))
    child = owned(configmap("child"), one)
    child["metadata"]["ownerReferences"] += owned(configmap("child"), two)["metadata"]["ownerReferences"]
    api.post(configmaps, child).must(201)
    api.delete(f"{configmaps}/one", {"propagationPolicy": "Background"}).must(200)
    with api.watch(f"{configmaps}?fieldSelector=metadata.name=child") as events:
        left = events.until(lambda event: len(event["object"]["metadata"]["ownerReferences"]) == 1)
    assert left["type"] != "DELETED"
    assert left["object"]["metadata"]["ownerReferences"][0]["name"] == "two"


def test_a_claim_owned_by_a_pod_goes_with_it(api: Api, pods: str, claims: str) -> None:
    owner = api.post(pods, pod("p")).must(201)
    api.post(claims, owned(claim("c"), owner)).must(201)
    api.delete(f"{pods}/p").must(200)
    api.gone(f"{claims}/c")


def test_a_slice_owned_by_a_node_goes_with_it(api: Api, fresh: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    owner = api.post("/api/v1/nodes", node(fresh)).must(201)
    api.post(slices, owned(resource_slice(fresh, fresh), owner)).must(201)
    api.delete(f"/api/v1/nodes/{fresh}").must(200)
    api.gone(f"{slices}/{fresh}")
