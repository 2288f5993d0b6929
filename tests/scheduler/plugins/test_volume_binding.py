"""VolumeBinding: which pods are kept from all nodes, which nodes suit the others, and what Reserve and PreBind make of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, LabelSelector
from allotment.api.storage import PersistentVolumeClaim
from allotment.scheduler.binding.step import AwaitVolumes, BindVolume, SelectNode
from allotment.scheduler.framework import SKIP, Cycle, StatusCode
from allotment.scheduler.plugins.volume_binding import VolumeBinding
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.volumes.needs import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_GONE
from tests.builders.typed import cluster, cycle, node, term, where
from tests.scheduler.storage import (
    DRIVER,
    MADE,
    capacity,
    claim,
    driver,
    ephemeral,
    kind,
    pod,
    taken,
    volume,
)

PLUGIN = VolumeBinding()
A = node("a", zone="east")
B = node("b", zone="west")
CLASSES = (kind(), kind(MADE, DRIVER), kind("now", waits=False))


def attempt(of: Pod, *objects: ApiStruct) -> Cycle:
    return cycle(of, A, B, *CLASSES, *objects)


def suits(made: Cycle, on: Node) -> str:
    """Empty if the node suits the pod, else why not."""
    status = PLUGIN.filter(made, made.cluster.nodes[on.metadata.name])
    assert status.ok or status.code is StatusCode.UNRESOLVABLE
    return status.words


@pytest.mark.parametrize(
    ("of", "objects", "code", "told"),
    [
        pytest.param(
            pod("p", "c"),
            [],
            StatusCode.UNRESOLVABLE,
            'persistentvolumeclaim "c" not found',
            id="no such claim",
        ),
        pytest.param(
            pod("p", "c"),
            [claim("c", namespace="other")],
            StatusCode.UNRESOLVABLE,
            'persistentvolumeclaim "c" not found',
            id="a claim of another namespace",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(bound="v", phase="Lost")],
            StatusCode.UNRESOLVABLE,
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(bound="v", leaving=True), volume()],
            StatusCode.UNRESOLVABLE,
            'persistentvolumeclaim "c" is being deleted',
            id="being deleted",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(storage_class="now")],
            StatusCode.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="binds at once, and is not bound yet",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(storage_class=None)],
            StatusCode.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="without a class",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(storage_class="absent")],
            StatusCode.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="of a class that is not there",
        ),
        pytest.param(
            pod("p", "c"),
            [claim(named="v"), volume()],
            StatusCode.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="names its volume, and is not bound yet",
        ),
        pytest.param(
            pod("p", volumes=[ephemeral()]),
            [],
            StatusCode.WAIT,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
            id="an ephemeral volume without a claim",
        ),
        pytest.param(
            pod("p", volumes=[ephemeral()]),
            [claim("p-scratch", owner="somebody")],
            StatusCode.UNRESOLVABLE,
            "PVC default/p-scratch was not created for pod default/p",
            id="an ephemeral volume whose claim is another pod's",
        ),
    ],
)
def test_pods_that_are_kept_from_all_nodes(
    of: Pod, objects: Sequence[ApiStruct], code: StatusCode, told: str
) -> None:
    status = PLUGIN.pre_filter(attempt(of, *objects))
    assert (status.code, status.words) == (code, told)


def test_a_pod_without_claims_is_of_no_interest() -> None:
    assert PLUGIN.pre_filter(attempt(pod())) is SKIP


AMONG = LabelSelector(match_labels={"tier": "fast"})


@pytest.mark.parametrize(
    ("claims", "objects", "on_a", "on_b"),
    [
        pytest.param([claim(bound="v")], [volume()], "", "", id="bound, and reached from everywhere"),
        pytest.param([claim(bound="v")], [volume(on="a")], "", NODE_CONFLICT, id="bound on one node"),
        pytest.param([claim(bound="v")], [volume(zone="west")], NODE_CONFLICT, "", id="bound in one zone"),
        pytest.param([claim(bound="v")], [], VOLUME_GONE, VOLUME_GONE, id="bound to what is gone"),
        pytest.param(
            [claim(bound="v")],
            [volume(terms=[term(names=["a"])])],
            "",
            "",
            id="by a node's name, which kube-scheduler passes over",
        ),
        pytest.param(
            [claim(bound="v")],
            [volume(terms=[term(where("kubernetes.io/hostname", "In", "b"), names=["a"])])],
            NODE_CONFLICT,
            "",
            id="by a node's name and a label, of which the label counts",
        ),
        pytest.param(
            [claim(bound="v")],
            [
                volume(
                    terms=[term(where("disk", "In", "ssd")), term(where("kubernetes.io/hostname", "In", "b"))]
                )
            ],
            NODE_CONFLICT,
            "",
            id="one of several terms",
        ),
        pytest.param([claim()], [volume(on="a")], "", BIND_CONFLICT, id="one to be had on one node"),
        pytest.param([claim()], [], BIND_CONFLICT, BIND_CONFLICT, id="none to be had"),
        pytest.param([claim()], [volume(size="4Gi")], BIND_CONFLICT, BIND_CONFLICT, id="too small"),
        pytest.param([claim()], [volume(size="5Gi")], "", "", id="just large enough"),
        pytest.param(
            [claim()], [volume(storage_class="other")], BIND_CONFLICT, BIND_CONFLICT, id="of another class"
        ),
        pytest.param(
            [claim(modes=["ReadWriteMany"])],
            [volume()],
            BIND_CONFLICT,
            BIND_CONFLICT,
            id="lacks a mode of access",
        ),
        pytest.param(
            [claim()], [volume(modes=["ReadWriteOnce", "ReadOnlyMany"])], "", "", id="has more modes"
        ),
        pytest.param(
            [claim(volume_mode="Block")],
            [volume()],
            BIND_CONFLICT,
            BIND_CONFLICT,
            id="files where blocks are asked for",
        ),
        pytest.param(
            [claim(volume_attributes_class_name="gold")],
            [volume()],
            BIND_CONFLICT,
            BIND_CONFLICT,
            id="without the attributes",
        ),
        pytest.param(
            [claim(selector=AMONG)], [volume()], BIND_CONFLICT, BIND_CONFLICT, id="not among those selected"
        ),
        pytest.param(
            [claim(selector=AMONG)], [volume(labels={"tier": "fast"})], "", "", id="among those selected"
        ),
        pytest.param(
            [claim()], [volume(claim="other")], BIND_CONFLICT, BIND_CONFLICT, id="meant for another claim"
        ),
        pytest.param([claim()], [volume(claim="c", phase="Pending")], "", "", id="meant for this claim"),
        pytest.param(
            [claim()],
            [volume(claim="c", uid="that of an older claim")],
            BIND_CONFLICT,
            BIND_CONFLICT,
            id="was that of an older claim of the name",
        ),
        pytest.param(
            [claim()],
            [volume("meant", claim="c", on="a"), volume("free", on="b")],
            "",
            BIND_CONFLICT,
            id="what is meant for it counts alone",
        ),
        pytest.param(
            [claim()], [volume(phase="Released")], BIND_CONFLICT, BIND_CONFLICT, id="released, not free"
        ),
        pytest.param([claim()], [volume(leaving=True)], BIND_CONFLICT, BIND_CONFLICT, id="being deleted"),
        pytest.param(
            [claim("c"), claim("d")], [volume()], BIND_CONFLICT, BIND_CONFLICT, id="one volume for two claims"
        ),
        pytest.param(
            [claim("c", "8Gi"), claim("d", "2Gi")],
            [volume("small", "3Gi"), volume("large", "9Gi")],
            "",
            "",
            id="the smaller claim leaves the larger volume",
        ),
        pytest.param([claim(storage_class=MADE)], [], "", "", id="to be made anywhere"),
        pytest.param(
            [claim(storage_class=MADE, node="b")], [], BIND_CONFLICT, "", id="to be made for one node already"
        ),
        pytest.param(
            [claim(storage_class="zoned")],
            [kind("zoned", DRIVER, zones=["west"])],
            BIND_CONFLICT,
            "",
            id="to be made in one zone only",
        ),
        pytest.param(
            [claim(storage_class=MADE)],
            [driver(capacity=True), capacity("e", "4Gi", "east"), capacity("w", "6Gi", "west")],
            NOT_ENOUGH_SPACE,
            "",
            id="room in one zone",
        ),
        pytest.param(
            [claim(storage_class=MADE)],
            [driver(capacity=True), capacity("e", "9Gi", "east", largest="4Gi"), capacity("w", None, "west")],
            NOT_ENOUGH_SPACE,
            NOT_ENOUGH_SPACE,
            id="no single volume may be so large; nothing is known",
        ),
        pytest.param(
            [claim(storage_class=MADE)],
            [driver(capacity=True), capacity("n", "9Gi", None)],
            NOT_ENOUGH_SPACE,
            NOT_ENOUGH_SPACE,
            id="room that no node sees",
        ),
        pytest.param(
            [claim(storage_class=MADE)],
            [driver(), capacity("e", "4Gi", "east")],
            "",
            "",
            id="a driver that does not tell how much room it has",
        ),
        pytest.param(
            [claim("c", bound="v"), claim("d")],
            [taken(volume(on="a"), claim("c")), volume("w", on="b")],
            BIND_CONFLICT,
            NODE_CONFLICT,
            id="one volume here and one there",
        ),
    ],
)
def test_which_nodes_suit_the_claims(
    claims: Sequence[PersistentVolumeClaim], objects: Sequence[ApiStruct], on_a: str, on_b: str
) -> None:
    made = attempt(pod("p", *[each.metadata.name for each in claims]), *claims, *objects)
    assert PLUGIN.pre_filter(made).ok
    assert (suits(made, A), suits(made, B)) == (on_a, on_b)


def reserved(of: Pod, on: Node, *objects: ApiStruct) -> Cycle:
    made = attempt(of, *objects)
    assert PLUGIN.pre_filter(made).ok
    assert PLUGIN.reserve(made, made.cluster.nodes[on.metadata.name]).ok
    return made


def test_what_is_written_for_a_pod() -> None:
    small, large = claim("small", "2Gi"), claim("large", "8Gi")
    objects = [small, large, claim("new", storage_class=MADE), volume("x", "8Gi", on="a"), volume("y", "3Gi")]
    made = reserved(pod("p", "large", "new", "small"), A, *objects)
    given = (
        BindVolume("y", "default/small", "uid-default-small"),
        BindVolume("x", "default/large", "uid-default-large"),
    )
    to_make = (SelectNode("default/new", "uid-default-new", "a"),)
    steps = PLUGIN.pre_bind(made, made.cluster.nodes["a"])
    assert steps == [*given, *to_make, AwaitVolumes("a", given, to_make, 600.0)]


def test_nothing_is_written_where_all_is_bound() -> None:
    made = reserved(pod("p", "c"), A, claim(bound="v"), volume())
    assert PLUGIN.pre_bind(made, made.cluster.nodes["a"]) == []


def test_a_volume_that_was_decided_about_is_not_free_until_it_is_given_back() -> None:
    made = reserved(pod("p", "c"), A, claim("c"), claim("d"), volume())
    other = Cycle(PodInfo(pod("q", "d")), made.cluster, 0.0)
    assert PLUGIN.pre_filter(other).ok
    assert suits(other, A) == BIND_CONFLICT
    PLUGIN.unreserve(made, made.cluster.nodes["a"])
    other = Cycle(PodInfo(pod("q", "d")), made.cluster, 0.0)
    assert PLUGIN.pre_filter(other).ok
    assert suits(other, A) == ""
    assert made.cluster.storage.assumptions == 0


def test_pods_that_share_a_claim_go_where_it_was_decided_to_be() -> None:
    made = reserved(pod("p", "c"), A, claim(storage_class=MADE))
    other = Cycle(PodInfo(pod("q", "c")), made.cluster, 0.0)
    assert PLUGIN.pre_filter(other).ok
    assert (suits(other, A), suits(other, B)) == ("", BIND_CONFLICT)
    assert PLUGIN.reserve(other, made.cluster.nodes["a"]).ok
    PLUGIN.unreserve(made, made.cluster.nodes["a"])
    assert made.cluster.storage.selected_node(claim(storage_class=MADE)) == "a"  # for the sake of the other
    PLUGIN.unreserve(other, made.cluster.nodes["a"])
    assert made.cluster.storage.assumptions == 0


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, claim("c"), True, id="its claim comes"),
        pytest.param(None, claim("other"), False, id="another claim comes"),
        pytest.param(None, volume(), True, id="a volume comes"),
        pytest.param(A, node("a", zone="north"), True, id="a node gets other labels"),
        pytest.param(A, node("a", zone="east", cpu=4), False, id="a node changes in something else"),
        pytest.param(kind(), kind(zones=["east"]), True, id="a class allows other zones"),
        pytest.param(kind(), kind(), False, id="a class changes in something else"),
        pytest.param(capacity("e", "4Gi", "east"), capacity("e", "6Gi", "east"), True, id="more room"),
        pytest.param(capacity("e", "4Gi", "east"), capacity("e", "3Gi", "east"), False, id="less room"),
        pytest.param(driver(capacity=True), driver(), True, id="a driver no longer tells its room"),
    ],
)
def test_what_may_help_a_pod_that_was_turned_away(
    old: ApiStruct | None, new: ApiStruct | None, helps: bool
) -> None:
    of = PodInfo(pod("p", "c"))
    assert PLUGIN.helps(of, old, new, cluster()) is helps
