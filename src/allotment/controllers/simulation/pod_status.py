"""A kubelet's reports about a pod: one patch of its status for each step of its life.

Patches are strategic: conditions and containers are merged by type and name, so entries of others stay. A condition that
keeps its status keeps its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from allotment.api.core import Container, Node, Pod

Obj = dict[str, Any]

PREPARE_FAILED = "FailedPrepareDynamicResources"
READY_TO_START = "PodReadyToStartContainers"

_STATES = ("waiting", "running", "terminated")


def running(pod: Pod, node: Node, now: str) -> Obj:
    """All containers run; the init containers have ended."""
    conditions = {READY_TO_START: "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    address = _address(pod.metadata.uid)
    going = {"running": {"startedAt": now}}
    done = {"terminated": _end(now, now, 0)}
    return {
        "status": {
            "phase": "Running",
            "startTime": now,
            "hostIP": host_address(node),
            "hostIPs": [{"ip": host_address(node)}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(pod, conditions, now),
            "containerStatuses": [_container(pod, each, going) for each in pod.spec.containers],
            "initContainerStatuses": [
                _container(pod, each, going if each.restart_policy == "Always" else done)
                for each in pod.spec.init_containers
            ],
        }
    }


def waiting(pod: Pod, why: str, now: str) -> Obj:
    """No container runs, for the given reason."""
    conditions = {READY_TO_START: "False", "Initialized": "False" if pod.spec.init_containers else "True"}
    conditions |= {"ContainersReady": "False", "Ready": "False"}
    state = {"waiting": {"reason": PREPARE_FAILED, "message": why}}
    told = _conditions(pod, conditions, now)
    told[0] |= {"reason": PREPARE_FAILED, "message": why}
    return {
        "status": {
            "phase": "Pending",
            "conditions": told,
            "containerStatuses": [_container(pod, each, state) for each in pod.spec.containers],
            "initContainerStatuses": [_container(pod, each, state) for each in pod.spec.init_containers],
        }
    }


def ended(pod: Pod, now: str, exit_code: int) -> Obj:
    """All containers have ended, with the same exit code."""
    failed = exit_code != 0
    conditions = {
        READY_TO_START: "False",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
    }
    reason = "PodFailed" if failed else "PodCompleted"
    told = _conditions(pod, conditions, now)
    told[2:] = [{**condition, "reason": reason} for condition in told[2:]]
    state = {"terminated": _end(pod.status.start_time or now, now, exit_code)}
    done = {"terminated": _end(pod.status.start_time or now, now, 0)}
    return {
        "status": {
            "phase": "Failed" if failed else "Succeeded",
            "conditions": told,
            "containerStatuses": [_container(pod, each, state) for each in pod.spec.containers],
            "initContainerStatuses": [_container(pod, each, done) for each in pod.spec.init_containers],
        }
    }


def waits_because(pod: Pod) -> str:
    """The reason in the last :func:`waiting` report; empty if there was none."""
    for condition in pod.status.conditions:
        if condition.type == READY_TO_START and condition.reason == PREPARE_FAILED:
            return condition.message or ""
    return ""


def host_address(node: Node) -> str:
    """The node's own address, or an invented one."""
    told = (each.address for each in node.status.addresses if each.type == "InternalIP")
    return next(told, None) or _address(node.metadata.name)


def _address(of: str) -> str:
    """An address in 10.0.0.0/8, always the same for the same name."""
    one, two, three = hashlib.sha256(of.encode()).digest()[:3]
    return f"10.{one}.{two}.{1 + three % 254}"


def _conditions(pod: Pod, wanted: Mapping[str, str], now: str) -> list[Obj]:
    """The conditions in the given order. Reasons and messages of earlier steps are dropped."""
    before = {condition.type: condition.status for condition in pod.status.conditions}
    return [
        {
            "type": type_,
            "status": status,
            "reason": None,
            "message": None,
            **({} if before.get(type_) == status else {"lastTransitionTime": now}),
        }
        for type_, status in wanted.items()
    ]


def _container(pod: Pod, container: Container, state: Mapping[str, Obj]) -> Obj:
    runs = "running" in state
    done = "terminated" in state and state["terminated"]["exitCode"] == 0
    started = runs or "terminated" in state
    return {
        "name": container.name,
        "image": container.image or "",
        "imageID": f"simulated://{container.image or ''}" if started else "",
        "containerID": f"simulated://{pod.metadata.uid}/{container.name}" if started else None,
        "ready": runs or (done and container in pod.spec.init_containers),
        "started": runs,
        "restartCount": 0,
        "state": {name: state.get(name) for name in _STATES},
    }


def _end(started: str, now: str, exit_code: int) -> Obj:
    return {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": started,
        "finishedAt": now,
    }
