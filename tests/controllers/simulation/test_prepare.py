"""What keeps a pod from starting, as a table; and semantic trees, which are looked up by another name."""

from typing import Any

import msgspec
import pytest

from allotment.api import codec
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.semantic import NodeResourceSlice
from allotment.controllers.claims.claim_users import entries_of
from allotment.controllers.simulation.prepare import (
    Cause,
    ClaimKey,
    PoolKey,
    Published,
    StartObstacle,
    find_obstacle,
)
from tests.controllers.simulation.simulated import (
    CARDS,
    GPU,
    allocation,
    gpu_claim,
    placed_pod,
    semantic_allocation,
    simulated_node,
    slice_,
    tree,
    typed_claim,
    typed_node,
    typed_pod,
    typed_slice,
)

Obj = dict[str, Any]
BY_NAME = {"name": "gpu", "resourceClaimName": "c"}
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
UID = "pod-uid"
MINE = [{"resource": "pods", "name": "p", "uid": UID}]
OWNED = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": UID, "controller": True}


def the_pod(*claims: Obj, status: Obj | None = None, group: str = "") -> Obj:
    made = placed_pod(claims=claims)
    made["metadata"]["uid"] = UID
    made["status"] = status or {}
    if group:
        made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def the_claim(*owners: Obj, **status: Any) -> Obj:
    made = gpu_claim()
    made["metadata"]["ownerReferences"] = list(owners)
    made["status"] = {"allocation": allocation("gpu-0"), "reservedFor": MINE, **status}
    return made


def obstacle(
    pod: Obj, claims: list[Obj], slices: list[Obj], at: Obj | None = None, trees: tuple[Obj, ...] = ()
) -> StartObstacle | None:
    by_name = {each["metadata"]["name"]: typed_claim(each) for each in claims}
    typed = [typed_slice(each) for each in slices]
    published = Published(
        lambda key: [each for each in typed if (each.spec.driver, each.spec.pool.name) == key],
        lambda name: [codec.decode(NodeResourceSlice, msgspec.json.encode(tree)) for tree in trees],
    )
    return find_obstacle(typed_pod(pod), typed_node(at or simulated_node()), by_name.get, published)


MADE = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
C, POOL = ClaimKey("default", "c"), PoolKey(GPU, "ada")
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "name": "g",
    "uid": "u",
    "controller": True,
}
FOR_GROUP = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]
HERE = slice_("gpu-0")
ELSEWHERE = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
}
EXTENDED = {"extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "c"}}

IN_THE_WAY = [
    pytest.param(
        the_pod(BY_TEMPLATE), [], [], "the claim for gpu has not been created", None, id="no claim made yet"
    ),
    pytest.param(the_pod(BY_NAME), [], [], "ResourceClaim c does not exist", C, id="claim is gone"),
    pytest.param(
        the_pod(BY_NAME), [the_claim(allocation=None)], [HERE], "is not allocated", C, id="not allocated"
    ),
    pytest.param(
        the_pod(BY_NAME),
        [the_claim(reservedFor=[{"resource": "pods", "name": "p", "uid": "an earlier p"}])],
        [HERE],
        "is not reserved for this pod",
        C,
        id="reserved for another of the same name",
    ),
    pytest.param(
        the_pod(BY_TEMPLATE, status=MADE),
        [the_claim({**OWNED, "uid": "other"})],
        [HERE],
        "was not created for this pod",
        C,
        id="somebody else's claim under the expected name",
    ),
    pytest.param(
        the_pod(BY_NAME, group="other"),
        [the_claim(reservedFor=FOR_GROUP)],
        [HERE],
        "is not reserved",
        C,
        id="reserved for another group",
    ),
    pytest.param(
        the_pod(BY_NAME), [the_claim()], [], "gpu-0 of pool ada", POOL, id="the whole pool was withdrawn"
    ),
    pytest.param(
        the_pod(BY_NAME), [the_claim()], [slice_("gpu-1")], "no longer exists", POOL, id="the device was"
    ),
    pytest.param(
        the_pod(BY_NAME),
        [the_claim()],
        [HERE, slice_("gpu-1", generation=2)],
        "no longer exists",
        POOL,
        id="only an older generation has it",
    ),
    pytest.param(
        the_pod(BY_NAME),
        [the_claim()],
        [slice_("gpu-0", nodeSelector=ELSEWHERE)],
        "does not reach node ada",
        POOL,
        id="it reaches other nodes",
    ),
    pytest.param(
        the_pod(status=EXTENDED), [the_claim()], [], "no longer exists", POOL, id="for extended resources"
    ),
]


@pytest.mark.parametrize(("pod", "claims", "slices", "message", "cause"), IN_THE_WAY)
def test_in_the_way(
    pod: Obj, claims: list[Obj], slices: list[Obj], message: str, cause: Cause | None
) -> None:
    found = obstacle(pod, claims, slices)
    assert found is not None
    assert message in found.message
    assert found.cause == cause


NOTHING_IN_THE_WAY = [
    pytest.param(the_pod(), [], [], id="no claims"),
    pytest.param(the_pod(BY_NAME), [the_claim()], [HERE], id="its own reservation"),
    pytest.param(the_pod(BY_TEMPLATE, status=MADE), [the_claim(OWNED)], [HERE], id="made for it"),
    pytest.param(
        the_pod(BY_TEMPLATE, status=MADE, group="g"),
        [the_claim(GROUP, reservedFor=FOR_GROUP)],
        [HERE],
        id="made and reserved for its group",
    ),
    pytest.param(
        the_pod(BY_TEMPLATE, status={"resourceClaimStatuses": [{"name": "gpu"}]}), [], [], id="none needed"
    ),
    pytest.param(
        the_pod(BY_NAME), [the_claim()], [slice_("gpu-1"), slice_("gpu-0", generation=2)], id="newer has it"
    ),
    pytest.param(the_pod(BY_NAME), [the_claim()], [slice_("gpu-0", allNodes=True)], id="reaches all nodes"),
    pytest.param(the_pod(status=EXTENDED), [the_claim()], [HERE], id="extended resources"),
]


@pytest.mark.parametrize(("pod", "claims", "slices"), NOTHING_IN_THE_WAY)
def test_nothing_in_the_way(pod: Obj, claims: list[Obj], slices: list[Obj]) -> None:
    assert obstacle(pod, claims, slices) is None


def test_devices_that_choose_their_nodes() -> None:
    """The slice says only that each device does."""
    published = slice_(perDeviceNodeSelection=True)
    published["spec"]["devices"] = [
        {"name": "gpu-0", "nodeName": "ada"},
        {"name": "gpu-1", "nodeName": "bea"},
    ]
    mine, other = the_claim(), the_claim(allocation=allocation("gpu-1"))
    assert obstacle(the_pod(BY_NAME), [mine], [published]) is None
    assert obstacle(the_pod(BY_NAME), [other], [published]) is not None


def test_claims_of_a_pod_are_all_of_them() -> None:
    by_name, by_template = {"name": "a", "resourceClaimName": "c"}, {**BY_TEMPLATE, "name": "b"}
    status = {**EXTENDED, "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "d"}]}
    found = list(entries_of(typed_pod(the_pod(by_name, by_template, status=status))))
    assert found == [("a", "c"), ("b", "d"), ("", "c")]


# --- semantic claims ---


def semantic_claim(*ids: str) -> Obj:
    return to_v1(
        {
            "apiVersion": "resource.k8s.io/v1alpha2",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"resourceClassName": "cards"},
            "status": {
                "driverName": CARDS,
                "allocation": semantic_allocation(*ids),
                "reservedFor": MINE,
            },
        }
    )


SEMANTIC = [
    pytest.param(tree("q0", "q1"), "", id="still there"),
    pytest.param(tree("q1"), "no longer exists", id="withdrawn"),
    pytest.param(None, "no longer exists", id="the whole card was"),
    pytest.param(tree("q0", "q0"), "cannot be looked up", id="published twice"),
]


@pytest.mark.parametrize(("published", "message"), SEMANTIC)
def test_instances_of_trees(published: Obj | None, message: str) -> None:
    trees = (published,) if published else ()
    found = obstacle(the_pod(BY_NAME), [semantic_claim("card-0/quarters/q0")], [], trees=trees)
    assert (found is None) == (message == "")
    if found is not None:
        assert message in found.message
        assert found.cause == PoolKey(CARDS, "ada")


def test_an_instance_of_another_node_does_not_reach_this_one() -> None:
    found = obstacle(
        the_pod(BY_NAME),
        [semantic_claim("card-0/quarters/q0")],
        [],
        at=simulated_node("bea"),
        trees=(tree("q0"),),
    )
    assert found is not None
    assert "does not reach node bea" in found.message
