"""VolumeZone, VolumeRestrictions, NodeVolumeLimits and NodeDeclaredFeatures, each by a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from allotment.api.core import Container, ContainerRestartRule, Node, Pod, VolumeMount
from allotment.api.meta import ApiStruct
from allotment.api.volumes import AWSDisk, GCEDisk, ISCSIDisk, RBDImage, Volume
from allotment.scheduler.framework import SKIP, Status, StatusCode
from allotment.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from allotment.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from allotment.scheduler.plugins.volume_restrictions import VolumeRestrictions
from allotment.scheduler.plugins.volume_zone import VolumeZone
from tests.builders import typed
from tests.builders.typed import ZONE, cluster, cycle, node
from tests.scheduler.storage import (
    DRIVER,
    MADE,
    attachment,
    claim,
    csi_node,
    driver,
    ephemeral,
    kind,
    pod,
    volume,
)

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
ALONE = ["ReadWriteOncePod"]


def asked(
    plugin: VolumeZone | VolumeRestrictions | NodeVolumeLimits | NodeDeclaredFeatures,
    of: Pod,
    on: Node,
    *objects: ApiStruct,
) -> Status:
    made = cycle(of, on, *objects)
    status = plugin.pre_filter(made)
    return status if status is SKIP else plugin.filter(made, made.cluster.nodes[on.metadata.name])


# --- VolumeZone ---


@pytest.mark.parametrize(
    ("on_volume", "on_node", "suits"),
    [
        pytest.param({}, {ZONE: "east"}, True, id="no label"),
        pytest.param({ZONE: "east"}, {ZONE: "east"}, True, id="the zone"),
        pytest.param({ZONE: "east"}, {ZONE: "west"}, False, id="another zone"),
        pytest.param({ZONE: "east__west"}, {ZONE: "west"}, True, id="one of several"),
        pytest.param({OLD_ZONE: "east"}, {ZONE: "east"}, True, id="as it was called once"),
        pytest.param({OLD_ZONE: "east"}, {ZONE: "west"}, False, id="as it was called once, another"),
        pytest.param({ZONE: ""}, {ZONE: "east"}, True, id="a label that names no zone"),
        pytest.param({ZONE: "east"}, {}, True, id="a node that is nowhere"),
        pytest.param(
            {ZONE: "east"},
            {"topology.kubernetes.io/region": "r"},
            False,
            id="a node of which only the region is known",
        ),
    ],
)
def test_zones_of_volumes(on_volume: Mapping[str, str], on_node: Mapping[str, str], suits: bool) -> None:
    of, objects = pod("p", "c"), [claim(bound="v"), volume(labels=on_volume)]
    status = asked(VolumeZone(), of, node("n", labels=on_node), *objects)
    assert (status.ok or status is SKIP) is suits
    if not suits:
        assert status.code is StatusCode.UNRESOLVABLE
        assert status.words == "had no available volume zone"


# --- VolumeRestrictions ---


def disk(**source: object) -> list[Volume]:
    return [Volume(name="disk", **source)]  # type: ignore[arg-type]  # each of the right type


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        pytest.param(
            disk(gce_persistent_disk=GCEDisk(pd_name="d")),
            disk(gce_persistent_disk=GCEDisk(pd_name="d")),
            True,
            id="gce",
        ),
        pytest.param(
            disk(gce_persistent_disk=GCEDisk(pd_name="d", read_only=True)),
            disk(gce_persistent_disk=GCEDisk(pd_name="d", read_only=True)),
            False,
            id="gce, both only read",
        ),
        pytest.param(
            disk(gce_persistent_disk=GCEDisk(pd_name="d", read_only=True)),
            disk(gce_persistent_disk=GCEDisk(pd_name="d")),
            True,
            id="gce, one only reads",
        ),
        pytest.param(
            disk(aws_elastic_block_store=AWSDisk(volume_id="d")),
            disk(aws_elastic_block_store=AWSDisk(volume_id="e")),
            False,
            id="aws, another disk",
        ),
        pytest.param(
            disk(aws_elastic_block_store=AWSDisk(volume_id="d")),
            disk(gce_persistent_disk=GCEDisk(pd_name="d")),
            False,
            id="another cloud",
        ),
        pytest.param(disk(iscsi=ISCSIDisk(iqn="d")), disk(iscsi=ISCSIDisk(iqn="d")), True, id="iscsi"),
        pytest.param(
            disk(rbd=RBDImage(monitors=("m", "n"), image="i")),
            disk(rbd=RBDImage(monitors=("n",), image="i", pool="rbd")),
            True,
            id="rbd, a monitor in common, and the default pool",
        ),
        pytest.param(
            disk(rbd=RBDImage(monitors=("m",), image="i")),
            disk(rbd=RBDImage(monitors=("n",), image="i")),
            False,
            id="rbd, another cluster",
        ),
    ],
)
def test_disks_that_only_one_pod_of_a_node_can_have(
    mine: Sequence[Volume], theirs: Sequence[Volume], clash: bool
) -> None:
    other = pod("q", volumes=theirs, node="n")
    status = asked(VolumeRestrictions(), pod("p", volumes=mine), node("n"), other)
    assert status.ok is not clash
    if clash:
        assert (status.code, status.words) == (StatusCode.UNSCHEDULABLE, "had no available disk")
        assert VolumeRestrictions().helps(cycle(pod("p", volumes=mine)).pod, other, None, cluster())


def test_a_claim_for_one_pod_alone_is_free_once_no_other_pod_with_a_node_has_it() -> None:
    alone, other = claim(modes=ALONE), pod("q", "c", node="elsewhere")
    status = asked(VolumeRestrictions(), pod("p", "c"), node("n"), alone, other)
    assert status.code is StatusCode.UNSCHEDULABLE  # preemption can help
    assert "ReadWriteOncePod" in status.words
    assert asked(VolumeRestrictions(), pod("p", "c"), node("n"), alone, pod("q", "c")) is SKIP
    assert asked(VolumeRestrictions(), pod("p", "c"), node("n"), claim(), other) is SKIP
    plugin, of = VolumeRestrictions(), cycle(pod("p", "c")).pod
    assert plugin.helps(of, other, None, cluster())
    assert not plugin.helps(of, pod("r", "d", node="elsewhere"), None, cluster())


# --- NodeVolumeLimits ---


def csi(name: str) -> list[ApiStruct]:
    """A claim and the volume that it has."""
    return [claim(name, bound=f"v-{name}"), volume(f"v-{name}", handle=f"h-{name}")]


ONE = csi_node("n", {DRIVER: 1})


@pytest.mark.parametrize(
    ("of", "objects", "fits"),
    [
        pytest.param(pod("p", "c"), [ONE, *csi("c")], True, id="the first"),
        pytest.param(pod("p", "c", "d"), [ONE, *csi("c"), *csi("d")], False, id="two at once"),
        pytest.param(
            pod("p", "c"), [ONE, *csi("c"), *csi("d"), pod("q", "d", node="n")], False, id="the second"
        ),
        pytest.param(
            pod("p", "c"),
            [ONE, *csi("c"), pod("q", "c", node="n")],
            True,
            id="the same that is there already",
        ),
        pytest.param(
            pod("p", "c"),
            [csi_node("n", {DRIVER: None}), *csi("c"), *csi("d"), pod("q", "d", node="n")],
            True,
            id="a driver without a limit",
        ),
        pytest.param(
            pod("p", "c"), [csi_node("n", {"other": 0}), *csi("c")], True, id="a limit of another driver"
        ),
        pytest.param(pod("p", "c"), [csi_node("n", {DRIVER: 0}), *csi("c")], False, id="none at all"),
        pytest.param(
            pod("p", "c"),
            [ONE, *csi("c"), *csi("d"), attachment("a", "n", "v-d")],
            False,
            id="one that is attached and that nobody has",
        ),
        pytest.param(
            pod("p", "c"), [ONE, *csi("c"), attachment("a", "n", "v-c")], True, id="this one is attached"
        ),
        pytest.param(
            pod("p", "c"),
            [csi_node("n", {DRIVER: 0}), claim(storage_class=MADE), kind(MADE, DRIVER)],
            False,
            id="one that is not made yet",
        ),
        pytest.param(
            pod("p", volumes=[ephemeral()]),
            [
                csi_node("n", {DRIVER: 0}),
                claim("p-scratch", storage_class=MADE, owner="uid-default-p"),
                kind(MADE, DRIVER),
            ],
            False,
            id="an ephemeral one",
        ),
        pytest.param(pod("p", "c"), [driver(insists=True), *csi("c")], False, id="no driver, which insists"),
        pytest.param(
            pod("p", "c"),
            [driver(insists=True), csi_node("n", {DRIVER: None}), *csi("c")],
            True,
            id="the driver is there",
        ),
        pytest.param(pod("p", "c"), [driver(), *csi("c")], True, id="no driver, which does not insist"),
        pytest.param(
            pod("p", volumes=disk(aws_elastic_block_store=AWSDisk(volume_id="d"))),
            [csi_node("n", {"ebs.csi.aws.com": 0})],
            False,
            id="an old disk, which a driver serves although no annotation says so",
        ),
        pytest.param(
            pod("p", "c"),
            [
                csi_node("n", {"ebs.csi.aws.com": 0}),
                claim(storage_class=MADE),
                kind(MADE, "kubernetes.io/aws-ebs"),
            ],
            False,
            id="one that is made by an old plugin's driver",
        ),
        pytest.param(
            pod("p", volumes=disk(aws_elastic_block_store=AWSDisk(volume_id="d"))),
            [driver("ebs.csi.aws.com", insists=True)],
            True,
            id="an old disk on a node of which no drivers are known",
        ),
    ],
)
def test_limits_of_volumes(of: Pod, objects: Sequence[ApiStruct], fits: bool) -> None:
    status = asked(NodeVolumeLimits(), of, node("n"), *objects)
    assert status.ok is fits
    if not fits:
        assert status.code is StatusCode.UNSCHEDULABLE  # preemption can help


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(ONE, csi_node("n", {DRIVER: 2}), True, id="more"),
        pytest.param(ONE, csi_node("n", {DRIVER: None}), True, id="any number"),
        pytest.param(ONE, csi_node("n", {DRIVER: 0}), False, id="fewer"),
        pytest.param(ONE, csi_node("n", {DRIVER: 1, "other": 0}), True, id="another driver comes"),
        pytest.param(attachment("a", "n", "v"), None, True, id="a volume is detached"),
        pytest.param(pod("q", "c", node="n"), None, True, id="a pod with a volume goes"),
        pytest.param(pod("q", node="n"), None, False, id="a pod without volumes goes"),
    ],
)
def test_what_may_help_where_there_were_too_many(
    old: ApiStruct | None, new: ApiStruct | None, helps: bool
) -> None:
    assert NodeVolumeLimits().helps_anyone(old, new) is helps


def test_drivers_of_volumes_are_those_of_their_volumes_and_not_of_their_classes() -> None:
    other = volume("v", driver="other", handle="h")
    objects = [csi_node("n", {DRIVER: 0}), claim(bound="v", storage_class=MADE), kind(MADE, DRIVER), other]
    assert asked(NodeVolumeLimits(), pod("p", "c"), node("n"), *objects).ok


# --- NodeDeclaredFeatures ---


RULE = Container(name="main", restart_policy_rules=(ContainerRestartRule(action="RestartAllContainers"),))
MOUNT = Container(name="main", volume_mounts=(VolumeMount(bind_mount_options=("noexec",)),))


@pytest.mark.parametrize(
    ("of", "feature"),
    [
        pytest.param(
            typed.pod(containers=[RULE]),
            "RestartAllContainersOnContainerExits",
            id="restart all containers",
        ),
        pytest.param(typed.pod(containers=[MOUNT]), "VolumeBindMountOptions", id="options of a mount"),
        pytest.param(
            typed.pod(host_network=True, host_users=False),
            "UserNamespacesHostNetworkSupport",
            id="the host's network without its users",
        ),
    ],
)
def test_features_that_nodes_must_declare(of: Pod, feature: str) -> None:
    status = asked(NodeDeclaredFeatures(), of, node("n"))
    assert (status.code, status.words) == (StatusCode.UNRESOLVABLE, f"do not declare the feature {feature}")
    assert asked(NodeDeclaredFeatures(), of, node("n", features=[feature])).ok
    assert asked(NodeDeclaredFeatures(), typed.pod(host_network=True), node("n")) is SKIP
