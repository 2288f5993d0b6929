"""Evaluates device expressions with Kubernetes' own CEL, for the brute-force allocator and the checker."""

import json
from typing import Any

from tests.bruteforce import Evaluate, ExpressionError
from tests.upstream.oracle import Oracle


def evaluator(oracle: Oracle) -> Evaluate:
    """Remembers answers: the same few expressions meet the same devices again and again."""
    known: dict[str, dict[str, Any]] = {}

    def evaluate(
        expression: str, driver: str, device: dict[str, Any], derived: bool, features: frozenset[str]
    ) -> Any:
        question = {
            "expression": expression,
            "driver": driver,
            "attributes": device.get("attributes"),
            "capacity": device.get("capacity"),
            "allowMultipleAllocations": device.get("allowMultipleAllocations"),
            "derived": derived,
            "envType": "StoredExpressions",
            "features": {
                "EnableConsumableCapacity": "ConsumableCapacity" in features,
                "EnableListTypeAttributes": "ListTypeAttributes" in features,
            },
        }
        key = json.dumps(question)
        if key not in known:
            known[key] = oracle.cel(question)
        answer = known[key]
        if answer["compileError"] or answer["matchError"]:
            raise ExpressionError(answer["compileError"] or answer["matchError"])
        return answer.get("attribute", {}) if derived else answer["match"]

    return evaluate
