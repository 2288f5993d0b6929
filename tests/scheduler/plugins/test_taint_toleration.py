import pytest

from allotment.api.core import Node, Pod, Taint, Toleration
from allotment.scheduler.framework import Cycle, StatusCode
from allotment.scheduler.plugins.taint_toleration import TaintToleration
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, cycle, node, node_info, pod, taint, toleration

PLUGIN = TaintToleration()


def attempt(*tolerations: Toleration) -> Cycle:
    made = cycle(pod(tolerations=tolerations))
    assert PLUGIN.pre_filter(made).ok
    return made


@pytest.mark.parametrize(
    ("tolerates", "tainted", "fits"),
    [
        pytest.param([], [], True, id="no taint"),
        pytest.param([], [taint("spot")], False, id="a taint that is not tolerated"),
        pytest.param([], [taint("spot", effect="NoExecute")], False, id="NoExecute keeps off as well"),
        pytest.param([], [taint("spot", effect="PreferNoSchedule")], True, id="PreferNoSchedule does not"),
        pytest.param([toleration("spot")], [taint("spot", "yes")], True, id="Exists takes any value"),
        pytest.param([toleration("spot", "yes")], [taint("spot", "yes")], True, id="Equal"),
        pytest.param([toleration("spot", "no")], [taint("spot", "yes")], False, id="another value"),
        pytest.param(
            [toleration("spot", "yes", operator="")], [taint("spot", "yes")], True, id="no operator is Equal"
        ),
        pytest.param(
            [toleration("spot", operator="Equal")], [taint("spot")], True, id="no value equals no value"
        ),
        pytest.param([toleration("gpu")], [taint("spot")], False, id="another key"),
        pytest.param([toleration()], [taint("spot"), taint("gpu")], True, id="everything is tolerated"),
        pytest.param(
            [toleration(effect="NoSchedule")], [taint("spot", effect="NoExecute")], False, id="another effect"
        ),
        pytest.param([toleration("spot")], [taint("spot"), taint("gpu")], False, id="one of two"),
        pytest.param(
            [toleration("spot"), toleration("gpu")], [taint("spot"), taint("gpu")], True, id="each by its own"
        ),
        pytest.param([toleration("age", "5", operator="Lt")], [taint("age", "4")], True, id="less"),
        pytest.param([toleration("age", "5", operator="Lt")], [taint("age", "5")], False, id="not less"),
        pytest.param(
            [toleration("age", "5", operator="Gt")], [taint("age", "10")], True, id="greater, as numbers"
        ),
        pytest.param(
            [toleration("age", "-5", operator="Gt")], [taint("age", "-4")], True, id="negative numbers"
        ),
        pytest.param(
            [toleration("age", "5", operator="Gt")], [taint("age", "010")], False, id="leading zeros"
        ),
        pytest.param([toleration("age", "5", operator="Gt")], [taint("age", "+10")], False, id="plus sign"),
        pytest.param([toleration("age", "5", operator="Gt")], [taint("age", "many")], False, id="no number"),
        pytest.param([toleration("age", "5", operator="Gt")], [taint("age")], False, id="no value"),
        pytest.param(
            [toleration("age", "1", operator="Gt")], [taint("age", "9" * 19)], False, id="over 64 bits"
        ),
        pytest.param(
            [toleration("age", "5", operator="Near")], [taint("age", "5")], False, id="unknown operator"
        ),
    ],
)
def test_filter(tolerates: list[Toleration], tainted: list[Taint], fits: bool) -> None:
    status = PLUGIN.filter(attempt(*tolerates), node_info(node(taints=tainted)))
    assert status.ok is fits
    if not fits:
        assert status.code is StatusCode.UNRESOLVABLE


def test_a_refusal_names_the_taint_and_is_the_same_for_every_node_that_has_it() -> None:
    made = attempt()
    first, second = (PLUGIN.filter(made, node_info(node(taints=[taint("spot", value)]))) for value in "ab")
    assert first is second
    assert first.words == "have the taint spot that the pod does not tolerate"


@pytest.mark.parametrize(("against", "score"), [(0, 100), (1, 50), (2, 33), (3, 25)])
def test_score_falls_with_unwelcome_taints(against: int, score: int) -> None:
    soft = [taint(f"t{number}", effect="PreferNoSchedule") for number in range(against)]
    tolerated = taint("ok", effect="PreferNoSchedule")
    made = attempt(toleration("ok"))
    assert PLUGIN.score(made, node_info(node(taints=[tolerated, *soft, taint("hard")]))) == score
    assert PLUGIN.score(made, node_info(node())) == 100


def test_a_toleration_of_another_effect_does_not_count_in_the_score() -> None:
    soft = taint("spot", effect="PreferNoSchedule")
    assert (
        PLUGIN.score(attempt(toleration("spot", effect="NoSchedule")), node_info(node(taints=[soft]))) == 50
    )


WAITING = pod(tolerations=[toleration("spot")])


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, node(), True, id="a new node"),
        pytest.param(None, node(taints=[taint("gpu")]), False, id="a new node that is not tolerated"),
        pytest.param(node(taints=[taint("gpu")]), node(), True, id="the taint is gone"),
        pytest.param(
            node(taints=[taint("gpu")]), node(taints=[taint("spot")]), True, id="now a tolerated one"
        ),
        pytest.param(node(), node(taints=[taint("spot")]), False, id="it was fine before"),
        pytest.param(node(taints=[taint("gpu")]), node(taints=[taint("gpu")]), False, id="the taint stays"),
        pytest.param(WAITING, pod(tolerations=[toleration()]), True, id="the pod tolerates more"),
        pytest.param(
            WAITING, pod(labels={"a": "b"}, tolerations=[toleration("spot")]), False, id="same tolerations"
        ),
        pytest.param(pod("q"), pod("q", tolerations=[toleration()]), False, id="another pod tolerates more"),
    ],
)
def test_what_helps(old: Node | Pod | None, new: Node | Pod, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(WAITING), old, new, cluster()) is helps
    assert PLUGIN.helps_anyone(old, new) or not helps
