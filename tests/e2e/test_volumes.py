"""Pods with volumes, with Kubernetes' own volume controller and with ours: they run where their volumes are, or wait and say why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.controllers.volumes.provisioner import PROVISIONER
from tests.builders import plain
from tests.e2e.plane import Plane

Obj = dict[str, Any]
NAMESPACE = "volumes"
NODES = ("volumes-a", "volumes-b")
ROOM = {"cpu": "8", "memory": "16Gi", "pods": "110"}
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
WAITS, MADE = "volumes-local", "volumes-made"


def simulated_node(name: str) -> Obj:
    labels = {"allotment.dev/simulated": "true", "kubernetes.io/hostname": name}
    return plain.node(name, labels, capacity=ROOM, allocatable=ROOM, conditions=[READY])


def storage_class(name: str, provisioner: str) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def local_volume(name: str, on: str, size: str) -> Obj:
    test = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": WAITS,
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [test]}]}},
        },
    }


def asked(storage: str, size: str = "5Gi") -> Obj:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "resources": {"requests": {"storage": size}},
    }


def volume_claim(name: str, storage: str = WAITS, size: str = "5Gi") -> Obj:
    return plain.made("v1", "PersistentVolumeClaim", name, NAMESPACE) | {"spec": asked(storage, size)}


def storing_pod(name: str, volume: Obj) -> Obj:
    return plain.pod(
        name,
        namespace=NAMESPACE,
        nodeSelector={"allotment.dev/simulated": "true"},
        automountServiceAccountToken=False,
        serviceAccountName="default",
        volumes=[{"name": "data", **volume}],
    )


def of_claim(name: str) -> Obj:
    return {"persistentVolumeClaim": {"claimName": name}}


@pytest.fixture
def scene(plane: Plane) -> Iterator[Plane]:
    objects: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": NAMESPACE},
        },
        *map(simulated_node, NODES),
        storage_class(WAITS, "kubernetes.io/no-provisioner"),
        storage_class(MADE, PROVISIONER),
        local_volume("volumes-small", NODES[0], "1Gi"),
        local_volume("volumes-large", NODES[1], "10Gi"),
    ]
    claims = [volume_claim(name, size=size) for name, size in (("data", "5Gi"), ("huge", "50Gi"))]
    plane.gone(NAMESPACE)
    plane.apply([*objects, *claims])
    try:
        yield plane
    finally:
        plane.clear(NAMESPACE)
        plane.remove([*claims, volume_claim("made", MADE)])
        plane.delete_namespaces(NAMESPACE)
        plane.remove(objects[2:])


def found(plane: Plane, name: str) -> Pod | None:
    return plane.pods.get(name, NAMESPACE)


def node_of(plane: Plane, name: str) -> str:
    pod = found(plane, name)
    return (pod.spec.node_name or "") if pod is not None else ""


def why(plane: Plane, name: str) -> str:
    pod = found(plane, name)
    conditions = pod.status.conditions if pod is not None else ()
    return next((each.message or "" for each in conditions if each.type == "PodScheduled"), "")


def test_a_claim_gets_the_volume_that_fits_and_the_pod_runs_where_it_is(scene: Plane) -> None:
    scene.apply([storing_pod("reader", of_claim("data"))])
    scene.until(lambda: node_of(scene, "reader"), lambda: f"reader has a node: {why(scene, 'reader')}")
    assert node_of(scene, "reader") == NODES[1]  # the other's volume is too small
    bound = scene.kubectl(
        "get", "pvc", "data", "-n", NAMESPACE, "-o", "jsonpath={.status.phase} {.spec.volumeName}"
    )
    assert bound == "Bound volumes-large"
    owner = scene.kubectl(
        "get", "pv", "volumes-large", "-o", "jsonpath={.status.phase} {.spec.claimRef.name}"
    )
    assert owner == "Bound data"
    scene.validate()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("absent", 'persistentvolumeclaim "absent" not found', id="no such claim"),
        pytest.param(
            "huge", "didn't find available persistent volumes to bind", id="no volume is large enough"
        ),
    ],
)
def test_a_pod_whose_volume_cannot_be_had_waits_and_says_why(scene: Plane, name: str, told: str) -> None:
    scene.apply([storing_pod("waiting", of_claim(name))])
    scene.until(lambda: told in why(scene, "waiting"), lambda: f"it says why: {why(scene, 'waiting')!r}")
    assert not node_of(scene, "waiting")
    scene.validate()


def test_a_pod_goes_on_when_its_claim_comes(scene: Plane) -> None:
    scene.apply([storing_pod("early", of_claim("late"))])
    scene.until(lambda: why(scene, "early"), "it says that it waits")
    scene.apply([volume_claim("late")])
    scene.until(lambda: node_of(scene, "early") == NODES[1], lambda: f"it runs: {why(scene, 'early')}")


def test_an_ephemeral_volume_is_a_claim_of_its_own_for_the_pod(scene: Plane) -> None:
    ephemeral = {"ephemeral": {"volumeClaimTemplate": {"spec": asked(WAITS)}}}
    scene.apply([storing_pod("scratch", ephemeral)])
    scene.until(lambda: node_of(scene, "scratch") == NODES[1], lambda: f"it runs: {why(scene, 'scratch')}")
    owner = scene.kubectl(
        "get", "pvc", "scratch-data", "-n", NAMESPACE, "-o", "jsonpath={.metadata.ownerReferences[0].name}"
    )
    assert owner == "scratch"


@pytest.mark.parametrize("plane", ["ours"], indirect=True, scope="module")  # nobody makes them on a real one
def test_a_simulated_volume_is_made_for_the_node_and_goes_with_its_claim(scene: Plane) -> None:
    scene.apply([volume_claim("made", MADE), storing_pod("writer", of_claim("made"))])
    scene.until(lambda: node_of(scene, "writer"), lambda: f"it runs: {why(scene, 'writer')}")
    name = scene.kubectl("get", "pvc", "made", "-n", NAMESPACE, "-o", "jsonpath={.spec.volumeName}")
    reached = "jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]}"
    assert scene.kubectl("get", "pv", name, "-o", reached) == node_of(scene, "writer")
    scene.clear(NAMESPACE)
    scene.remove([volume_claim("made", MADE)])
    scene.kubectl("wait", "--for=delete", f"pv/{name}", "--timeout=60s")
