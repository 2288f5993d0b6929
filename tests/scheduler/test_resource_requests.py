"""What a pod takes of a node, against a film of what runs when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.core import Container, Pod, ResourceRequirements
from allotment.scheduler.resource_requests import requests_of
from tests.builders.typed import amounts, container, pod

UNIT = 10**9


def units(of: Pod) -> dict[str, float]:
    return {name: amount / UNIT for name, amount in requests_of(of.spec).items()}


@pytest.mark.parametrize(
    ("of", "takes"),
    [
        pytest.param(pod(), {}, id="nothing"),
        pytest.param(pod(cpu="250m", memory="1Ki"), {"cpu": 0.25, "memory": 1024}, id="one container"),
        pytest.param(
            pod(containers=[container(cpu=1), container(cpu=2)]), {"cpu": 3}, id="containers add up"
        ),
        pytest.param(pod(init=[container(cpu=5)], cpu=2), {"cpu": 5}, id="an init container that needs more"),
        pytest.param(pod(init=[container(cpu=1)], cpu=2), {"cpu": 2}, id="an init container that needs less"),
        pytest.param(
            pod(init=[container(cpu=5), container(memory=7)], cpu=2),
            {"cpu": 5, "memory": 7},
            id="one after another",
        ),
        pytest.param(pod(init=[container(cpu=3, sidecar=True)], cpu=2), {"cpu": 5}, id="a sidecar runs on"),
        pytest.param(
            pod(init=[container(cpu=3, sidecar=True), container(cpu=4)], cpu=2),
            {"cpu": 7},
            id="beside what starts later",
        ),
        pytest.param(
            pod(init=[container(cpu=4), container(cpu=3, sidecar=True)], cpu=2),
            {"cpu": 5},
            id="not what ended before",
        ),
        pytest.param(
            pod(containers=[container(limits={"cpu": 2, "memory": 4}, cpu=1)]),
            {"cpu": 1, "memory": 4},
            id="a limit stands for a request that is missing",
        ),
        pytest.param(
            pod(cpu=1, overhead=amounts({"cpu": 2, "memory": 3})), {"cpu": 3, "memory": 3}, id="overhead"
        ),
        pytest.param(
            pod(cpu=1, memory=2, resources=ResourceRequirements(requests=amounts({"cpu": 5}))),
            {"cpu": 5, "memory": 2},
            id="what the pod asks for as a whole, resource by resource",
        ),
        pytest.param(
            pod(
                cpu=1,
                resources=ResourceRequirements(requests=amounts({"cpu": 5})),
                overhead=amounts({"cpu": 2}),
            ),
            {"cpu": 7},
            id="overhead comes on top of it",
        ),
    ],
)
def test_requests(of: Pod, takes: dict[str, float]) -> None:
    assert units(of) == takes


CONTAINERS = st.builds(
    container,
    cpu=st.sampled_from([None, 0, 1, 2, 3]),
    memory=st.sampled_from([None, 1, 5]),
    limits=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 4), max_size=2),
)
INIT = st.tuples(CONTAINERS, st.booleans())


@given(init=st.lists(INIT, max_size=4), main=st.lists(CONTAINERS, min_size=1, max_size=3))
def test_a_pod_takes_the_most_that_ever_runs_at_once(
    init: list[tuple[Container, bool]], main: list[Container]
) -> None:
    moments: list[list[Container]] = []
    sidecars: list[Container] = []
    for each, stays in init:
        moments.append([*sidecars, each])
        if stays:
            sidecars.append(each)
    moments.append([*sidecars, *main])
    made = pod(
        init=[
            Container(resources=each.resources, restart_policy="Always" if stays else None)
            for each, stays in init
        ],
        containers=main,
    )
    takes = requests_of(made.spec)
    for resource in ("cpu", "memory"):
        most = max(sum(asked(each, resource) for each in moment) for moment in moments)
        assert takes.get(resource, 0) == most * UNIT


def asked(each: Container, resource: str) -> int:
    for where in (each.resources.requests, each.resources.limits):
        if resource in where:
            return where[resource].nanos // UNIT
    return 0
