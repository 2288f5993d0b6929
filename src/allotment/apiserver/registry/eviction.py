"""Evicting a pod: a deletion that disruption budgets may refuse for now.

A pod that has ended, has not begun, or is going anyway disturbs nobody and goes at once. For others the one budget that
selects the pod must allow a disruption, which the eviction takes from it; the budget is stored together with the pod, so
no two evictions take the same one. What a budget selects is worked out when the budget is written, as there may be many of
them, and large ones, for every pod that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from allotment.api.label_selector import selector_of
from allotment.api.status import BadRequest, Forbidden, InternalError, StatusError, TooManyRequests, forbidden
from allotment.apiserver.registry.resource import ActionCall, ActionResult, Services
from allotment.apiserver.registry.strategies import at, opened
from allotment.apiserver.store.record import Key, Obj, Record

BUDGETS = "poddisruptionbudgets.policy"
MAX_DISRUPTED = 2000  # the most evictions that the budget's controller has not processed yet
_CAUSE = "DisruptionBudget"
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(pod: Obj, body: Obj, call: ActionCall) -> ActionResult:
    """The action of ``pods/eviction``."""
    name = at(body, "metadata", "name")
    if name and name != pod["metadata"]["name"]:
        raise BadRequest("name in URL does not match name in Eviction object")
    others: tuple[tuple[Key, Obj], ...] = ()
    budget = None if _disturbs_nobody(pod) else _budget_of(pod, cast(Services, call.server))
    if budget is not None and not _spare(pod, budget):
        _take(budget, pod["metadata"]["name"], call.now)
        metadata = budget["metadata"]
        others = ((Key(BUDGETS, metadata["namespace"], metadata["name"]), budget),)
    pod = opened(pod)
    set_condition(
        pod,
        "DisruptionTarget",
        "True",
        call.now,
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )
    options = body.get("deleteOptions") or {}
    return ActionResult(changed=pod, reply=None, delete=True, delete_options=options, others=others)


def set_condition(
    pod: Obj, type_: str, status: str, now: str, *, reason: str = "", message: str = ""
) -> None:
    """Sets one condition of a pod, whose conditions are others then; the time of transition changes only with the status."""
    own = pod.setdefault("status", {})
    conditions = own["conditions"] = list(own.get("conditions") or ())
    for place, each in enumerate(conditions):
        if each.get("type") == type_:
            known = conditions[place] = {**each}
            break
    else:
        known = {"type": type_, "lastProbeTime": None}
        conditions.append(known)
    if known.get("status") != status:
        known["lastTransitionTime"] = now
    known["status"] = status
    for name, value in (("reason", reason), ("message", message)):
        known.pop(name, None)
        if value:
            known[name] = value


def _disturbs_nobody(pod: Obj) -> bool:
    phase = at(pod, "status", "phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(pod: Obj, server: Services) -> Obj | None:
    labels = pod["metadata"].get("labels") or {}
    records = server.heads(BUDGETS, pod["metadata"]["namespace"])
    budgets = [record for record in records if _selects(record)(labels)]
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return budgets[0].load() if budgets else None


def note_budget(previous: Record | None, current: Record | None) -> None:
    """Follows the store's budgets: whoever writes one has it read, not whoever evicts a pod."""
    if current is not None:
        _selects(current)


def _selects(budget: Record) -> Callable[[Mapping[str, str]], bool]:
    if budget.selector is None:
        selector = selector_of(at(budget.peek(), "spec", "selector"))
        budget.selector = selector.matches if selector is not None else _nothing
    return budget.selector


def _nothing(labels: Mapping[str, str]) -> bool:
    """What a budget without a valid selector selects."""
    return False


def _spare(pod: Obj, budget: Obj) -> bool:
    """Whether the pod is unhealthy and may go without using the budget."""
    conditions = at(pod, "status", "conditions") or ()
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return False
    if at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _take(budget: Obj, pod: str, now: str) -> None:
    """Takes one disruption from the budget, or raises upstream's refusal if it allows none."""
    metadata, status = budget["metadata"], budget.setdefault("status", {})
    name, allowed = metadata["name"], status.get("disruptionsAllowed") or 0
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        told = f"The disruption budget {name} is still being processed by the server."
        raise _with_cause(TooManyRequests(_REFUSAL, {"retryAfterSeconds": 10}), told)
    current = f"The disruption budget {name} does not allow evicting pods currently"
    if allowed < 0:
        why = "pdb disruptions allowed is negative"
        raise _with_cause(_forbidden(name, why), f"{current}: {why}")
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        told = f"{current}: too many pending evictions not confirmed by PDB controller"
        raise _with_cause(_forbidden(name, why), told)
    if allowed == 0:
        raise _with_cause(TooManyRequests(_REFUSAL), _why_none(name, status, current))
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[pod] = now
    if allowed == 1:
        _close(budget, now)


def _why_none(name: str, status: Obj, current: str) -> str:
    condition: Obj = next(
        (each for each in status.get("conditions") or () if each.get("type") == "DisruptionAllowed"), {}
    )
    denied = condition.get("status") == "False" and condition.get("message")
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if denied and condition.get("reason") == "SyncFailed":
        return f"{current} because it failed sync: {denied}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    if denied:
        return f"{current} ({condition.get('reason')}): {denied}"
    return current


def _close(budget: Obj, now: str) -> None:
    """Sets the budget's condition to say that it allows no more disruptions."""
    conditions = budget["status"].setdefault("conditions", [])
    known = next((each for each in conditions if each.get("type") == "DisruptionAllowed"), None)
    if known is None:
        known = {"type": "DisruptionAllowed"}
        conditions.append(known)
    if known.get("status") != "False":
        known["lastTransitionTime"] = now
    known.update(
        status="False",
        reason="InsufficientPods",
        message="",
        observedGeneration=budget["status"].get("observedGeneration") or 0,
    )


def _forbidden(name: str, why: str) -> Forbidden:
    return forbidden("poddisruptionbudget", name, "policy", why)


def _with_cause(error: StatusError, told: str) -> StatusError:
    error.details["causes"] = [{"reason": _CAUSE, "message": told}]
    return error
