"""How pods ended, in a form that tables of expectations can be written in.

``Wanted`` says of a pod, or of all pods of a workload: its phase, a pattern of its node's name, and patterns of the devices
(pool/device) for each claim/request that it has. Claims are named as in the pod's spec; that which the scheduler makes for extended
resources is ``extended`` and has one entry for all its requests. ``because`` is a regular expression that the whole message of a pending pod's PodScheduled condition must match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from allotment.api.core import Pod
from allotment.api.resource import AllocationResult
from tests.e2e.plane import Plane

EXTENDED = "extended"


@dataclass(frozen=True)
class Outcome:
    """How a pod ended. ``reason`` is why it is not scheduled, "" if it is."""

    phase: str
    node: str
    devices: Mapping[str, tuple[str, ...]]
    reason: str = ""
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What is expected of a pod; of ``count`` pods, if a workload makes them."""

    phase: str
    node: str = ""
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    because: str = ""
    count: int = 1

    def holds(self, outcome: Outcome) -> bool:
        return (
            self.phase == outcome.phase
            and fnmatchcase(outcome.node, self.node)
            and self._has_devices(outcome)
            and self._is_explained(outcome)
        )

    def _has_devices(self, outcome: Outcome) -> bool:
        return self.devices.keys() == outcome.devices.keys() and all(
            len(patterns) == len(outcome.devices[request])
            and all(map(fnmatchcase, sorted(outcome.devices[request]), sorted(patterns)))
            for request, patterns in self.devices.items()
        )

    def _is_explained(self, outcome: Outcome) -> bool:
        if not self.because:
            return not outcome.reason
        return (
            re.fullmatch(self.because, outcome.reason) is not None
            and f"FailedScheduling: {outcome.reason}" in outcome.events
        )


def running(node: str, devices: Mapping[str, Sequence[str]] | None = None, count: int = 1) -> Wanted:
    return Wanted("Running", node, devices or {}, count=count)


def pending(because: str, count: int = 1) -> Wanted:
    return Wanted("Pending", because=because, count=count)


Outcomes = Mapping[str, Sequence[Outcome]]


def outcomes(plane: Plane, namespace: str, names: Sequence[str]) -> Outcomes:
    """What became of the pods of a namespace, by name; those of a workload under its name."""
    found: dict[str, list[Outcome]] = {}
    pods = [pod for pod in plane.pods.all() if pod.metadata.namespace == namespace]
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        name = pod.metadata.name
        of = [known for known in names if name == known or name.startswith(f"{known}-")]
        found.setdefault(max(of, key=len) if of else name, []).append(outcome(plane, pod))
    return found


def outcome(plane: Plane, pod: Pod) -> Outcome:
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    told = [
        f"{event['reason']}: {event['message']}"
        for event in plane.events.all()
        if event["involvedObject"].get("uid") == pod.metadata.uid
    ]
    return Outcome(
        pod.status.phase or "",
        pod.spec.node_name or "",
        _devices(plane, pod),
        "" if scheduled is None or scheduled.status == "True" else scheduled.message or "",
        tuple(told),
    )


def _devices(plane: Plane, pod: Pod) -> dict[str, tuple[str, ...]]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = {
        each.name: each.resource_claim_name or made.get(each.name) or "" for each in pod.spec.resource_claims
    }
    found = {
        f"{alias}/{request}": devices
        for alias, name in names.items()
        for request, devices in _of_claim(plane, pod, name).items()
    }
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        found[EXTENDED] = sum(_of_claim(plane, pod, extended.resource_claim_name).values(), ())
    return found


def _of_claim(plane: Plane, pod: Pod, name: str) -> dict[str, tuple[str, ...]]:
    claim = plane.claims.get(name, pod.metadata.namespace)
    if claim is None or claim.status.allocation is None or not pod.spec.node_name:
        return {}
    return _of_allocation(claim.status.allocation)


def _of_allocation(allocation: AllocationResult) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for result in allocation.devices.results:
        found[result.request] = (*found.get(result.request, ()), f"{result.pool}/{result.device}")
    return found


def reach(plane: Plane, namespace: str, wanted: Mapping[str, Wanted]) -> Outcomes:
    """Waits until the pods of a namespace are these and have ended as wanted."""

    def reached() -> tuple[Outcomes] | None:
        found = outcomes(plane, namespace, list(wanted))
        same = found.keys() == {name for name, each in wanted.items() if each.count}
        all_hold = same and all(
            len(found[name]) == each.count and all(map(each.holds, found[name]))
            for name, each in wanted.items()
            if each.count
        )
        return (found,) if all_hold else None

    (found,) = plane.until(reached, lambda: f"{wanted}\nbut {outcomes(plane, namespace, list(wanted))}")
    return found
