import pytest

from allotment.api.core import Affinity, Node
from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.node_affinity import NodeAffinity
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, cycle, node, node_affinity, node_info, pod, term, where

PLUGIN = NodeAffinity()
NODE = node("a", zone="east", labels={"disk": "ssd", "cores": "16"})


@pytest.mark.parametrize(
    ("selector", "affinity", "fits"),
    [
        pytest.param({"disk": "ssd"}, None, True, id="selector"),
        pytest.param({"disk": "hdd"}, None, False, id="selector, other value"),
        pytest.param({"gpu": ""}, None, False, id="selector, absent label is not an empty one"),
        pytest.param({"disk": "ssd", "cores": "16"}, None, True, id="selector, two labels"),
        pytest.param({"disk": "ssd", "cores": "8"}, None, False, id="selector, one of two"),
        pytest.param({}, node_affinity(term(where("disk", "In", "ssd", "nvme"))), True, id="In"),
        pytest.param({}, node_affinity(term(where("disk", "In", "hdd"))), False, id="not In"),
        pytest.param({}, node_affinity(term(where("disk", "NotIn", "hdd"))), True, id="NotIn"),
        pytest.param({}, node_affinity(term(where("gpu", "NotIn", "a100"))), True, id="NotIn, absent"),
        pytest.param({}, node_affinity(term(where("disk", "Exists"))), True, id="Exists"),
        pytest.param({}, node_affinity(term(where("gpu", "DoesNotExist"))), True, id="DoesNotExist"),
        pytest.param({}, node_affinity(term(where("cores", "Gt", "9"))), True, id="Gt compares numbers"),
        pytest.param({}, node_affinity(term(where("cores", "Gt", "16"))), False, id="Gt excludes the bound"),
        pytest.param({}, node_affinity(term(where("cores", "Lt", "17"))), True, id="Lt"),
        pytest.param({}, node_affinity(term(where("disk", "Lt", "17"))), False, id="Lt, no number"),
        pytest.param({}, node_affinity(term(where("gpu", "Lt", "17"))), False, id="Lt, absent"),
        pytest.param({}, node_affinity(term(names=["a"])), True, id="by name"),
        pytest.param({}, node_affinity(term(names=["b"])), False, id="by another name"),
        pytest.param(
            {}, node_affinity(term(where("disk", "In", "hdd"), names=["a"])), False, id="name and label"
        ),
        pytest.param(
            {}, node_affinity(term(where("disk", "In", "hdd")), term(where("cores"))), True, id="either term"
        ),
        pytest.param({}, node_affinity(term(where("disk"), where("gpu"))), False, id="all tests of a term"),
        pytest.param({}, node_affinity(term()), False, id="an empty term matches nothing"),
        pytest.param({"disk": "hdd"}, node_affinity(term(where("disk"))), False, id="selector and affinity"),
        # Validation refuses these; in the scheduler a broken term matches nothing and the others still count.
        pytest.param({}, node_affinity(term(where("disk", "Like", "s"))), False, id="unknown operator"),
        pytest.param({}, node_affinity(term(where("disk", "In"))), False, id="In without values"),
        pytest.param({}, node_affinity(term(where("disk", "Exists", "ssd"))), False, id="Exists with values"),
        pytest.param({}, node_affinity(term(where("cores", "Gt", "x"))), False, id="Gt without a number"),
        pytest.param(
            {}, node_affinity(term(where("disk", "In")), term(where("disk"))), True, id="broken or sound"
        ),
        pytest.param({}, node_affinity(term(names=["a", "b"])), False, id="a field with two values"),
    ],
)
def test_filter(selector: dict[str, str], affinity: Affinity | None, fits: bool) -> None:
    attempt = cycle(pod(selector=selector, affinity=affinity))
    assert PLUGIN.pre_filter(attempt).ok
    status = PLUGIN.filter(attempt, node_info(NODE))
    assert status.ok is fits
    if not fits:
        assert status.code is StatusCode.UNRESOLVABLE


def test_a_pod_without_wishes_is_of_no_interest() -> None:
    assert PLUGIN.pre_filter(cycle(pod())) is SKIP
    assert PLUGIN.pre_filter(cycle(pod(affinity=Affinity()))) is SKIP


def test_a_pod_that_only_prefers_fits_everywhere() -> None:
    attempt = cycle(pod(affinity=node_affinity(preferred=[(1, term(where("gpu")))])))
    assert PLUGIN.pre_filter(attempt).ok
    assert PLUGIN.filter(attempt, node_info(NODE)).ok


@pytest.mark.parametrize(
    ("affinity", "names"),
    [
        pytest.param(node_affinity(term(names=["a"])), {"a"}, id="one name"),
        pytest.param(node_affinity(term(names=["a"]), term(names=["b"])), {"a", "b"}, id="either"),
        pytest.param(
            node_affinity(term(names=["a"]), term(where("disk"))), None, id="not every term names nodes"
        ),
        pytest.param(node_affinity(term(where("disk"))), None, id="none does"),
    ],
)
def test_terms_that_all_name_nodes_restrict_the_attempt(affinity: Affinity, names: set[str] | None) -> None:
    attempt = cycle(pod(affinity=affinity))
    assert PLUGIN.pre_filter(attempt).ok
    assert attempt.names == names


def test_two_names_at_once_are_a_contradiction() -> None:
    both = term(names=["a"])
    both = type(both)(match_fields=(*both.match_fields, *term(names=["b"]).match_fields))
    assert PLUGIN.pre_filter(cycle(pod(affinity=node_affinity(both)))).code is StatusCode.UNRESOLVABLE


@pytest.mark.parametrize(
    ("preferred", "score"),
    [
        pytest.param([(10, term(where("disk")))], 100, id="everything"),
        pytest.param([(10, term(where("gpu")))], 0, id="nothing"),
        pytest.param([(30, term(where("disk"))), (10, term(where("gpu")))], 75, id="by weight"),
        pytest.param([(1, term(where("disk"))), (2, term(where("gpu")))], 33, id="rounded down"),
        pytest.param([(10, term())], 0, id="an empty preference matches nothing"),
    ],
)
def test_score(preferred: list[tuple[int, object]], score: int) -> None:
    attempt = cycle(pod(affinity=node_affinity(preferred=preferred)))
    assert PLUGIN.pre_filter(attempt).ok
    assert PLUGIN.score(attempt, node_info(NODE)) == score


def test_a_pod_that_only_requires_scores_all_nodes_alike() -> None:
    attempt = cycle(pod(selector={"disk": "ssd"}))
    assert PLUGIN.pre_filter(attempt).ok
    assert PLUGIN.score(attempt, node_info(NODE)) == PLUGIN.score(attempt, node_info(node("b"))) == 0


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, NODE, True, id="a new node that matches"),
        pytest.param(None, node(), False, id="a new node that does not"),
        pytest.param(node(), node(labels={"disk": "ssd"}), True, id="a node gets the label"),
        pytest.param(NODE, node("a", labels={"disk": "ssd"}), False, id="it had the label"),
        pytest.param(NODE, node("a"), False, id="it lost the label"),
    ],
)
def test_what_helps(old: Node | None, new: Node, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(pod(selector={"disk": "ssd"})), old, new, cluster()) is helps
    assert PLUGIN.helps_anyone(old, new) or not helps


def test_a_node_whose_labels_stay_helps_nobody() -> None:
    assert not PLUGIN.helps_anyone(
        NODE, node("a", zone="east", labels={"disk": "ssd", "cores": "16"}, cpu=99)
    )
