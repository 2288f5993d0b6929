"""Quality-of-service classes of pods."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.qos import qos_class

BOTH = {"cpu": "1", "memory": "1Gi"}


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "BestEffort"),
        ({"containers": [container()]}, "BestEffort"),
        ({"containers": [container(limits={"example.com/gpu": "1"})]}, "BestEffort"),  # devices do not count
        ({"containers": [container(requests=BOTH, limits=BOTH)]}, "Guaranteed"),
        ({"containers": [container(requests={**BOTH, "cpu": "1000m"}, limits=BOTH)]}, "Guaranteed"),
        ({"containers": [container(requests={"cpu": "1"}, limits={"cpu": "1"})]}, "Burstable"),  # no memory
        ({"containers": [container(requests=BOTH)]}, "Burstable"),
        ({"containers": [container(requests=BOTH, limits=BOTH), container()]}, "Burstable"),
        ({"containers": [container()], "initContainers": [container(requests=BOTH)]}, "Burstable"),
        ({"containers": [container()], "resources": {"requests": BOTH, "limits": BOTH}}, "Guaranteed"),
    ],
)
def test_the_class_of_a_pod(spec: dict[str, Any], expected: str) -> None:
    assert qos_class(spec) == expected
