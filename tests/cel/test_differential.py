"""The real Kubernetes evaluator beside ours on random expressions: answer, error or not, both costs."""

import pytest
from hypothesis import HealthCheck, given, settings

from allotment.cel.device import CelCompileError, CelRuntimeError, compile_selector
from tests.cel.devices import ATTRIBUTES, CAPACITY, DRIVER, attributes, capacity
from tests.cel.expressions import selectors
from tests.upstream.oracle import Oracle

pytestmark = pytest.mark.upstream


@given(text=selectors)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_same_answer_same_costs(upstream: Oracle, text: str) -> None:
    theirs = upstream.cel(
        {
            "name": "random",
            "expression": text,
            "driver": DRIVER,
            "attributes": ATTRIBUTES,
            "capacity": CAPACITY,
            "allowMultipleAllocations": True,
            "envType": "StoredExpressions",
        }
    )
    if "compileError" not in theirs or "internal error" in theirs["matchError"]:
        return  # it panicked, which is no answer
    if theirs["compileError"]:
        with pytest.raises(CelCompileError):
            compile_selector(text)
        return
    selector = compile_selector(text)
    assert selector.max_cost == theirs["maxCost"]
    device = (DRIVER, attributes(ATTRIBUTES), capacity(CAPACITY), True)
    if theirs["matchError"]:
        with pytest.raises(CelRuntimeError) as caught:
            selector.evaluate(*device)
        assert caught.value.cost == theirs["cost"]
    else:
        assert selector.evaluate(*device) == (theirs["match"], theirs["cost"])
