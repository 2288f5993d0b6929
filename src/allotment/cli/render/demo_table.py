"""The demo's tables: a row for each pod and for each launched machine, and the expected end of each workload in
``demo_workloads.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import machine_of, state_of
from allotment.cli.render.screen import Cell

NAMESPACE = "demo"
NO_MACHINE = "no machine helps"
"""The autoscaler's message to a pod for which it can do nothing begins with this."""
COLUMNS = ("pod", "node", "devices", "state", "what it shows")
_STYLES = {"Running": "green", "Succeeded": "green dim", "Pending": "yellow", "Failed": "red"}


@dataclass(frozen=True, slots=True)
class DemoWorkload:
    """A group of similar pods: the prefix of their names, what they demonstrate, and how they should end."""

    names: str
    words: str
    pods: int
    state: str = "Running"


STORY = (
    DemoWorkload("notebook-", "a GPU for each pod", 2),
    DemoWorkload("chat-", "two pods share one claim", 2),
    DemoWorkload("parts", "three parts of cut GPUs", 1),
    DemoWorkload("stream-", "a share of a network card", 2),
    DemoWorkload("training-", "a gang: all four or none", 4),
    DemoWorkload("classic", "an extended resource, no claim", 1),
    DemoWorkload("inference-", "a Deployment", 3),
    DemoWorkload("evaluation-", "a Job; its GPUs come back", 3, "Succeeded"),
    DemoWorkload("render-", "a Job; machines come for it", 3, "Succeeded"),
    DemoWorkload("early", "a claim with KEP-4381 semantic parameters", 1),
    DemoWorkload("too-large", "no GPU has 96Gi", 1, "Pending"),
)


@dataclass(frozen=True, slots=True)
class PodRow:
    """The present state of a pod. ``devices`` are driver/pool/device, with the part in use if a device is shared."""

    pod: str
    node: str
    devices: tuple[str, ...]
    state: str
    words: str
    why: str = ""

    def cells(self) -> list[Cell]:
        """The row for people. Devices appear by their own names only, because the node is beside them. The devices of cards
        with KEP-4381 semantic parameters (v1alpha2) end in a checksum."""
        short = ", ".join(device.rpartition("/")[2].partition("--")[0] for device in self.devices)
        if self.state == "Succeeded" and not short:
            short = "given back"
        return [
            self.pod,
            self.node,
            (short, "cyan"),
            (self.state, _STYLES.get(self.state, "")),
            (self.words, "dim"),
        ]

    def json(self) -> dict[str, Any]:
        return {
            "name": self.pod,
            "node": self.node or None,
            "devices": list(self.devices),
            "state": self.state,
            "message": self.why or None,
        }


@dataclass(frozen=True, slots=True)
class Launched:
    """The present state of a machine that was launched or, if it is gone, its last state."""

    name: str
    type: str
    zone: str
    price: str  # per hour
    state: str

    def cells(self) -> list[Cell]:
        return [
            self.name,
            "",
            (f"{self.type} in {self.zone}", "cyan"),
            (self.state, _STYLES.get(self.state, "yellow")),
            (f"a machine, {self.price} an hour", "dim"),
        ]

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "zone": self.zone,
            "pricePerHour": self.price,
            "state": self.state,
        }


GONE = "gone"


def launched(
    claims: Sequence[NodeClaim], machines: Sequence[Machine], before: Sequence[Launched] = ()
) -> list[Launched]:
    """All machines that exist or existed; ``before`` are those that were shown last."""
    found = {each.name: replace(each, state=GONE) for each in before}
    for claim in sorted(claims, key=lambda each: each.metadata.name):
        machine = machine_of(claim, machines)
        if machine is not None:
            name, place = claim.metadata.name, machine.offering.zone
            found[name] = Launched(name, machine.type, place, str(machine.price), state_of(claim).value)
    return list(found.values())


def rows(
    pods: Sequence[Pod], claims: Sequence[ResourceClaim], told: Mapping[str, str] | None = None
) -> list[PodRow]:
    """The demo's pods, in the order of the story. ``told`` has the autoscaler's messages to pods, by uid."""
    known = {each.metadata.name: each for each in claims if each.metadata.namespace == NAMESPACE}
    ours = sorted(
        (pod for pod in pods if pod.metadata.namespace == NAMESPACE), key=lambda pod: pod.metadata.name
    )
    return [
        PodRow(
            pod.metadata.name,
            pod.spec.node_name or "",
            tuple(_devices(pod, known)),
            pod.status.phase or "Pending",
            workload.words,
            "; ".join(filter(None, (_why(pod), (told or {}).get(pod.metadata.uid)))),
        )
        for workload in STORY
        for pod in ours
        if pod.metadata.name.startswith(workload.names)
    ]


def unexpected(found: Sequence[PodRow], machines: Sequence[Launched] | None = None) -> list[str]:
    """A sentence for everything that does not match the expected end; empty if everything matches."""
    sentences = [sentence for workload in STORY if (sentence := _unexpected(workload, found))]
    left = [each for each in machines or () if each.state != GONE]
    if machines is not None and (left or not machines):
        sentences.append(f"machines: {len(left)} of {len(machines)} are not gone")
    return sentences


def _unexpected(workload: DemoWorkload, found: Sequence[PodRow]) -> str:
    mine = [row for row in found if row.pod.startswith(workload.names)]
    good = [row for row in mine if row.state == workload.state and _is_complete(row)]
    if len(good) == len(mine) == workload.pods:
        return ""
    states = ", ".join(
        f"{row.pod} is {row.state}{f' ({row.why})' if row.why else ''}" for row in mine if row not in good
    )
    name = workload.names.removesuffix("-")
    return f"{name}: {len(good)} of {workload.pods} {workload.state}" + (f"; {states}" if states else "")


def _is_complete(row: PodRow) -> bool:
    """Whether the row is in its end state: a running pod has devices, a finished one has given them back, and a waiting one
    has a reason."""
    match row.state:
        case "Running":
            return bool(row.devices)
        case "Succeeded":
            return not row.devices
        case _:
            return NO_MACHINE in row.why


def _devices(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Iterator[str]:
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    extended = pod.status.extended_resource_claim_status
    names += [extended.resource_claim_name] if extended is not None else []
    for name in names:
        claim = claims.get(name or "")
        if claim is None or claim.status.allocation is None:
            continue
        if not any(user.uid == pod.metadata.uid for user in claim.status.reserved_for):
            continue
        for result in claim.status.allocation.devices.results:
            share = " ".join(f"{what}={amount}" for what, amount in sorted(result.consumed_capacity.items()))
            yield f"{result.driver}/{result.pool}/{result.device}{f' ({share})' if share else ''}"


def _why(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or ""
    return ""
