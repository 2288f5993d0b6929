"""Whatever keeps a pod from starting is known to everybody who foresees what becomes of it: one table, reason × answer.

There is room for the pod on a node, and machines with room can be had. So whoever does not know the reason would call the pod
placeable, or buy a machine for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup, PriorityClass, Queue
from allotment.api.codec import decode
from allotment.api.core import Namespace, Node, Pod, PodResourceClaim, ResourceQuota, ResourceQuotaSpec
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.autoscaler.provision.launch import decide
from allotment.autoscaler.scenario.scenario_run import ScenarioRun
from allotment.autoscaler.simulate.pending_pods import pending
from allotment.autoscaler.simulate.simulation import start_simulation
from allotment.controllers.claims.claim_users import claim_name
from allotment.insight.explain import answer
from allotment.insight.explain.explanation import Outlook
from allotment.insight.explain.pod import told_of_pod
from allotment.insight.explain.trial_scheduler import KINDS
from allotment.insight.pending_work import waiting
from allotment.insight.planning import planned
from allotment.insight.snapshot import Snapshot
from allotment.insight.waiting_pods import WaitingPods
from tests.allocator import build
from tests.autoscaler.build import catalogue, evaluated, gpus, type_
from tests.autoscaler.build import pool as node_pool
from tests.autoscaler.builders import GPU, gpu_class
from tests.autoscaler.simulate.test_pending_pods import refused, template
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler import storage
from tests.scheduler.gang_builders import group, member, queue, volcano_group
from tests.scheduler.storage import MADE

NOW = datetime(2026, 11, 18, tzinfo=UTC)
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "110"}
OFFERS = (type_("large", {"a": "1"}, capacity=ROOM, dynamicResources=gpus(2)), node_pool("p"))


@dataclass(frozen=True)
class Case:
    """The pod is ``p``. ``words`` are part of what everybody says; none: nothing is in its way."""

    objects: Sequence[ApiStruct]
    words: str


def quota(**hard: int) -> ResourceQuota:
    names = {
        "devices": "any.deviceclass.resource.k8s.io/devices",
        "gpus": "gpu.deviceclass.resource.k8s.io/devices",
        "claims": "count/resourceclaims.resource.k8s.io",
    }
    amounts = {names[name]: Quantity.of(amount) for name, amount in hard.items()}
    return ResourceQuota(
        metadata=ObjectMeta(name="q", namespace="default"), spec=ResourceQuotaSpec(hard=amounts)
    )


def volcano_pod(name: str = "p", **more: Any) -> Pod:
    [made] = member(name, devices=0, volcano=True, **more)
    assert isinstance(made, Pod)
    return made


def going(obj: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def crowded(obj: ResourceClaim) -> ResourceClaim:
    """A claim that no further pod may use."""
    users = [
        ResourceClaimConsumerReference(resource="pods", name=f"x{n}", uid=f"uid-x{n}") for n in range(256)
    ]
    return replace(obj, status=replace(obj.status, reserved_for=tuple(users)))


def rich(cpu: str) -> Queue:
    """A queue for which something is kept."""
    return decode(Queue, {"metadata": {"name": "rich"}, "spec": {"guarantee": {"resource": {"cpu": cpu}}}})


def group_with_claim() -> PodGroup:
    """A gang of one pod, whose claim is made from template ``t`` for the whole group."""
    made = group("gang", 1)
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="t"),)
    return replace(made, spec=replace(made.spec, resource_claims=claims))


WANTS = pod("p", templates={"gpu": "t"})
TWICE = pod("p", templates={"a": "t", "b": "t"})
CASES = {
    "nothing": Case([pod("p", cpu=1)], ""),
    "nothing, and a claim is still to be made": Case([template("t"), WANTS], ""),
    "nothing, as its quota has room for one more": Case(
        [template("t"), quota(devices=1, claims=1), WANTS], ""
    ),
    "nothing, as what is kept for others leaves room": Case(
        [rich("32"), queue("default"), volcano_group("gang", 1), volcano_pod(cpu=4)], ""
    ),
    # What is made for the pod is called p-gpu-… with an end that follows from its uid.
    "nothing, though somebody has a claim of such a name": Case([template("t"), claim("p-gpu"), WANTS], ""),
    "the name of its claim is taken": Case(
        [template("t"), claim(claim_name("p", "gpu", WANTS.metadata.uid)), WANTS],
        f"its claim gpu cannot be made: there is a ResourceClaim default/{claim_name('p', 'gpu', WANTS.metadata.uid)} "
        "that was not made for this pod; delete it, and one will be made",
    ),
    "the name of its group's claim is taken": Case(
        [
            template("t"),
            claim(claim_name("gang", "gpu", group("gang").metadata.uid)),
            group_with_claim(),
            pod("p", group="gang", templates={"gpu": "t"}),
        ],
        "that was not made for this pod group; delete it, and one will be made",
    ),
    "another scheduler, which runs": Case(
        [pod("p", scheduler="volcano"), pod("there", scheduler="volcano", node="n")], ""
    ),
    "a quota on devices": Case(
        [template("t"), quota(devices=1), claim("other"), WANTS],
        "its claim gpu cannot be made: quota q allows 1 of any.deviceclass.resource.k8s.io/devices, 1 are used, and it needs 1",
    ),
    "a quota on claims": Case(
        [template("t"), quota(claims=0), WANTS], "its claim gpu cannot be made: quota q allows 0"
    ),
    # Each of its two claims alone would be let in.
    "a quota on devices, which two claims of its own come to": Case(
        [template("t"), quota(devices=1), TWICE],
        "its claim b cannot be made: quota q allows 1 of any.deviceclass.resource.k8s.io/devices, 1 are used, and it needs 1",
    ),
    "a quota on claims, which two claims of its own come to": Case(
        [template("t"), quota(claims=1), TWICE], "its claim b cannot be made: quota q allows 1"
    ),
    "nothing, as its quota has room for both its claims": Case(
        [template("t"), quota(devices=2, claims=2), TWICE], ""
    ),
    "a quota on devices, for extended resources": Case(
        [gpu_class(), quota(gpus=0), pod("p", more={GPU: 1})],
        "the claim for its vendor.com/gpu cannot be made: quota q allows 0",
    ),
    "a quota on devices, for the claim of a group": Case(
        [template("t"), quota(devices=0), group_with_claim(), pod("p", group="gang", templates={"gpu": "t"})],
        "its claim gpu cannot be made: quota q allows 0",
    ),
    "a namespace that is being deleted": Case(
        [going(Namespace(metadata=ObjectMeta(name="default"))), template("t"), WANTS],
        "its claim gpu cannot be made: the namespace default is being deleted",
    ),
    "a claim with as many users as may be": Case(
        [crowded(claim("c")), pod("p", claims=["c"])], "claim default/c has the maximum of 256 users"
    ),
    "a template that is missing": Case(
        [template("other"), WANTS],
        "its claim gpu cannot be made: there is no ResourceClaimTemplate default/t",
    ),
    "a template of another namespace": Case(
        [replace(template("t"), metadata=ObjectMeta(name="t", namespace="team")), template("other"), WANTS],
        "there is one in team, and a pod uses its own namespace's",
    ),
    "a claim that is missing": Case([pod("p", claims=["gone"])], "claim default/gone does not exist"),
    "a claim that is going": Case(
        [going(claim("c")), pod("p", claims=["c"])], "claim default/c is being deleted"
    ),
    "a class that is missing": Case(
        [claim("c", build.request(class_name="gone")), pod("p", claims=["c"])],
        "could not retrieve device class gone: there is none of that name",
    ),
    "gates": Case(
        [pod("p", gates=["example.com/wait"])],
        "waiting for 1 scheduling gate to be removed: example.com/wait",
    ),
    "a scheduler that nobody runs": Case(
        [pod("p", scheduler="typo"), pod("there", node="n")],
        "it is for scheduler typo, and no pod shows that a scheduler of that name runs",
    ),
    "a priority class that is missing": Case(
        [
            PriorityClass(metadata=ObjectMeta(name="low")),
            pod("p", cpu=1, priority_class_name="high"),
        ],
        "there is no PriorityClass high",
    ),
    "a group that is missing": Case(
        [group("other"), pod("p", group="gone")], "the pod's group default/gone does not exist"
    ),
    "a group of Volcano's that is missing": Case(
        [volcano_group("other"), volcano_pod()], "the pod's group default/gang does not exist"
    ),
    "too few of its gang": Case(
        [group("gang", 3), pod("p", group="gang"), pod("q", group="gang")],
        "waits for 1 more pod of its gang, which needs 3",
    ),
    "one of its gang may not start": Case(
        [group("gang", 2), pod("p", group="gang"), pod("q", group="gang", gates=["g"])],
        "waits for 1 more pod of its gang, which needs 2",
    ),
    "a queue at its capability": Case(
        [queue("default", most={"cpu": 2}), volcano_group("gang", 1), volcano_pod(cpu=4)],
        "queue default may use 2 of cpu, uses 0, and this needs 4 more",
    ),
    "nothing, as its queue has room for it beside others of its gang": Case(
        [
            queue("default", most={"cpu": 2}),
            volcano_group("gang", 1),
            volcano_pod("o", cpu=1),
            volcano_pod(cpu=1),
        ],
        "",
    ),
    "a queue that others of its gang use up, which has started": Case(
        [
            queue("default", most={"cpu": 2}),
            volcano_group("gang", 1),
            *member("there", devices=0, volcano=True, cpu=2, node="n"),
            volcano_pod(cpu=1),
        ],
        "queue default may use 2 of cpu, uses 2, and this needs 1 more",
    ),
    "a queue that has room for the least of its gang, which others get": Case(
        [
            queue("default", most={"cpu": 1}),
            volcano_group("gang", 1),
            volcano_pod("o", cpu=1),
            volcano_pod(cpu=1),
        ],
        "queue default may use 1 of cpu, uses ",  # 0, or 1 where the other one is placed first
    ),
    "a queue that has room for one more of its gang, which another gets": Case(
        [
            queue("default", most={"cpu": 3}),
            volcano_group("gang", 1),
            *member("there", devices=0, volcano=True, cpu=2, node="n"),
            volcano_pod("o", cpu=1),
            volcano_pod(cpu=1),
        ],
        "queue default may use 3 of cpu, uses ",  # as above
    ),
    # As the scheduler goes through them by name, the large one does not keep the small one out.
    "nothing, as another of its gang is too large for their queue": Case(
        [
            queue("default", most={"cpu": 2}),
            volcano_group("gang", 1),
            volcano_pod("o", cpu=4),
            volcano_pod(cpu=1),
        ],
        "",
    ),
    "a queue that others use up": Case(
        [
            queue("default", most={"cpu": 2}),
            volcano_group("gang", 1),
            volcano_pod(cpu=1),
            volcano_group("old", 1),
            *member("there", "old", devices=0, volcano=True, cpu=2, node="n"),
        ],
        "queue default may use 2 of cpu, uses 2, and this needs 1 more",
    ),
    "a queue that is part of one at its capability": Case(
        [
            queue("top", most={"cpu": 1}),
            replace(queue("mine"), spec=replace(queue("mine").spec, parent="top")),
            volcano_group("gang", 1, queue="mine"),
            volcano_pod(cpu=2),
        ],
        "queue top may use 1 of cpu, uses 0, and this needs 2 more",
    ),
    "a queue whose parent is missing": Case(
        [
            replace(queue("mine"), spec=replace(queue("mine").spec, parent="gone")),
            volcano_group("gang", 1, queue="mine"),
            volcano_pod(),
        ],
        "there is no queue gone, which is the parent of mine",
    ),
    "a queue that is closed": Case(
        [queue("mine", state="Closed"), volcano_group("gang", 1, queue="mine"), volcano_pod()],
        "the queue mine is Closed",
    ),
    "a queue that is missing": Case(
        [queue("other"), volcano_group("gang", 1, queue="gone"), volcano_pod()], "there is no queue gone"
    ),
    "nothing, and its volume is made once it is placed": Case(
        [storage.kind(MADE, storage.DRIVER), storage.claim("c", storage_class=MADE), storage.pod("p", "c")],
        "",
    ),
    "a volume claim that is missing": Case(
        [storage.claim("other"), storage.pod("p", "c")], 'persistentvolumeclaim "c" not found'
    ),
    "a volume claim that is going": Case(
        [storage.kind(), storage.claim("c", leaving=True), storage.pod("p", "c")],
        'persistentvolumeclaim "c" is being deleted',
    ),
    "a volume claim that has lost its volume": Case(
        [storage.claim("c", bound="v", phase="Lost"), storage.pod("p", "c")],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    "a volume claim whose volume is gone, and nobody has said so yet": Case(
        [storage.claim("c", bound="v"), storage.pod("p", "c")], "bound to non-existent PVs"
    ),
    "a volume claim that is to be bound before": Case(
        [storage.kind(waits=False), storage.claim("c"), storage.pod("p", "c")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    # Whether a claim waits for its first consumer is for its class to say.
    "a volume claim whose class is missing": Case(
        [storage.kind("other"), storage.claim("c", storage_class="gone"), storage.pod("p", "c")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a volume claim without a class": Case(
        [storage.kind(), storage.claim("c", storage_class=""), storage.pod("p", "c")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a volume claim for which there is no volume, and nobody makes any": Case(
        [storage.kind(), storage.claim("c"), storage.pod("p", "c")],
        "didn't find available persistent volumes to bind",
    ),
    "a volume that only one pod may use, which another does": Case(
        [
            storage.claim("c", bound="v", modes=["ReadWriteOncePod"]),
            storage.volume("v", claim="c", modes=["ReadWriteOncePod"], phase="Bound"),
            storage.pod("there", "c", node="n"),
            storage.pod("p", "c"),
        ],
        "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
}


def everything(case: Case) -> list[ApiStruct]:
    """The case's objects beside a node with room; its pod was refused once, as autoscaling only looks at such."""
    there = [build.class_(), node("n", cpu=64), slice_("n", "d0", "d1")]
    return [*there, *map(_as_refused, case.objects)]


def _as_refused(obj: ApiStruct) -> ApiStruct:
    is_p = isinstance(obj, Pod) and obj.metadata.name == "p" and obj.spec.scheduler_name != "typo"
    return refused(obj) if isinstance(obj, Pod) and is_p else obj


def seen_of(case: Case) -> Snapshot:
    found: dict[type[ApiStruct], list[Any]] = {kind: [] for kind in KINDS}
    for each in everything(case):
        found[type(each)].append(each)
    return Snapshot(found)


def the_pod(case: Case) -> Pod:
    return next(each for each in everything(case) if isinstance(each, Pod) and each.metadata.name == "p")


# --- the answers: what each says of p; empty, if p starts ---


def by_explain(case: Case) -> str:
    told = told_of_pod(the_pod(case), seen_of(case), NOW, lambda: True)
    return "" if told.state is Outlook.FITS else told.reason


def by_dashboard(case: Case) -> str:
    async def look_at(*args: object) -> Snapshot:
        return seen_of(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("allotment.insight.snapshot.look_at", look_at)
        told = asyncio.run(answer.explained(None, "default", "p"))  # type: ignore[arg-type]  # nothing is read
    return "" if told["state"] == Outlook.FITS else str(told["reason"])


def by_top(case: Case) -> str:
    [told] = [each for each in WaitingPods(seen_of(case)).told(NOW, lambda: True) if each.name == "p"]
    return "" if told.state is Outlook.FITS else told.reason


def by_plan(case: Case) -> str:
    """On the cluster without its node, so that a machine would be bought."""
    there = [each for each in everything(case) if not isinstance(each, Node | ResourceSlice)]
    plan = planned(waiting((), there, tainted=False), catalogue(*OFFERS))
    out = {each.pod: each.why for each in plan.pending}
    assert ("default/p" in out) is not any(
        place.pod == "default/p" for new in plan.nodes for place in new.places
    )
    assert plan.nodes or "default/p" in out
    return out.get("default/p", "")


def by_what_if(case: Case) -> str:
    found = waiting((), everything(case), tainted=False)
    rehearsal = ScenarioRun(start_simulation([*found.objects, *found.pods], claim_name=claim_name))
    return next((each.why for each in rehearsal.begin().waits if each.pod == "default/p"), "")


def by_autoscaler(case: Case) -> str:
    """On the cluster without its node; a pod that no scheduler has refused is not looked at."""
    there = (each for each in everything(case) if not isinstance(each, Node | ResourceSlice))
    simulation = start_simulation(there, claim_name=claim_name)
    decision = decide(simulation, evaluated(*OFFERS).machines, (), pending(simulation))
    if any(pod.metadata.name == "p" for launch in decision.launches for pod in launch.pods):
        return ""
    return next(
        (each.why for each in decision.plan.pending if each.pod == "default/p"), case.words or "not looked at"
    )


ANSWERS: dict[str, Callable[[Case], str]] = {
    "explain": by_explain,
    "dashboard": by_dashboard,
    "top": by_top,
    "plan": by_plan,
    "what-if": by_what_if,
    "autoscaler": by_autoscaler,
}


@pytest.mark.parametrize("who", ANSWERS)
@pytest.mark.parametrize("name", CASES)
def test_whatever_keeps_a_pod_from_starting_is_known(name: str, who: str) -> None:
    case = CASES[name]
    said = ANSWERS[who](case)
    assert bool(said) is bool(case.words), said
    assert case.words in said


@pytest.mark.parametrize("who", ["explain", "dashboard", "top", "plan", "autoscaler"])
def test_a_pod_that_is_more_than_its_queue_takes_learns_what_others_of_its_gang_get(who: str) -> None:
    said = ANSWERS[who](CASES["a queue that has room for the least of its gang, which others get"])
    assert said == "queue default may use 1 of cpu, uses 0, others wait for 1, and this needs 1 more"


@pytest.mark.parametrize("pods", [1, 2, 3])
def test_of_pods_that_wait_together_the_first_get_what_a_quota_has_left(pods: int) -> None:
    case = Case(
        [template("t"), quota(devices=2), *(pod(f"p{n}", templates={"gpu": "t"}) for n in range(pods))], ""
    )
    found = waiting((), everything(case), tainted=False)
    waits = ScenarioRun(start_simulation([*found.objects, *found.pods])).begin().waits
    assert [each.pod for each in waits] == ([] if pods < 3 else ["default/p2"])


@pytest.mark.parametrize("who", [WANTS, pod("p", group="gang", templates={"gpu": "t"})])
def test_a_claim_with_the_name_of_a_planned_one_stays_as_it_is(who: Pod) -> None:
    namesakes = [claim("p-gpu"), claim("gang-gpu")]
    case = Case([template("t"), group_with_claim(), *namesakes, who], "")
    simulation = start_simulation(everything(case))
    assert not ScenarioRun(simulation).begin().waits
    there = simulation.objects(ResourceClaim)
    assert [there[f"default/{each.metadata.name}"] for each in namesakes] == namesakes


def test_top_leaves_a_claim_with_the_name_of_a_planned_one_as_it_is() -> None:
    """The second pod would miss its claim, had the first one's answer taken it away."""
    user = pod("q", claims=["p-gpu"])
    pods = WaitingPods(seen_of(Case([template("t"), claim("p-gpu"), WANTS, user], "")))
    assert {each.name: each.state for each in pods.told(NOW, lambda: True)} == {
        "p": Outlook.FITS,
        "q": Outlook.FITS,
    }


def test_a_pod_that_is_being_deleted_is_not_planned_for() -> None:
    case = Case([going(pod("p", cpu=1))], "")
    assert by_plan(case) == by_explain(case) == "is being deleted and will not be placed"
    assert by_autoscaler(case) == "not looked at"


def test_machines_come_where_what_there_is_is_kept_for_other_queues() -> None:
    """Of two nodes' cpu 63 are kept; one machine makes room, and nobody takes that for a standing obstacle."""
    case = Case([rich("63"), queue("default"), volcano_group("gang", 1), volcano_pod(cpu=4)], "")
    there = everything(case)
    plan = planned(waiting((), there, tainted=False), catalogue(*OFFERS))
    assert [each.machine.type for each in plan.nodes] == ["large"]
    assert "of 64 there are, other queues use or have guaranteed 63" in by_explain(case)


@pytest.mark.parametrize("who", ANSWERS)
def test_a_node_that_has_as_many_volumes_as_it_takes_is_full_and_another_is_not(who: str) -> None:
    """Machines come: how many volumes theirs take is not known before their drivers run."""
    case = Case(
        [
            storage.csi_node("n", {storage.DRIVER: 1}),
            storage.kind(MADE, storage.DRIVER),
            storage.claim("full", storage_class=MADE, bound="v"),
            storage.volume("v", claim="full", handle="h", storage_class=MADE, phase="Bound"),
            storage.pod("there", "full", node="n"),
            storage.claim("c", storage_class=MADE),
            storage.pod("p", "c"),
        ],
        "exceed",
    )
    said = ANSWERS[who](case)
    assert "max volume count" in said if who not in ("plan", "autoscaler") else said == ""


def test_where_one_more_machine_is_not_enough_none_comes_and_it_is_said_why() -> None:
    case = Case([rich("63"), queue("default"), volcano_group("gang", 1), volcano_pod(cpu=4)], "")
    assert "of 64 there are, other queues use or have guaranteed 63" in by_plan(case)


def test_kinds_that_may_not_be_listed_are_not_said_to_be_missing() -> None:
    seen = seen_of(Case([WANTS], ""))
    del seen.objects[ResourceClaimTemplate]
    told = told_of_pod(the_pod(Case([WANTS], "")), seen, NOW, lambda: True)
    assert "has not been made from template t yet" in told.reason
