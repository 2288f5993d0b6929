"""A pod as the scheduler sees it.

The scheduler works out once what a pod asks for, however often its status changes and however many pods ask for the same: pods of
equal spec share one ``Asks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from msgspec.structs import replace

from allotment.api.codec import encode
from allotment.scheduler.resource_requests import Amounts, requests_of
from allotment.scheduler.volumes.pod_volumes import volumes_of

if TYPE_CHECKING:
    from allotment.api.core import Pod, PodSpec, PodStatus
    from allotment.scheduler.volumes.pod_volumes import PodVolumes

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Volcano's annotations, each of which names the PodGroup that a pod belongs to."""
VOLCANO = "volcano:"
"""The prefix of keys of Volcano's groups. It keeps their names apart from those of Kubernetes' own groups."""
FINISHED = ("Succeeded", "Failed")


class HostPort(NamedTuple):
    """A port of the node that a pod requests exclusively."""

    ip: str
    protocol: str
    port: int


class Asks:
    """What pods of one spec ask for, without their node and volumes. Pods that share the object look the same to every plugin
    that reads only the spec."""

    __slots__ = ("__weakref__", "ports", "requests", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.requests = requests_of(spec)
        self.ports = _host_ports(spec)


class _KnownAsks:
    """All ``Asks`` in use, each once. Equal pods mostly arrive one after another, so it compares with the latest first."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Asks] = WeakValueDictionary()
        self._latest: Asks | None = None

    def by(self, spec: PodSpec) -> Asks:
        """What a spec asks for. Equal specs get the same object as long as any pod has it."""
        if spec.node_name is not None or spec.volumes:  # every pod names its own volumes
            spec = replace(spec, node_name=None, volumes=())
        if self._latest is None or self._latest.spec != spec:
            wording = encode(spec)
            self._latest = self._known.get(wording) or Asks(spec)
            self._known[wording] = self._latest
        return self._latest


_asked = _KnownAsks()


class PodInfo:
    """A pod with what it asks for. ``group`` is the key of the group that it names, empty if it names none. ``volumes`` is None
    if the pod's volumes do not restrict where it runs."""

    __slots__ = (
        "asks",
        "claims",
        "group",
        "key",
        "node",
        "pod",
        "ports",
        "priority",
        "requests",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, before: PodInfo | None = None) -> None:
        meta, spec = pod.metadata, pod.spec
        self.pod = pod
        self.uid = meta.uid
        self.node = spec.node_name or ""  # where it is, or is assumed to be
        self.priority = spec.priority or 0
        self.group = group_key(pod)
        self.key: str
        self.claims: tuple[str, ...]
        self.asks: Asks
        self.volumes: PodVolumes | None
        if before is not None and _same_asks(before.pod.spec, spec):
            self.key, self.asks, self.volumes = before.key, before.asks, before.volumes
            self.claims = before.claims if _same_notes(before.pod.status, pod.status) else claims_named(pod)
        else:
            self.key, self.asks = f"{meta.namespace}/{meta.name}", _asked.by(spec)
            self.claims = claims_named(pod)
            self.volumes = volumes_of(pod) if spec.volumes else None
        self.requests: Amounts = self.asks.requests
        self.ports: tuple[HostPort, ...] = self.asks.ports

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def finished(self) -> bool:
        return self.pod.status.phase in FINISHED

    @property
    def leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"<pod {self.key}{f' on {self.node}' if self.node else ''}>"


def group_key(pod: Pod) -> str:
    """The key of the group that a pod names; empty if it names none."""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return f"{pod.metadata.namespace}/{group.pod_group_name}"
    annotations = pod.metadata.annotations
    if annotations:
        for annotation in GROUP_ANNOTATIONS:
            if name := annotations.get(annotation):
                return f"{VOLCANO}{pod.metadata.namespace}/{name}"
    return ""


def claims_named(pod: Pod) -> tuple[str, ...]:
    """The claims that a pod names, in its spec or its status."""
    spec, status = pod.spec, pod.status
    extended = status.extended_resource_claim_status
    if not spec.resource_claims and extended is None:
        return ()
    namespace = pod.metadata.namespace
    names = [entry.resource_claim_name for entry in spec.resource_claims]
    names += [noted.resource_claim_name for noted in status.resource_claim_statuses]
    if extended is not None:
        names.append(extended.resource_claim_name)
    return tuple([f"{namespace}/{name}" for name in names if name])


def _same_asks(old: PodSpec, new: PodSpec) -> bool:
    """Whether a pod asks for the same as before. Binding a pod changes only its node."""
    return old == (new if old.node_name == new.node_name else replace(new, node_name=old.node_name))


def _same_notes(old: PodStatus, new: PodStatus) -> bool:
    """Whether a pod's status names the same claims as before."""
    return (
        old.resource_claim_statuses == new.resource_claim_statuses
        and old.extended_resource_claim_status == new.extended_resource_claim_status
    )


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*spec.containers, *spec.init_containers)
        for port in container.ports
        if port.host_port and (container in spec.containers or container.restart_policy == "Always")
    )
