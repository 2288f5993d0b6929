"""Terse builders of volumes, claims and what provides them: a test says what matters to it and nothing else.

``volume("v", "5Gi", on="node-a")`` is a local volume of the class ``local``, whose claims wait for their first consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from allotment.api.core import NodeSelector, NodeSelectorTerm, ObjectReference, Pod
from allotment.api.meta import LabelSelector, ObjectMeta, OwnerReference
from allotment.api.quantity import Quantity
from allotment.api.storage import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    CSIVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
    VolumeResources,
)
from allotment.api.volumes import EphemeralVolume, Volume, VolumeClaim
from tests.builders import typed
from tests.builders.typed import HOSTNAME, ZONE, term, where

LOCAL, MADE = "local", "made"
DRIVER = "disk.example.com"
ONCE = ("ReadWriteOnce",)


def kind(
    name: str = LOCAL,
    provisioner: str = NO_PROVISIONER,
    *,
    waits: bool = True,
    zones: Sequence[str] = (),
) -> StorageClass:
    test = TopologySelectorRequirement(key=ZONE, values=tuple(zones))
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=WAIT_FOR_FIRST_CONSUMER if waits else "Immediate",
        allowed_topologies=(TopologySelectorTerm(match_label_expressions=(test,)),) if zones else (),
    )


def volume(
    name: str = "v",
    size: str = "10Gi",
    *,
    on: str | Sequence[str] = (),
    zone: str = "",
    terms: Sequence[NodeSelectorTerm] = (),
    labels: Mapping[str, str] | None = None,
    storage_class: str = LOCAL,
    modes: Sequence[str] = ONCE,
    phase: str = "Available",
    claim: str = "",
    uid: str | None = None,
    handle: str = "",
    driver: str = DRIVER,
    leaving: bool = False,
    version: int | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A volume that is reached from the nodes ``on`` (all, if neither they nor a zone nor terms are given); ``claim`` is the name of
    the claim that it is for, ``uid`` that claim's, if it is known."""
    hosts = (on,) if isinstance(on, str) else tuple(on)
    chosen = [*terms]
    if hosts:
        chosen.append(term(where(HOSTNAME, "In", *hosts)))
    if zone:
        chosen.append(term(where(ZONE, "In", zone)))
    required = NodeSelector(node_selector_terms=tuple(chosen))
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels=dict(labels or {}),
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
            resource_version=str(version) if version is not None else "",
        ),
        spec=PersistentVolumeSpec(
            capacity={STORAGE: Quantity.parse(size)},
            access_modes=tuple(modes),
            storage_class_name=storage_class,
            claim_ref=ObjectReference(namespace="default", name=claim, uid=uid) if claim else None,
            node_affinity=VolumeNodeAffinity(required=required) if chosen else None,
            csi=CSIVolume(driver=driver, volume_handle=handle) if handle else None,
            **spec,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def claim(
    name: str = "c",
    size: str = "5Gi",
    *,
    storage_class: str | None = LOCAL,
    modes: Sequence[str] = ONCE,
    selector: LabelSelector | None = None,
    bound: str = "",
    named: str = "",
    node: str = "",
    phase: str = "",
    owner: str = "",
    leaving: bool = False,
    namespace: str = "default",
    **spec: Any,
) -> PersistentVolumeClaim:
    """``bound`` is the volume that it has; ``named`` one that it names without being bound; ``node`` for which its volume is to be
    made; ``owner`` the uid of a pod."""
    notes = {**({BIND_COMPLETED: "yes"} if bound else {}), **({SELECTED_NODE: node} if node else {})}
    owners = (OwnerReference(api_version="v1", kind="Pod", name="p", uid=owner, controller=True),)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            annotations=notes,
            owner_references=owners if owner else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            resources=VolumeResources(requests={STORAGE: Quantity.parse(size)}),
            storage_class_name=storage_class,
            selector=selector,
            volume_name=bound or named or None,
            **spec,
        ),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if bound else "Pending")),
    )


def pod(name: str = "p", *claims: str, volumes: Sequence[Volume] = (), **more: Any) -> Pod:
    """A pod with a volume for each of these claims, and others."""
    mine = [
        Volume(name=f"v{number}", persistent_volume_claim=VolumeClaim(claim_name=each))
        for number, each in enumerate(claims)
    ]
    return typed.pod(name, volumes=(*mine, *volumes), **more)


def ephemeral(name: str = "scratch") -> Volume:
    return Volume(name=name, ephemeral=EphemeralVolume())


def csi_node(name: str, limits: Mapping[str, int | None]) -> CSINode:
    """``limits`` by driver; None: any number."""
    drivers = [
        CSINodeDriver(
            name=driver,
            node_id=name,
            allocatable=VolumeNodeResources(count=limit) if limit is not None else None,
        )
        for driver, limit in limits.items()
    ]
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=tuple(drivers)))


def driver(name: str = DRIVER, *, capacity: bool = False, insists: bool = False) -> CSIDriver:
    spec = CSIDriverSpec(storage_capacity=capacity, prevent_pod_scheduling_if_missing=insists)
    return CSIDriver(metadata=ObjectMeta(name=name), spec=spec)


def capacity(
    name: str, size: str | None, zone: str | None, *, storage_class: str = MADE, largest: str | None = None
) -> CSIStorageCapacity:
    """How much there is in a zone; without one no node sees it."""
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="kube-system"),
        storage_class_name=storage_class,
        node_topology=LabelSelector(match_labels={ZONE: zone}) if zone else None,
        capacity=Quantity.parse(size) if size else None,
        maximum_volume_size=Quantity.parse(largest) if largest else None,
    )


def attachment(name: str, node: str, volume: str, attacher: str = DRIVER) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    return VolumeAttachment(
        metadata=ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(attacher=attacher, node_name=node, source=source),
    )


def taken(pv: PersistentVolume, by: PersistentVolumeClaim) -> PersistentVolume:
    """A volume that is a claim's."""
    ref = ObjectReference(namespace=by.metadata.namespace, name=by.metadata.name, uid=by.metadata.uid)
    return replace(pv, spec=replace(pv.spec, claim_ref=ref), status=replace(pv.status, phase="Bound"))
