"""Claims are made from templates: once, for the right owner, with the right content, at the price of two writes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from allotment.api.claim_marks import FINALIZER, SEMANTIC_FINALIZER
from allotment.api.core import Pod
from allotment.controllers.claims.claim_users import claim_name
from allotment.controllers.claims.metrics import ClaimCreations
from allotment.controllers.claims.template_claims import OwnerKey, TemplateClaims
from tests.controllers.claims.claim_objects import (
    NAMESPACE,
    V1,
    bind,
    change,
    claiming_pod,
    claims_of,
    controllers,
    finalized_claim,
    finish,
    group,
    labelling_template,
    recorded,
    remove,
    semantic_spec,
    until_recorded,
)
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.failing import Failing, Held


class Counting(Failing):
    """Fails at no write, and counts reads too."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    async def call(self, call: Any) -> Any:
        if call.method == "GET" and not call.path.endswith("s"):  # lists are the informers'
            self.reads.append(call.path)
        return await super().call(call)


async def counted(cluster: Cluster) -> Counting:
    connection = Counting()
    await controllers(cluster, through=connection.through)
    return connection


@pytest.mark.parametrize("plural", ["resourceclaims", "pods"])
def test_nothing_is_written_again_before_the_copy_shows_it(tmp_path: Path, plural: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        watch, traffic = Held(), Counting()
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        part = cluster.component(through=lambda beneath: watch.through(traffic.through(beneath)))
        made = TemplateClaims(part.client, part.informers, part.recorder)
        await part.start()
        key = OwnerKey("Pod", NAMESPACE, "p")
        watch.hold(f"/{plural}")
        await made.reconcile(key)
        again = asyncio.create_task(made.reconcile(key))
        await watch.waiting.wait()
        assert not again.done()
        watch.release()
        await again
        assert [write.split()[0] for write in traffic.writes] == ["POST", "PATCH"]
        assert traffic.reads == []

    in_cluster(tmp_path, scenario)


def test_a_pod_gets_its_claim_for_two_writes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        traffic = await counted(cluster)
        await cluster.create(
            labelling_template("one-gpu", {"team": "a"}, note="x"), labelling_template("other")
        )
        made, _ = await cluster.create(claiming_pod("p", "one-gpu"), claiming_pod("needs-nothing"))
        await until_recorded(cluster, "p")
        name = claim_name("p", "a", made["metadata"]["uid"])
        assert recorded(cluster, "p") == {"a": name}
        found = await cluster.admin.plain(V1, "resourceclaims").get(name, NAMESPACE)
        meta = found["metadata"]
        assert meta["labels"] == {"team": "a"}
        assert meta["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "a"}
        assert meta["finalizers"] == [FINALIZER]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert meta["ownerReferences"] == [owner]
        assert (
            found["spec"]
            == (await cluster.admin.plain(V1, "resourceclaimtemplates").get("one-gpu", NAMESPACE))["spec"][
                "spec"
            ]
        )
        await change(cluster, "v1", "pods", "p", {"metadata": {"labels": {"x": "y"}}})
        await cluster.quiet()
        assert traffic.writes == [
            f"POST /apis/{V1}/namespaces/default/resourceclaims",
            "PATCH /api/v1/namespaces/default/pods/p/status",
        ]
        assert traffic.reads == []

    in_cluster(tmp_path, scenario)


def test_several_entries_and_what_others_wrote_stay_together(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(
            labelling_template("x"),
            labelling_template("y"),
            claiming_pod("p", "x", "y", "x", claims=("own",)),
        )
        theirs = [{"name": "b", "resourceClaimName": None}, {"name": "own", "resourceClaimName": "own"}]
        await change(
            cluster, "v1", "pods", "p", {"status": {"resourceClaimStatuses": theirs}}, subresource="status"
        )
        await controllers(cluster)
        names = await until_recorded(cluster, "p", 4)
        assert names["b"] == ""  # somebody found that none is needed
        assert names["own"] == "own"
        await cluster.quiet()
        assert sorted(claims_of(cluster)) == sorted((names["a"], names["c"]))

    in_cluster(tmp_path, scenario)


def test_semantic_templates_give_semantic_claims(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        older = "resource.k8s.io/v1alpha2"
        spec = semantic_spec("Immediate")
        await controllers(cluster)
        await cluster.create(
            {**labelling_template("t"), "apiVersion": older, "spec": {"spec": spec}},
            claiming_pod("p", "t"),
        )
        names = await until_recorded(cluster, "p")
        made = await cluster.admin.plain(older, "resourceclaims").get(names["a"], NAMESPACE)
        assert made["spec"] == spec
        assert made["metadata"]["finalizers"] == [SEMANTIC_FINALIZER]

    in_cluster(tmp_path, scenario)


def test_a_missing_template_is_told_once_and_waited_for(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(claiming_pod("p", "late"))
        told = await cluster.eventually(lambda: cluster.events("p"))
        assert told == [
            "FailedResourceClaimCreation: the claim 'a' will be created as soon as the ResourceClaimTemplate default/late exists"
        ]
        await change(cluster, "v1", "pods", "p", {"metadata": {"labels": {"x": "y"}}})
        await cluster.quiet()
        (event,) = cluster.seen.plain("v1", "events").all()
        assert event["count"] == 1
        await cluster.create(labelling_template("late"))
        await until_recorded(cluster, "p")

    in_cluster(tmp_path, scenario)


def test_a_template_that_the_copy_lacks_is_asked_for(tmp_path: Path) -> None:
    """The pod's event may arrive before its template's."""

    async def scenario(cluster: Cluster) -> None:
        part = cluster.component()
        made = TemplateClaims(part.client, part.informers, part.recorder)
        made._templates.get = lambda name, namespace="": None  # type: ignore[method-assign]  # the copy is behind
        await part.start(made)
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        await until_recorded(cluster, "p")
        await cluster.quiet()
        assert cluster.events("p") == []

    in_cluster(tmp_path, scenario)


def test_a_foreign_claim_of_the_name_is_said_and_left_alone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        (made,) = await cluster.create(claiming_pod("p", "one-gpu", "one-gpu"))
        name = claim_name("p", "a", made["metadata"]["uid"])
        await cluster.create(labelling_template(), finalized_claim(name, finalizers=()))
        part = await controllers(cluster)
        told = await cluster.eventually(lambda: cluster.events("p"))
        assert told == [
            f"FailedResourceClaimCreation: there is a ResourceClaim default/{name} that was not created for this Pod; "
            "delete it, and a new one will be created"
        ]
        await cluster.eventually(lambda: recorded(cluster, "p").keys() == {"b"})  # the other entry is served
        await cluster.admin.plain(V1, "resourceclaims").delete(name, NAMESPACE)
        queue = part.reconcilers[0].queue
        for key in list(queue._timers):  # the time to look again has come
            queue.add(key)
        await cluster.eventually(lambda: recorded(cluster, "p").get("a") == name)

    in_cluster(tmp_path, scenario)


def test_a_claim_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        quota = {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}
        meta = {"name": "none", "namespace": NAMESPACE}
        registry = CollectorRegistry()
        part = cluster.component()
        creations = ClaimCreations(registry)
        await part.start(TemplateClaims(part.client, part.informers, part.recorder, creations=creations))
        await cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": quota})
        await change(cluster, "v1", "resourcequotas", "none", {"status": {"hard": quota["hard"]}}, "status")
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        told = await cluster.eventually(lambda: cluster.events("p"))
        assert told[0].startswith("FailedResourceClaimCreation: the claim 'a' cannot be created: ")
        assert "quota" in told[0]
        await cluster.admin.plain("v1", "resourcequotas").delete("none", NAMESPACE)
        await until_recorded(cluster, "p")
        counted = generate_latest(registry).decode()
        labels = 'admin_access="false",owner_api_group="",owner_api_kind="Pod"'
        creates = "dynamic_resource_allocation_resourceclaim_creates_total"
        assert f'{creates}{{{labels},status="success"}} 1.0' in counted
        assert f'{creates}{{{labels},status="failure"}}' in counted

    in_cluster(tmp_path, scenario)


def test_a_claim_that_vanishes_is_made_again_while_it_is_needed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"), claiming_pod("q", "one-gpu"))
        await cluster.eventually(lambda: recorded(cluster, "p") and recorded(cluster, "q"))
        first = claims_of(cluster)[recorded(cluster, "p")["a"]]
        await finish(cluster, "q")
        await remove(cluster, first.metadata.name, V1, "resourceclaims")
        await cluster.eventually(
            lambda: (
                (found := claims_of(cluster).get(first.metadata.name))
                and found.metadata.uid != first.metadata.uid
            )
        )
        await cluster.quiet()
        assert list(claims_of(cluster)) == [first.metadata.name]  # and that of the finished pod is not

    in_cluster(tmp_path, scenario)


def test_a_claim_that_vanishes_with_its_template_waits_for_both(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        name = (await until_recorded(cluster, "p"))["a"]
        await remove(cluster, "one-gpu", V1, "resourceclaimtemplates")
        await remove(cluster, name, V1, "resourceclaims")
        await cluster.eventually(lambda: cluster.events("p"))
        assert claims_of(cluster) == {}
        await cluster.create(labelling_template())
        await cluster.eventually(lambda: list(claims_of(cluster)) == [name])

    in_cluster(tmp_path, scenario)


def test_claims_of_another_controller_are_taken_as_they_are(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        _, made = await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        theirs = finalized_claim("p-a-x7k2p", owner=made)
        theirs["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "a"}
        await cluster.create(theirs)
        await controllers(cluster)
        await cluster.eventually(lambda: recorded(cluster, "p") == {"a": "p-a-x7k2p"})
        await cluster.quiet()
        assert list(claims_of(cluster)) == ["p-a-x7k2p"]

    in_cluster(tmp_path, scenario)


def test_a_replaced_pod_has_claims_of_its_own(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"))
        before = await until_recorded(cluster, "p")
        await remove(cluster, "p")
        await cluster.create(claiming_pod("p", "one-gpu"))
        await cluster.eventually(lambda: recorded(cluster, "p") not in ({}, before))
        after = recorded(cluster, "p")
        await cluster.eventually(lambda: list(claims_of(cluster)) == [after["a"]], "the garbage collector")

    in_cluster(tmp_path, scenario)


def test_a_group_has_one_claim_for_all_its_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        groups = cluster.seen.plain("scheduling.k8s.io/v1beta1", "podgroups")
        await controllers(cluster)
        await cluster.create(labelling_template(), labelling_template("own"))
        await cluster.create(claiming_pod("early", "one-gpu", group="g"))  # before its group: it waits
        (gang,) = await cluster.create(group("g", "one-gpu"))
        await cluster.create(
            claiming_pod("late", "one-gpu", "own", group="g"), claiming_pod("other", "own", group="g")
        )
        await cluster.eventually(
            lambda: [len(recorded(cluster, each)) for each in ("early", "late", "other")] == [1, 2, 1]
        )
        name = claim_name("g", "a", gang["metadata"]["uid"])
        assert recorded(cluster, "early") == {"a": name}
        assert recorded(cluster, "late")["a"] == name
        assert recorded(cluster, "other")["a"] != name  # the same entry, but of another template
        seen = await cluster.eventually(lambda: groups.get("g", NAMESPACE))
        assert seen is not None
        assert seen["status"]["resourceClaimStatuses"] == [{"name": "a", "resourceClaimName": name}]
        owner = claims_of(cluster)[name].metadata.owner_references[0]
        assert (owner.api_version, owner.kind, owner.uid) == (
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            gang["metadata"]["uid"],
        )
        await cluster.quiet()
        assert len(claims_of(cluster)) == 3

    in_cluster(tmp_path, scenario)


def test_a_pod_that_is_known_before_its_group_gets_its_claim_with_the_group(tmp_path: Path) -> None:
    """Also with a group that has no claims itself: copies of pods and groups do not arrive in any order."""

    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        pods = cluster.seen.of(Pod)
        await cluster.create(labelling_template(), claiming_pod("early", "one-gpu", group="g"))
        await cluster.eventually(lambda: pods.get("early", NAMESPACE))
        await cluster.create(group("g"))
        await until_recorded(cluster, "early")

    in_cluster(tmp_path, scenario)


def test_without_groups_a_pod_has_its_own(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = cluster.component()
        await part.start(TemplateClaims(part.client, part.informers, part.recorder, groups=False))
        await cluster.create(
            labelling_template(), group("g", "one-gpu"), claiming_pod("p", "one-gpu", group="g")
        )
        names = await until_recorded(cluster, "p")
        assert claims_of(cluster)[names["a"]].metadata.owner_references[0].kind == "Pod"

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("ended", ["finished", "deleted"])
def test_pods_that_are_over_get_none(tmp_path: Path, ended: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(claiming_pod("p", "one-gpu", terminationGracePeriodSeconds=30))
        await bind(cluster, "p")
        if ended == "finished":
            await finish(cluster, "p")
        else:
            await cluster.admin.of(Pod).delete("p", NAMESPACE)  # it ends as its node says
        await controllers(cluster)
        await cluster.create(labelling_template())
        await cluster.quiet()
        assert claims_of(cluster) == {}

    in_cluster(tmp_path, scenario)


def test_many_pods_at_once_each_get_one(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster, workers=32)
        await cluster.create(labelling_template())
        await asyncio.gather(
            *(cluster.create(claiming_pod(f"p{number}", "one-gpu")) for number in range(100))
        )
        await cluster.eventually(lambda: all(recorded(cluster, f"p{number}") for number in range(100)))
        await cluster.quiet()
        assert len(claims_of(cluster)) == 100

    in_cluster(tmp_path, scenario)
