"""Extended resources that device classes serve: ``vendor.com/gpu: 2`` as a claim that the scheduler makes for the pod.

A class serves the resource that its ``extendedResourceName`` names, and ``deviceclass.resource.kubernetes.io/<class>``. On a node
whose device plugin offers the resource, the pod uses the plugin and claims nothing. So the claim depends on the node.

One claim serves all of a pod's extended resources, with a request for each container and resource. Containers that run to
completion before others start may use the devices of those that start later. Among themselves, they share the devices of the one
that requests most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allotment.api.claim_marks import EXTENDED
from allotment.api.codec import to_builtins
from allotment.api.core import ContainerExtendedResourceRequest
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

if TYPE_CHECKING:
    from allotment.api.core import Container, Pod
    from allotment.api.quantity import Quantity
    from allotment.scheduler.devices.claims import Claims
    from allotment.scheduler.pod import PodInfo

_UNIT = 10**9
_LONGEST_NAME_BASE = 58  # characters of a generated name before its random part, as Kubernetes has it


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim that would serve a pod on some nodes, and which of its requests serves which container."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]

    def manifest(self) -> dict[str, Any]:
        return to_builtins(self.claim)

    def status(self) -> dict[str, Any]:
        """What the pod's status says about it."""
        mappings = [to_builtins(mapping) for mapping in self.mappings]
        name = self.claim.metadata.name
        told = {"requestMappings": mappings, "resourceClaimName": name}
        return {"extendedResourceClaimStatus": told}


def served(pod: PodInfo, classes: Mapping[str, str]) -> dict[str, str]:
    """The pod's resources that a device class can serve, with that class. ``classes`` has the class of each resource."""
    if classes.keys().isdisjoint(pod.requests):
        return {}
    return {
        name: classes[name] for name, amount in sorted(pod.requests.items()) if amount and name in classes
    }


def existing(pod: PodInfo, claims: Claims) -> ResourceClaim | None:
    """The claim that an earlier attempt made for the pod, if it is still there."""
    for key in claims.owned.get(pod.uid, ()):
        found = claims.objects[key]
        if found.metadata.annotations.get(EXTENDED) == "true":
            return found
    return None


def extended_claim(pod: PodInfo, resources: Collection[str], classes: Mapping[str, str]) -> ExtendedClaim:
    """The claim for these resources of a pod."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        mine = _ResourceUse(pod.pod, resource, classes[resource])
        requests += mine.requests
        mappings += mine.mappings
    requests.sort(key=lambda request: request.name)
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    meta = ObjectMeta(
        name=_name(pod),
        namespace=pod.namespace,
        annotations={EXTENDED: "true"},
        owner_references=(owner,),
    )
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
    return ExtendedClaim(ResourceClaim(metadata=meta, spec=spec), tuple(mappings))


def _name(pod: PodInfo) -> str:
    """A name as if generated from ``<pod>-extended-resources-``, but always the same for one pod: a repeated attempt must not
    make a second claim."""
    digits = hashlib.sha256(pod.uid.encode()).hexdigest()[:10]
    return f"{f'{pod.name}-extended-resources-'[:_LONGEST_NAME_BASE]}{digits}"


class _ResourceUse:
    """The requests for one resource of a pod, and the containers that they serve."""

    def __init__(self, pod: Pod, resource: str, class_name: str) -> None:
        self.requests: list[DeviceRequest] = []
        self.mappings: list[ContainerExtendedResourceRequest] = []
        self._resource = resource
        self._class = class_name
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        brief = [
            number
            for number, container in enumerate(pod.spec.init_containers)
            if container.restart_policy != "Always"
        ]
        lasting: dict[int, DeviceRequest] = {}
        for number, container in enumerate(containers):
            count = _count(container, resource)
            if count and number not in brief:
                lasting[number] = self._request(number, container, count)
                self._map(container, lasting[number].name)
        self._serve_brief(brief, containers, lasting)
        self.requests += lasting.values()

    def _serve_brief(
        self, brief: list[int], containers: tuple[Container, ...], lasting: Mapping[int, DeviceRequest]
    ) -> None:
        """Lets containers that end before others start use their devices; one further request covers the largest remainder."""
        largest: DeviceRequest | None = None
        waiting: list[Container] = []  # containers that need the further request
        for number in brief:
            container = containers[number]
            missing = _count(container, self._resource)
            for later, request in lasting.items():
                if missing > 0 and later > number:
                    self._map(container, request.name)
                    missing -= _wanted(request)
            if missing > 0:
                waiting.append(container)
                request = self._request(number, container, missing)
                if largest is None or _wanted(largest) < missing:
                    largest = request
        if largest is not None:
            self.requests.append(largest)
            for container in waiting:
                self._map(container, largest.name)

    def _request(self, number: int, container: Container, count: int) -> DeviceRequest:
        order = sorted(_asked(container))
        name = f"container-{number}-request-{order.index(self._resource)}"
        exactly = ExactDeviceRequest(device_class_name=self._class, allocation_mode="ExactCount", count=count)
        return DeviceRequest(name=name, exactly=exactly)

    def _map(self, container: Container, request: str) -> None:
        self.mappings.append(
            ContainerExtendedResourceRequest(
                container_name=container.name, resource_name=self._resource, request_name=request
            )
        )


def _wanted(request: DeviceRequest) -> int:
    return (request.exactly.count or 0) if request.exactly is not None else 0


def _asked(container: Container) -> dict[str, Quantity]:
    """A container's requests; a limit without a request stands for one."""
    return {**container.resources.limits, **container.resources.requests}


def _count(container: Container, resource: str) -> int:
    amount = _asked(container).get(resource)
    return amount.nanos // _UNIT if amount is not None else 0
