"""Reservations, allocations, claims and finalizers end when their users do, and not before."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from allotment.api.claim_marks import EXTENDED, FINALIZER, SEMANTIC_FINALIZER
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.client.informer import Informer
from allotment.controllers.claims.claim_release import ClaimRelease
from tests.controllers.claims.claim_objects import (
    NAMESPACE,
    V1,
    allocation,
    bind,
    change,
    claiming_pod,
    claims_of,
    consumer,
    controllers,
    finalized_claim,
    finish,
    give,
    group,
    labelling_template,
    remove,
    semantic_spec,
    until_recorded,
)
from tests.controllers.cluster import Cluster, in_cluster

GROUPS = ("scheduling.k8s.io/v1beta1", "podgroups")


def told(claim: ResourceClaim | None) -> str:
    """A claim in words."""
    if claim is None:
        return "gone"
    words = ["allocated" if claim.status.allocation is not None else "free"]
    words += [f"for {user.name}" for user in claim.status.reserved_for]
    words += ["deleted"] if claim.metadata.deletion_timestamp else []
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class Case:
    """What happens to a claim named as the case, and how it ends. It is reserved for the pods ``one`` and ``two``, bound both."""

    happens: Callable[[Cluster, str], Awaitable[None]]
    ends: str
    users: tuple[str, ...] = ("one",)
    finalizers: tuple[str, ...] = (FINALIZER,)
    owned: bool = False
    annotations: tuple[tuple[str, str], ...] = ()


def after(*events: Callable[[Cluster, str], Awaitable[None]]) -> Callable[[Cluster, str], Awaitable[None]]:
    async def happen(cluster: Cluster, name: str) -> None:
        for event in events:
            await event(cluster, name)

    return happen


def finished(which: str, phase: str = "Succeeded") -> Callable[[Cluster, str], Awaitable[None]]:
    return lambda cluster, name: finish(cluster, f"{name}-{which}", phase)


def removed(which: str) -> Callable[[Cluster, str], Awaitable[None]]:
    return lambda cluster, name: remove(cluster, f"{name}-{which}")


async def told_to_go(cluster: Cluster, name: str) -> None:
    """The pod is deleted, and its node takes its time."""
    await cluster.admin.of(Pod).delete(f"{name}-one", NAMESPACE, grace_seconds=30)


async def deleted(cluster: Cluster, name: str) -> None:
    await cluster.admin.of(ResourceClaim).delete(name, NAMESPACE)


async def nothing(cluster: Cluster, name: str) -> None:
    """Nothing happens."""


CASES = {
    "used": Case(nothing, "allocated for one"),
    "finished": Case(finished("one"), "free"),
    "failed": Case(finished("one", "Failed"), "free"),
    "removed": Case(removed("one"), "free"),
    "ending": Case(told_to_go, "allocated for one"),  # bound: it may run until its node says otherwise
    "shared": Case(finished("one"), "allocated for two", ("one", "two")),
    "shared-last": Case(after(finished("one"), removed("two")), "free", ("one", "two")),
    "ahead": Case(nothing, "allocated", ()),
    "not-ours": Case(finished("one"), "allocated", finalizers=()),
    "deleted-ahead": Case(deleted, "gone", ()),
    "deleted-used": Case(deleted, "allocated for one deleted"),
    "deleted-then-finished": Case(after(deleted, finished("one")), "gone"),
    "finished-then-deleted": Case(after(finished("one"), deleted), "gone"),
    "both-finalizers": Case(
        after(deleted, finished("one")), "gone", finalizers=(FINALIZER, SEMANTIC_FINALIZER)
    ),
    "held-by-others": Case(
        after(deleted, finished("one")), "free deleted", finalizers=("example.com/mine", FINALIZER)
    ),
    "owned-used": Case(nothing, "allocated for one", owned=True),
    "owned-finished": Case(finished("one"), "gone", owned=True),
    "owned-removed": Case(removed("one"), "gone", owned=True),
    "owned-lent": Case(finished("one"), "allocated for two", ("one", "two"), owned=True),
    "extended": Case(finished("one"), "gone", owned=True, annotations=((EXTENDED, "true"),)),
}


async def set_up(cluster: Cluster, name: str, case: Case) -> None:
    users = {which: (await cluster.create(claiming_pod(f"{name}-{which}")))[0] for which in ("one", "two")}
    for which in users:
        await bind(cluster, f"{name}-{which}")
    made = finalized_claim(name, owner=users["one"] if case.owned else None, finalizers=case.finalizers)
    made["metadata"]["annotations"] = dict(case.annotations)
    await cluster.create(made)
    await give(cluster, name, *(users[which] for which in case.users))


@pytest.mark.parametrize("restart", [False, True], ids=["while it runs", "while it is away"])
def test_how_claims_end(tmp_path: Path, restart: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        if not restart:
            await controllers(cluster)
        for name, case in CASES.items():
            await set_up(cluster, name, case)
        for name, case in CASES.items():
            await case.happens(cluster, name)
        if restart:
            await controllers(cluster)
        expected = {name: case.ends for name, case in CASES.items()}

        def found() -> dict[str, str]:
            claims = claims_of(cluster)
            return {name: told(claims.get(name)).replace(f"{name}-", "") for name in CASES}

        await cluster.quiet()
        assert found() == expected

    in_cluster(tmp_path, scenario)


def test_what_drivers_said_goes_with_the_device(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        (user, _) = await cluster.create(claiming_pod("p"), finalized_claim("c"))
        await give(cluster, "c", user)
        device = {"driver": "gpu.example.com", "pool": "pool", "device": "c", "data": {"x": 1}}
        await change(cluster, V1, "resourceclaims", "c", {"status": {"devices": [device]}}, "status")
        await controllers(cluster)
        await finish(cluster, "p")
        await cluster.eventually(lambda: told(claims_of(cluster)["c"]) == "free")
        assert claims_of(cluster)["c"].status.devices == ()

    in_cluster(tmp_path, scenario)


def test_a_pod_deleted_before_it_ran_leaves_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(labelling_template(), claiming_pod("p", "one-gpu"), claiming_pod("q", "one-gpu"))
        for name in ("p", "q"):
            await until_recorded(cluster, name)
        await remove(cluster, "p")
        await cluster.eventually(lambda: len(claims_of(cluster)) == 1)

    in_cluster(tmp_path, scenario)


def test_a_pod_deleted_before_it_was_bound_needs_nothing_though_it_stays_a_while(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        held = claiming_pod("p")
        held["metadata"]["finalizers"] = ["example.com/mine"]
        (user,) = await cluster.create(held)
        await cluster.create(finalized_claim("own", owner=user), finalized_claim("shared"))
        await give(cluster, "own", user)
        await give(cluster, "shared", user)
        await controllers(cluster)
        await remove(cluster, "p")
        await cluster.eventually(
            lambda: {name: told(each) for name, each in claims_of(cluster).items()} == {"shared": "free"}
        )
        assert cluster.seen.of(Pod).get("p", NAMESPACE) is not None

    in_cluster(tmp_path, scenario)


def test_a_finished_pods_claim_costs_two_writes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        (user,) = await cluster.create(claiming_pod("p"))
        await cluster.create(finalized_claim("c", owner=user))
        await give(cluster, "c", user)
        await bind(cluster, "p")
        await controllers(cluster)
        await finish(cluster, "p")
        before = cluster.server.store.revision
        await cluster.eventually(lambda: not claims_of(cluster))
        await cluster.quiet()
        assert cluster.server.store.revision - before == 2  # deletionTimestamp; finalizer and object

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(("mode", "ends"), [("Immediate", "allocated"), ("WaitForFirstConsumer", "free")])
def test_semantic_claims(tmp_path: Path, mode: str, ends: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        older = "resource.k8s.io/v1alpha2"
        meta = {"name": "c", "namespace": NAMESPACE, "finalizers": [SEMANTIC_FINALIZER]}
        user, _ = await cluster.create(
            claiming_pod("p"),
            {"apiVersion": older, "kind": "ResourceClaim", "metadata": meta, "spec": semantic_spec(mode)},
        )
        handle = {
            "driverName": "acme.example.com",
            "semanticData": {"nodeName": "node", "partitionable": {"instances": [{"id": "gpu-0"}]}},
        }
        status = {
            "driverName": "acme.example.com",
            "allocation": {"resourceHandles": [handle]},
            "reservedFor": [consumer(user)],
        }
        await change(cluster, older, "resourceclaims", "c", {"status": status}, "status")
        await controllers(cluster)
        await finish(cluster, "p")
        await cluster.eventually(lambda: told(claims_of(cluster)["c"]) == ends)
        await cluster.admin.of(ResourceClaim).delete("c", NAMESPACE)
        await cluster.eventually(lambda: not claims_of(cluster))

    in_cluster(tmp_path, scenario)


def test_a_groups_claim_lasts_as_long_as_the_group_and_its_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(labelling_template())
        (gang,) = await cluster.create(group("g", "one-gpu"))
        await cluster.create(claiming_pod("p", "one-gpu", group="g"), claiming_pod("q", "one-gpu", group="g"))
        name = (await until_recorded(cluster, "p"))["a"]
        await until_recorded(cluster, "q")
        await give(cluster, name, gang)
        for each in ("p", "q"):
            await bind(cluster, each)
        await finish(cluster, "p")
        await cluster.quiet()
        assert told(claims_of(cluster)[name]) == "allocated for g"
        await remove(cluster, "g", *GROUPS)
        await cluster.eventually(lambda: told(claims_of(cluster)[name]) == "allocated for g deleted")
        await cluster.quiet()
        assert told(claims_of(cluster)[name]) == "allocated for g deleted"  # q runs
        await finish(cluster, "q")
        await cluster.eventually(lambda: not claims_of(cluster))

    in_cluster(tmp_path, scenario)


def test_a_pod_that_comes_back_is_a_user_again(tmp_path: Path) -> None:
    """A server that was restored has pods again whose deletion we saw, with their old uids."""

    async def scenario(cluster: Cluster) -> None:
        (user,) = await cluster.create(claiming_pod("p"))
        part = cluster.component()
        released = ClaimRelease(part.client, part.informers)
        seen = await cluster.admin.of(Pod).get("p", NAMESPACE)
        released._pod_changed(seen, None)
        await part.start(released)
        await cluster.create(finalized_claim("c"))
        await give(cluster, "c", user)
        await cluster.quiet()
        assert told(claims_of(cluster)["c"]) == "allocated for p"

    in_cluster(tmp_path, scenario)


def test_unknown_users_are_left_alone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await controllers(cluster)
        await cluster.create(finalized_claim("c"))
        somebody = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u"}
        status = {"allocation": allocation("d"), "reservedFor": [somebody]}
        await change(cluster, V1, "resourceclaims", "c", {"status": status}, "status")
        await cluster.quiet()
        assert told(claims_of(cluster)["c"]) == "allocated for j"

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("copy", ["empty", "of the pod before"])
def test_a_pod_that_the_copy_lacks_keeps_its_claim(
    tmp_path: Path, copy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler may have seen, and reserved for, a pod that we have not seen yet."""

    async def scenario(cluster: Cluster) -> None:
        _, gone = await cluster.create(claiming_pod("p"), claiming_pod("gone"))
        stale = await cluster.admin.of(Pod).get("p", NAMESPACE)
        for name in ("p", "gone"):
            await remove(cluster, name)
        (user,) = await cluster.create(claiming_pod("p"))
        await cluster.create(finalized_claim("c"), finalized_claim("d"))
        await give(cluster, "c", user)
        await give(cluster, "d", gone)
        part = cluster.component()
        released = ClaimRelease(part.client, part.informers)
        behind = {"empty": None, "of the pod before": stale}[copy]
        monkeypatch.setattr(_pods(released), "get", lambda name, namespace="": behind)
        await part.start(released)
        await cluster.eventually(lambda: told(claims_of(cluster)["d"]) == "free")
        await cluster.quiet()
        assert told(claims_of(cluster)["c"]) == "allocated for p"

    in_cluster(tmp_path, scenario)


def _pods(released: ClaimRelease) -> Informer[Pod]:
    return released._pods


@pytest.mark.parametrize("meanwhile", ["allocated for p", "allocated"])
def test_an_old_copy_of_a_claim_takes_nothing_away(
    tmp_path: Path, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look and our write somebody reserves the claim, or it is given back and allocated anew, ahead of use."""

    async def scenario(cluster: Cluster) -> None:
        gone, user = await cluster.create(claiming_pod("gone"), claiming_pod("p"))
        await remove(cluster, "gone")
        await cluster.create(finalized_claim("c"))
        await give(cluster, "c", gone)
        stale = await cluster.admin.of(ResourceClaim).get("c", NAMESPACE)
        await give(cluster, "c", *((gone, user) if meanwhile == "allocated for p" else ()))
        part = cluster.component()
        released = ClaimRelease(part.client, part.informers)
        answers: list[ResourceClaim] = [stale, stale]
        real = released._seen.get

        def get(name: str, namespace: str = "") -> ResourceClaim | None:
            return answers.pop() if answers else real(name, namespace)

        monkeypatch.setattr(released._seen, "get", get)
        await part.start(released)
        released.queue.add((NAMESPACE, "c"))
        await cluster.quiet()
        assert not answers
        assert told(claims_of(cluster)["c"]) == meanwhile

    in_cluster(tmp_path, scenario)
