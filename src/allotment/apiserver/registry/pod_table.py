"""Pods as ``kubectl get pods`` shows them.

The status column tells the most telling fact, and a later rule overrides an earlier one: the phase, the reason that the
status gives, a gate that holds scheduling, the container for set-up that has not ended, the last container that waits or
has ended, and the deletion under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from allotment.apiserver.registry.age import AGE, since
from allotment.apiserver.registry.resource import PrinterColumn
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.store.record import Obj


@dataclass(slots=True)
class _Restarts:
    count: int = 0
    last: str = ""  # when the container ended that was restarted last; times of one zone compare as text

    def add(self, container: Obj) -> None:
        self.count += container.get("restartCount") or 0
        self.last = max(self.last, at(container, "lastState", "terminated", "finishedAt") or "")


@dataclass(slots=True)
class _Summary:
    """What the columns of one pod say."""

    ready: int = 0
    containers: int = 0
    word: str = ""
    restarts: _Restarts = field(default_factory=_Restarts)


def _summary(pod: Obj) -> _Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    summary = _Summary(word=status.get("reason") or status.get("phase") or "")
    if at(conditions.get("PodScheduled"), "reason") == "SchedulingGated":
        summary.word = "SchedulingGated"
    set_up = {each.get("name"): each for each in spec.get("initContainers") or ()}
    beside = {name for name, each in set_up.items() if each.get("restartPolicy") == "Always"}
    summary.containers = len(spec.get("containers") or ()) + len(beside)
    restarts_beside = _Restarts()
    initializing = _set_up(summary, restarts_beside, status, beside, len(set_up))
    if not initializing or at(conditions.get("Initialized"), "status") == "True":
        summary.restarts = restarts_beside
        _ordinary(summary, status, at(conditions.get("Ready"), "status") == "True")
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            summary.word = "Terminating"
    return summary


def _set_up(summary: _Summary, restarts_beside: _Restarts, status: Obj, beside: set[Any], total: int) -> bool:
    """Goes through the containers for set-up until one has not ended well; whether there is one."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        summary.restarts.add(container)
        sidecar = container.get("name") in beside
        if sidecar:
            restarts_beside.add(container)
        ended = at(container, "state", "terminated")
        waits = at(container, "state", "waiting", "reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            summary.word = f"Init:{_end(ended)}"
        elif waits and waits != "PodInitializing":
            summary.word = f"Init:{waits}"
        else:
            summary.word = f"Init:{index}/{total}"
        return True
    return False


def _ordinary(summary: _Summary, status: Obj, pod_ready: bool) -> None:
    """Goes through the ordinary containers, the first one last, so that it decides."""
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        summary.restarts.add(container)
        ended = at(container, "state", "terminated")
        if waits := at(container, "state", "waiting", "reason"):
            summary.word = waits
        elif ended is not None:
            summary.word = _end(ended)
            if ended.get("exitCode"):
                failure = summary.word
        elif container.get("ready") and at(container, "state", "running") is not None:
            running = True
            summary.ready += 1
    if summary.word == "Completed":
        if running and pod_ready:
            summary.word = "Running"
        elif failure or running:
            summary.word = failure or "NotReady"


def _end(terminated: Obj) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _ready(pod: Obj, now: str) -> str:
    summary = _summary(pod)
    return f"{summary.ready}/{summary.containers}"


def _restarts(pod: Obj, now: str) -> str:
    restarts = _summary(pod).restarts
    told = f" ({since(restarts.last, now)} ago)" if restarts.count and restarts.last else ""
    return f"{restarts.count}{told}"


def _gates(pod: Obj, now: str) -> str:
    gates = at(pod, "spec", "readinessGates") or ()
    if not gates:
        return "<none>"
    true = {
        each.get("type") for each in at(pod, "status", "conditions") or () if each.get("status") == "True"
    }
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


def pod_ip(pod: Obj) -> str:
    """The pod's first address; empty if it has none."""
    addresses = at(pod, "status", "podIPs") or ()
    return (addresses[0].get("ip") if addresses else at(pod, "status", "podIP")) or ""


COLUMNS = (
    PrinterColumn("Ready", "string", _ready, "How many of its containers are ready."),
    PrinterColumn(
        "Status", "string", lambda pod, now: _summary(pod).word, "What the pod is doing, in a word."
    ),
    PrinterColumn("Restarts", "string", _restarts, "How often its containers were restarted, and when last."),
    AGE,
    PrinterColumn("IP", "string", lambda pod, now: pod_ip(pod) or "<none>", "Its address.", priority=1),
    PrinterColumn(
        "Node",
        "string",
        lambda pod, now: at(pod, "spec", "nodeName") or "<none>",
        "The node it runs on.",
        priority=1,
    ),
    PrinterColumn(
        "Nominated Node",
        "string",
        lambda pod, now: at(pod, "status", "nominatedNodeName") or "<none>",
        "The node that is being made free for it.",
        priority=1,
    ),
    PrinterColumn(
        "Readiness Gates", "string", _gates, "How many of its further conditions hold.", priority=1
    ),
)


def row_conditions(pod: Obj) -> list[Obj]:
    """What a table says of a pod that has ended."""
    phase = at(pod, "status", "phase")
    told = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in told:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": told[phase]}]
