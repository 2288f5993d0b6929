"""Evictions and the budgets that stand against them."""

from __future__ import annotations

import msgspec
import pytest

from allotment.api.status import BadRequest, Forbidden, InternalError, TooManyRequests
from allotment.apiserver.registry.eviction import MAX_DISRUPTED, evict, note_budget
from allotment.apiserver.registry.kinds.disruption_budget import MAX_SELECTED, RESOURCES
from allotment.apiserver.registry.strategies import StrategyRules
from allotment.apiserver.store.record import Key, Obj, Record
from tests.apiserver.registry.kinds.pods import NOW, budget, call, running_pod

BODY: Obj = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 5}}


def test_a_pod_without_a_budget_goes_and_says_why() -> None:
    result = evict(running_pod(), BODY, call(budget(app="other", disruptionsAllowed=0)))
    assert result.delete
    assert result.delete_options == {"gracePeriodSeconds": 5}
    assert result.changed is not None
    assert result.changed["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert result.others == ()


def test_an_eviction_uses_up_the_budget() -> None:
    result = evict(
        running_pod(), BODY, call(budget(disruptionsAllowed=1, desiredHealthy=1, currentHealthy=2))
    )
    ((key, stored),) = result.others
    assert key == Key("poddisruptionbudgets.policy", "n", "b")
    assert stored["status"]["disruptionsAllowed"] == 0
    assert stored["status"]["disruptedPods"] == {"p": NOW}
    assert stored["status"]["conditions"][0]["reason"] == "InsufficientPods"


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_serves_nobody_needs_no_budget(phase: str) -> None:
    assert evict(running_pod(phase=phase), BODY, call(budget(disruptionsAllowed=0))).others == ()


def test_a_pod_that_is_not_ready_goes_if_enough_others_are() -> None:
    enough = budget(disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    assert evict(running_pod(ready=False), BODY, call(enough)).others == ()
    lenient = budget(disruptionsAllowed=0, desiredHealthy=3, currentHealthy=1)
    lenient["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    assert evict(running_pod(ready=False), BODY, call(lenient)).others == ()


def test_a_budget_that_allows_none_refuses_for_now() -> None:
    with pytest.raises(TooManyRequests) as refusal:
        evict(running_pod(), BODY, call(budget(disruptionsAllowed=0, desiredHealthy=2, currentHealthy=2)))
    assert refusal.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refusal.value.details["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }
    ]


def test_a_budget_that_nobody_has_looked_at_asks_for_patience() -> None:
    with pytest.raises(TooManyRequests) as refusal:
        evict(running_pod(), BODY, call(budget(generation=2, disruptionsAllowed=5)))
    assert refusal.value.retry_after == 10


def test_the_reason_is_the_budgets_own_where_it_has_one() -> None:
    failed = budget(disruptionsAllowed=0, conditions=[_denied("SyncFailed", "no scale")])
    with pytest.raises(TooManyRequests) as refusal:
        evict(running_pod(), BODY, call(failed))
    assert "because it failed sync: no scale" in refusal.value.details["causes"][0]["message"]
    denied = budget(disruptionsAllowed=0, currentHealthy=1, conditions=[_denied("Full", "wait")])
    with pytest.raises(TooManyRequests) as refusal:
        evict(running_pod(), BODY, call(denied))
    assert refusal.value.details["causes"][0]["message"].endswith("(Full): wait")


def _denied(reason: str, message: str) -> Obj:
    return {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}


def test_broken_budgets_and_bodies_are_refused() -> None:
    with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
        evict(running_pod(), BODY, call(budget("a"), budget("b")))
    with pytest.raises(Forbidden, match="pdb disruptions allowed is negative"):
        evict(running_pod(), BODY, call(budget(disruptionsAllowed=-1)))
    many = dict.fromkeys(map(str, range(MAX_DISRUPTED + 1)), NOW)
    with pytest.raises(Forbidden, match="DisruptedPods map too big"):
        evict(running_pod(), BODY, call(budget(disruptionsAllowed=1, disruptedPods=many)))
    with pytest.raises(BadRequest, match="name in URL"):
        evict(running_pod(), {"metadata": {"name": "q"}}, call())


def test_what_budgets_select_is_worked_out_when_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may keep many large budgets: read at each eviction, they held everybody up."""
    records = [
        Record(Key("poddisruptionbudgets.policy", "n", name), 1, msgspec.json.encode(made))
        for name, made in (("a", budget(app="other")), ("b", budget(disruptionsAllowed=1)))
    ]
    for record in records:
        note_budget(None, record)
    asked = call()
    monkeypatch.setattr(asked.server, "heads", lambda resource, namespace="": records)
    loaded: list[str] = []
    load_ = Record.load

    def load(record: Record) -> Obj:
        loaded.append(record.key.name)
        return load_(record)

    monkeypatch.setattr(Record, "load", load)
    result = evict(running_pod(), BODY, asked)
    assert [key.name for key, _ in result.others] == ["b"]
    assert loaded == ["b"]  # which the eviction is taken from


@pytest.mark.parametrize("selector", [None, {}], ids=["none selects nothing", "an empty one everything"])
def test_a_budget_without_requirements(selector: Obj | None) -> None:
    made = budget(disruptionsAllowed=1)
    made["spec"]["selector"] = selector
    assert len(evict(running_pod(), BODY, call(made)).others) == (0 if selector is None else 1)


def test_a_budget_selects_by_so_much_and_no_more() -> None:
    (resource,) = RESOURCES
    values = [f"v{number}" for number in range(MAX_SELECTED)]
    spec = {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}}
    assert isinstance(resource.strategy, StrategyRules)
    assert resource.strategy.check is not None
    (error,) = resource.strategy.check({"spec": spec})
    assert str(error.path) == "spec.selector"
