from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.core import Affinity, Pod, PodAffinityTerm
from allotment.api.meta import ApiStruct
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import (
    HOSTNAME,
    ZONE,
    cluster,
    cycle,
    labelled,
    namespace,
    near,
    node,
    pod,
    pod_affinity,
)
from tests.scheduler.naive_affinity import fits, naive_scores
from tests.thoroughness import examples

PLUGIN = InterPodAffinity()
WEB, DB = {"app": "web"}, {"app": "db"}
EAST, ALSO_EAST, WEST, NOWHERE = (
    node("a", zone="east"),
    node("b", zone="east"),
    node("c", zone="west"),
    node("d"),
)
NODES = (EAST, ALSO_EAST, WEST, NOWHERE)


def web(name: str, on: str, **more: Any) -> Pod:
    return pod(name, node=on, labels=WEB, **more)


def fitting(of: Pod, within: Cluster) -> str:
    """The names of the nodes that the pod fits on, in one word; ``all`` if it is not judged."""
    attempt = cycle(of, within=within)
    if PLUGIN.pre_filter(attempt) is SKIP:
        return "all"
    return "".join(sorted(name for name, info in within.nodes.items() if PLUGIN.filter(attempt, info).ok))


@pytest.mark.parametrize(
    ("terms", "there", "fits"),
    [
        pytest.param([near(WEB)], [web("1", "a")], "ab", id="in the same zone"),
        pytest.param([near(WEB, HOSTNAME)], [web("1", "a")], "a", id="on the same node"),
        pytest.param([near(WEB)], [], "", id="nobody is there"),
        pytest.param([near(WEB)], [web("1", "d")], "", id="one is there, but in no zone"),
        pytest.param([near(WEB)], [web("1", "a"), web("2", "c")], "abc", id="in either zone"),
        pytest.param([near(WEB)], [web("1", "a", namespace="other")], "", id="in another namespace"),
        pytest.param(
            [near(WEB, namespaces=["other"])], [web("1", "a", namespace="other")], "ab", id="which is named"
        ),
        pytest.param([near(WEB, namespaces=["other"])], [web("1", "a")], "", id="its own is not meant then"),
        pytest.param(
            [near(WEB, namespace_selector={"env": "prod"})],
            [namespace("p", env="prod"), web("1", "a", namespace="p"), web("2", "c")],
            "ab",
            id="in namespaces with a label",
        ),
        pytest.param(
            [near(WEB, namespace_selector={})], [web("1", "c", namespace="any")], "c", id="in any namespace"
        ),
        pytest.param([near(None)], [web("1", "a")], "", id="no selector means nobody"),
        pytest.param([near({})], [web("1", "a")], "ab", id="an empty one means everybody"),
        pytest.param(
            [near(WEB)], [web("1", "a", leaving=True)], "ab", id="one that is being deleted still counts"
        ),
        # One pod has to be what all terms mean; two pods that each meet one of them do not do.
        pytest.param(
            [near(labelled("x")), near(labelled("y"))],
            [pod("1", node="a", labels={"x": ""}), pod("2", node="a", labels={"y": ""})],
            "",
            id="two half neighbours",
        ),
        pytest.param(
            [near(labelled("x")), near(labelled("y"), HOSTNAME)],
            [pod("1", node="a", labels={"x": "", "y": ""})],
            "a",
            id="one whole neighbour",
        ),
    ],
)
def test_affinity(terms: list[PodAffinityTerm], there: list[ApiStruct], fits: str) -> None:
    assert fitting(pod(labels=DB, affinity=pod_affinity(near=terms)), cluster(*NODES, *there)) == fits


@pytest.mark.parametrize(
    ("terms", "there", "fits"),
    [
        pytest.param([near(WEB)], [], "abc", id="the first, where there are zones"),
        pytest.param([near(WEB)], [web("1", "c")], "c", id="the second goes to the first"),
        pytest.param([near(WEB), near(DB)], [], "", id="it is not what all terms mean"),
        pytest.param([near(WEB, namespaces=["other"])], [], "", id="it is in no namespace that is meant"),
        pytest.param([near(WEB), near(WEB, "rack")], [], "", id="no node has all labels"),
        # The pod on d is in no zone, so that nobody knows where the zone of the first is: the rule still holds.
        pytest.param([near(WEB)], [web("1", "d")], "abc", id="another one outside any zone"),
    ],
)
def test_the_first_pod_of_its_own_kind(terms: list[PodAffinityTerm], there: list[Pod], fits: str) -> None:
    assert fitting(pod(labels=WEB, affinity=pod_affinity(near=terms)), cluster(*NODES, *there)) == fits


@pytest.mark.parametrize(
    ("terms", "there", "fits"),
    [
        pytest.param([near(WEB)], [web("1", "a")], "cd", id="in another zone, or in none"),
        pytest.param([near(WEB, HOSTNAME)], [web("1", "a")], "bcd", id="on another node"),
        pytest.param([near(WEB), near(DB)], [pod("1", node="a", labels=DB)], "cd", id="any term is enough"),
        pytest.param([near(WEB)], [web("1", "a", namespace="other")], "abcd", id="another namespace"),
    ],
)
def test_anti_affinity(terms: list[PodAffinityTerm], there: list[Pod], fits: str) -> None:
    assert fitting(pod(affinity=pod_affinity(apart=terms)), cluster(*NODES, *there)) == fits


@pytest.mark.parametrize(
    ("of", "apart", "fits"),
    [
        pytest.param(pod(labels=WEB), near(WEB), "cd", id="the pod is meant"),
        pytest.param(pod(labels=DB), near(WEB), "all", id="it is not"),
        pytest.param(pod(labels=WEB, namespace="other"), near(WEB), "all", id="it is in another namespace"),
        pytest.param(
            pod(labels=WEB, namespace="p"),
            near(WEB, namespace_selector={"env": "prod"}),
            "cd",
            id="by its labels",
        ),
        pytest.param(pod(labels=WEB), near(WEB, "rack"), "all", id="in no domain"),
    ],
)
def test_anti_affinity_of_pods_that_are_there(of: Pod, apart: PodAffinityTerm, fits: str) -> None:
    there = pod("1", node="a", affinity=pod_affinity(apart=[apart]))
    assert fitting(of, cluster(*NODES, namespace("p", env="prod"), there)) == fits


def test_pods_without_terms_are_of_no_interest_where_nobody_has_any() -> None:
    assert fitting(pod(labels=WEB), cluster(*NODES, web("1", "a"))) == "all"


def test_what_is_said_of_nodes() -> None:
    there = [web("1", "a"), pod("2", node="c", affinity=pod_affinity(apart=[near(WEB)]))]
    wishing = pod(labels=WEB, affinity=pod_affinity(near=[near(WEB, HOSTNAME)], apart=[near(WEB)]))
    attempt = cycle(wishing, *NODES, *there)
    PLUGIN.pre_filter(attempt)
    statuses = {name: PLUGIN.filter(attempt, info) for name, info in attempt.cluster.nodes.items()}
    assert statuses["b"].code is StatusCode.UNRESOLVABLE
    assert statuses["b"].words == "are not near the pods that the pod must be near"
    assert statuses["a"].code is StatusCode.UNSCHEDULABLE
    assert statuses["a"].words == "are near pods that the pod must be apart from"
    attempt = cycle(pod(labels=WEB), within=attempt.cluster)
    PLUGIN.pre_filter(attempt)
    repelled = PLUGIN.filter(attempt, attempt.cluster.nodes["c"])
    assert (repelled.code, repelled.words) == (
        StatusCode.UNSCHEDULABLE,
        "are near pods that must be apart from the pod",
    )


# --- scores ---


def scores(of: Pod, within: Cluster) -> dict[str, int] | None:
    attempt = cycle(of, within=within)
    nodes = list(within.nodes.values())
    if PLUGIN.pre_score(attempt, nodes) is SKIP:
        return None
    raw = {info.name: PLUGIN.score(attempt, info) for info in nodes}
    PLUGIN.normalize(attempt, raw)
    return raw


@pytest.mark.parametrize(
    ("affinity", "there", "expected"),
    [
        pytest.param(
            pod_affinity(rather_near=[(5, near(WEB))]), [], {"a": 100, "b": 100, "c": 0, "d": 0}, id="near"
        ),
        pytest.param(
            pod_affinity(rather_apart=[(5, near(WEB))]), [], {"a": 0, "b": 0, "c": 100, "d": 100}, id="apart"
        ),
        pytest.param(
            pod_affinity(rather_near=[(6, near(WEB)), (4, near(WEB, HOSTNAME))]),
            [],
            {"a": 100, "b": 60, "c": 0, "d": 0},
            id="by weight",
        ),
        pytest.param(
            None,
            [pod("2", node="c", affinity=pod_affinity(rather_near=[(5, near(DB))]))],
            {"a": 0, "b": 0, "c": 100, "d": 0},
            id="somebody likes the pod",
        ),
        pytest.param(
            None,
            [pod("2", node="c", affinity=pod_affinity(near=[near(DB)]))],
            {"a": 0, "b": 0, "c": 100, "d": 0},
            id="somebody must be near it",
        ),
        pytest.param(None, [], None, id="nobody has wishes"),
        pytest.param(pod_affinity(rather_near=[(5, near(DB))]), [], None, id="nobody is meant"),
    ],
)
def test_scores(affinity: Affinity | None, there: list[Pod], expected: dict[str, int] | None) -> None:
    assert scores(pod(labels=DB, affinity=affinity), cluster(*NODES, web("1", "a"), *there)) == expected


# --- what helps ---

NEAR = pod("p", labels=DB, affinity=pod_affinity(near=[near(WEB)]))
APART = pod("p", labels=DB, affinity=pod_affinity(apart=[near(WEB)]))
PLAIN = pod("p", labels=DB)


@pytest.mark.parametrize(
    ("waiting", "old", "new", "helps"),
    [
        pytest.param(NEAR, None, web("q", "a"), True, id="a neighbour comes"),
        pytest.param(NEAR, pod("q", labels=WEB), web("q", "a"), True, id="a neighbour is bound"),
        pytest.param(NEAR, pod("q", node="a"), web("q", "a"), True, id="a pod becomes a neighbour"),
        pytest.param(NEAR, None, pod("q", labels=WEB), False, id="a neighbour that is on no node"),
        pytest.param(NEAR, None, pod("q", node="a"), False, id="somebody else comes"),
        pytest.param(NEAR, web("q", "a"), None, False, id="a neighbour goes"),
        pytest.param(NEAR, web("q", "a"), web("q", "a", phase="Running"), False, id="a neighbour just runs"),
        pytest.param(APART, web("q", "a"), None, True, id="one to be apart from goes"),
        pytest.param(APART, web("q", "a"), pod("q", node="a"), True, id="one to be apart from changes"),
        pytest.param(APART, None, web("q", "a"), False, id="one to be apart from comes"),
        pytest.param(APART, pod("q", node="a"), None, False, id="somebody else goes"),
        pytest.param(
            PLAIN,
            pod("q", node="a", affinity=pod_affinity(apart=[near(DB)])),
            None,
            True,
            id="one that had to be apart goes",
        ),
        pytest.param(
            PLAIN,
            pod("q", node="a", affinity=pod_affinity(apart=[near(WEB)])),
            None,
            False,
            id="one that others had to be apart from goes",
        ),
        pytest.param(PLAIN, None, EAST, True, id="a node comes, for one that was repelled"),
        pytest.param(APART, None, EAST, True, id="a node comes"),
        pytest.param(APART, EAST, node("a", zone="west"), True, id="a node moves"),
        pytest.param(
            APART, EAST, node("a", zone="east", labels={"x": "y"}), False, id="a node does not move"
        ),
        pytest.param(APART, EAST, node("a", zone="east", cpu=1), False, id="a node only shrinks"),
        pytest.param(PLAIN, PLAIN, pod("p"), True, id="the pod's own labels change"),
        pytest.param(NEAR, None, namespace("x"), False, id="a namespace that no term looks for"),
        pytest.param(
            pod(affinity=pod_affinity(near=[near(WEB, namespace_selector={"env": "prod"})])),
            namespace("x"),
            namespace("x", env="prod"),
            True,
            id="a namespace that a term may look for",
        ),
    ],
)
def test_what_helps(waiting: Pod, old: ApiStruct | None, new: ApiStruct | None, helps: bool) -> None:
    heard = PLUGIN.helps_anyone(old, new) and PLUGIN.helps(PodInfo(waiting), old, new, cluster())
    assert heard is helps


# --- a brute-force oracle ---

NAMESPACES = {"x": {"env": "prod"}, "y": {"env": "dev"}, "z": {}}
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
SELECTORS = st.one_of(
    st.none(),
    LABELS,
    st.builds(labelled, st.sampled_from("ab"), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(labelled, st.sampled_from("ab"), st.sampled_from(["In", "NotIn"]), st.sampled_from("12")),
)
TERMS = st.builds(
    near,
    SELECTORS,
    st.sampled_from([ZONE, HOSTNAME, "rack"]),
    namespaces=st.sampled_from([(), (), ("y",), ("x", "y")]),
    namespace_selector=st.sampled_from([None, None, {}, {"env": "prod"}]),
    match_label_keys=st.sampled_from([(), (), ("a",)]),
    mismatch_label_keys=st.sampled_from([(), (), ("b",)]),
)
WEIGHTED = st.lists(st.tuples(st.integers(1, 10), TERMS), max_size=2)
AFFINITIES = st.one_of(
    st.none(),
    st.builds(
        pod_affinity,
        near=st.lists(TERMS, max_size=2),
        apart=st.lists(TERMS, max_size=2),
        rather_near=WEIGHTED,
        rather_apart=WEIGHTED,
    ),
)
PODS = st.tuples(st.sampled_from("xyz"), LABELS, AFFINITIES)
PLACES = st.lists(
    st.tuples(st.sampled_from([None, "east", "west"]), st.sampled_from([None, "1"])), min_size=1, max_size=4
)


@settings(max_examples=examples(200), deadline=None)
@given(incoming=PODS, places=PLACES, there=st.lists(st.tuples(PODS, st.integers(0, 3)), max_size=6))
def test_verdicts_and_scores_equal_those_worked_out_pod_by_pod(
    incoming: tuple[str, dict[str, str], Affinity | None],
    places: list[tuple[str | None, str | None]],
    there: list[tuple[tuple[str, dict[str, str], Affinity | None], int]],
) -> None:
    nodes = [
        node(f"n{number}", zone=zone, labels={"rack": rack} if rack else {})
        for number, (zone, rack) in enumerate(places)
    ]
    placed = [
        pod(f"p{number}", namespace=space, labels=labels, affinity=affinity, node=f"n{at % len(nodes)}")
        for number, ((space, labels, affinity), at) in enumerate(there)
    ]
    of = pod("new", namespace=incoming[0], labels=incoming[1], affinity=incoming[2])
    seen = cluster(*(namespace(name, **labels) for name, labels in NAMESPACES.items()), *nodes, *placed)
    attempt = cycle(of, within=seen)
    judged = PLUGIN.pre_filter(attempt) is not SKIP
    for each in nodes:
        verdict = not judged or PLUGIN.filter(attempt, seen.nodes[each.metadata.name]).ok
        assert verdict == fits(of, each, nodes, placed, NAMESPACES), each.metadata.name
    assert (scores(of, seen) or dict.fromkeys(seen.nodes, 0)) == naive_scores(of, nodes, placed, NAMESPACES)
