from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.core import Node, Pod, TopologySpreadConstraint
from allotment.api.meta import ApiStruct
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.pod_topology_spread import PodTopologySpread
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import (
    HOSTNAME,
    ZONE,
    cluster,
    cycle,
    labelled,
    node,
    pod,
    spread,
    taint,
    toleration,
)
from tests.scheduler.naive_spreading import fits, naive_scores
from tests.thoroughness import examples

PLUGIN = PodTopologySpread()
WEB = {"app": "web"}
EAST, ALSO_EAST, WEST = node("a", zone="east"), node("b", zone="east"), node("c", zone="west")


def web(name: str, on: str, **more: Any) -> Pod:
    return pod(name, node=on, labels=WEB, **more)


def fitting(of: Pod, *objects: ApiStruct) -> str:
    """The names of the nodes that the pod fits on, in one word; ``all`` if it is not judged."""
    attempt = cycle(of, *objects)
    if PLUGIN.pre_filter(attempt) is SKIP:
        return "all"
    nodes = attempt.cluster.nodes
    return "".join(sorted(name for name, info in nodes.items() if PLUGIN.filter(attempt, info).ok))


@pytest.mark.parametrize(
    ("constraint", "there", "fits"),
    [
        pytest.param(spread(ZONE, WEB), [], "abc", id="nobody anywhere"),
        pytest.param(spread(ZONE, WEB), [web("1", "a")], "c", id="the emptier zone"),
        pytest.param(spread(ZONE, WEB, skew=2), [web("1", "a")], "abc", id="a larger skew"),
        pytest.param(spread(ZONE, WEB), [web("1", "a"), web("2", "c")], "abc", id="even again"),
        pytest.param(spread(HOSTNAME, WEB), [web("1", "a"), web("2", "c")], "b", id="by host"),
        pytest.param(
            spread(ZONE, WEB), [web("1", "a", namespace="other")], "abc", id="other namespaces do not count"
        ),
        pytest.param(
            spread(ZONE, WEB), [web("1", "a", leaving=True)], "abc", id="pods that leave do not count"
        ),
        pytest.param(spread(ZONE, WEB), [pod("1", node="a")], "abc", id="pods of other kinds do not count"),
        pytest.param(spread("rack", WEB), [], "", id="no node has the label"),
        # The pod does not match its own selector, so that it does not add to the skew.
        pytest.param(
            spread(ZONE, {"app": "db"}), [pod("1", node="a", labels={"app": "db"})], "abc", id="not itself"
        ),
        pytest.param(
            spread(ZONE, {"app": "db"}),
            [pod(n, node="a", labels={"app": "db"}) for n in "12"],
            "c",
            id="not itself, too many",
        ),
        pytest.param(
            spread(ZONE, WEB, min_domains=3), [web("1", "c")], "ab", id="fewer domains than asked for"
        ),
        pytest.param(
            spread(ZONE, WEB, min_domains=3), [web("1", "a"), web("2", "c")], "", id="which never even out"
        ),
        pytest.param(
            spread(ZONE, WEB, min_domains=2), [web("1", "a"), web("2", "c")], "abc", id="enough domains"
        ),
        pytest.param(
            spread(ZONE, {}), [web(n, "a") for n in "12"], "abc", id="an empty selector counts nobody"
        ),
        pytest.param(spread(ZONE, None), [web(n, "a") for n in "12"], "abc", id="no selector counts nobody"),
        pytest.param(
            spread(ZONE, labelled("app"), match_label_keys=("app",)),
            [pod("1", node="a", labels={"app": "db"})],
            "abc",
            id="only pods with the same value of a label",
        ),
        pytest.param(
            spread(ZONE, labelled("app"), match_label_keys=("app",)),
            [web("1", "a")],
            "c",
            id="which this one has",
        ),
        pytest.param(
            spread(ZONE, WEB, soft=True), [web("1", "a")], "all", id="soft constraints turn nobody away"
        ),
    ],
)
def test_filter(constraint: TopologySpreadConstraint, there: list[Pod], fits: str) -> None:
    assert fitting(pod(labels=WEB, spread=[constraint]), EAST, ALSO_EAST, WEST, *there) == fits


def test_every_constraint_must_hold() -> None:
    both = [spread(ZONE, WEB), spread(HOSTNAME, WEB)]
    there = [web("1", "a"), web("2", "c")]
    assert fitting(pod(labels=WEB, spread=both), EAST, ALSO_EAST, WEST, *there) == "b"


def test_a_node_that_lacks_a_label_is_no_domain_for_any_constraint() -> None:
    both = [spread(ZONE, WEB), spread("rack", WEB)]
    racked = node("a", zone="east", labels={"rack": "1"})
    # The empty zone west has no racks: it is not the emptiest domain, and east may fill up.
    assert fitting(pod(labels=WEB, spread=both), racked, WEST, web("1", "a")) == "a"


@pytest.mark.parametrize(
    ("policy", "fits"),
    [
        pytest.param({}, "ac", id="honoured unless told otherwise"),
        pytest.param({"node_affinity_policy": "Honor"}, "ac", id="honoured"),
        pytest.param({"node_affinity_policy": "Ignore"}, "c", id="ignored"),
    ],
)
def test_zones_that_the_pods_node_selector_excludes(policy: dict[str, Any], fits: str) -> None:
    """Whether the pod may go there at all is NodeAffinity's to say."""
    only_east = pod(labels=WEB, spread=[spread(ZONE, WEB, **policy)], selector={ZONE: "east"})
    assert fitting(only_east, EAST, WEST, web("1", "a")) == fits


@pytest.mark.parametrize(
    ("policy", "tolerations", "fits"),
    [
        pytest.param({}, [], False, id="ignored unless told otherwise"),
        pytest.param({"node_taints_policy": "Ignore"}, [], False, id="ignored"),
        pytest.param({"node_taints_policy": "Honor"}, [], True, id="honoured"),
        pytest.param(
            {"node_taints_policy": "Honor"}, [toleration("spot")], False, id="honoured, but tolerated"
        ),
    ],
)
def test_zones_whose_nodes_are_tainted(policy: dict[str, Any], tolerations: list[Any], fits: bool) -> None:
    tainted = node("c", zone="west", taints=[taint("spot")])
    spreading = pod(labels=WEB, spread=[spread(ZONE, WEB, **policy)], tolerations=tolerations)
    assert ("a" in fitting(spreading, EAST, tainted, web("1", "a"))) is fits


def test_refusals_say_which_label() -> None:
    attempt = cycle(pod(labels=WEB, spread=[spread(ZONE, WEB)]), EAST, WEST, node("d"), web("1", "a"))
    PLUGIN.pre_filter(attempt)
    uneven, missing = (PLUGIN.filter(attempt, attempt.cluster.nodes[name]) for name in "ad")
    assert (uneven.code, uneven.words) == (
        StatusCode.UNSCHEDULABLE,
        "have too many such pods in their topology.kubernetes.io/zone (maxSkew 1)",
    )
    assert (missing.code, missing.words) == (
        StatusCode.UNRESOLVABLE,
        "do not have the label topology.kubernetes.io/zone that the pod spreads over",
    )


def test_each_cycle_sees_the_pods_of_the_last() -> None:
    seen = cluster(EAST, WEST)
    placed = []
    for number in range(6):
        seen.change(None, pod(str(number), labels=WEB, spread=[spread(ZONE, WEB)]))
        waiting = seen.pods[f"default/{number}"]
        attempt = cycle(waiting.pod, within=seen)
        PLUGIN.pre_filter(attempt)
        fit = [name for name, info in seen.nodes.items() if PLUGIN.filter(attempt, info).ok]
        placed.append("".join(fit))
        seen.assume(waiting, fit[0])
    assert placed == ["ac", "c"] * 3


# --- scores ---


def scores(of: Pod, within: Cluster) -> dict[str, int] | None:
    attempt = cycle(of, within=within)
    nodes = list(within.nodes.values())
    judged = PLUGIN.pre_score(attempt, ())
    if PLUGIN.pre_score(attempt, nodes) is SKIP:
        assert judged is SKIP
        return None
    assert judged.ok
    raw = {info.name: PLUGIN.score(attempt, info) for info in nodes}
    PLUGIN.normalize(attempt, raw)
    return raw


def test_soft_constraints_prefer_emptier_domains() -> None:
    seen = cluster(EAST, ALSO_EAST, WEST, web("1", "a"), web("2", "b"), web("3", "c"))
    assert scores(pod(labels=WEB, spread=[spread(ZONE, WEB, soft=True)]), seen) == {
        "a": 33,
        "b": 33,
        "c": 100,
    }
    assert scores(pod(labels=WEB, spread=[spread(HOSTNAME, WEB, soft=True)]), seen) == {
        "a": 100,
        "b": 100,
        "c": 100,
    }


def test_nodes_without_the_label_come_last() -> None:
    seen = cluster(EAST, node("z"), web("1", "a"))
    assert scores(pod(labels=WEB, spread=[spread(ZONE, WEB, soft=True)]), seen) == {"a": 100, "z": 0}


def test_without_soft_constraints_nothing_is_scored() -> None:
    assert scores(pod(labels=WEB, spread=[spread(ZONE, WEB)]), cluster(EAST)) is None


# --- what helps ---

WAITING = pod("p", labels=WEB, spread=[spread(ZONE, WEB)])


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, web("q", "a"), True, id="a pod of the kind comes"),
        pytest.param(pod("q", labels=WEB), web("q", "a"), True, id="a pod of the kind is bound"),
        pytest.param(web("q", "a"), None, True, id="a pod of the kind goes"),
        pytest.param(
            web("q", "a"), web("q", "a", leaving=True), True, id="a pod of the kind is being deleted"
        ),
        pytest.param(web("q", "a"), pod("q", node="a"), True, id="a pod is not of the kind any more"),
        pytest.param(pod("q", node="a"), None, False, id="another pod goes"),
        pytest.param(web("q", "a", namespace="other"), None, False, id="a pod of another namespace goes"),
        pytest.param(web("q", "a"), web("q", "a", phase="Running"), False, id="a pod of the kind just runs"),
        pytest.param(None, pod("q", labels=WEB), False, id="a pod that is on no node yet"),
        pytest.param(None, EAST, True, id="a node comes"),
        pytest.param(EAST, None, True, id="a node goes"),
        pytest.param(None, node("z"), False, id="a node without the label comes"),
        pytest.param(node("a"), EAST, True, id="a node gets the label"),
        pytest.param(EAST, node("a", zone="west"), True, id="a node moves"),
        pytest.param(EAST, node("a", zone="east", taints=[taint("spot")]), True, id="a node is tainted"),
        pytest.param(EAST, node("a", zone="east", cpu=1), False, id="a node stays where it is"),
        pytest.param(
            WAITING, pod("p", labels={}, spread=[spread(ZONE, WEB)]), True, id="the pod's own labels change"
        ),
    ],
)
def test_what_helps(old: ApiStruct | None, new: ApiStruct | None, helps: bool) -> None:
    heard = PLUGIN.helps_anyone(old, new) and PLUGIN.helps(PodInfo(WAITING), old, new, cluster())
    assert heard is helps


# --- a brute-force oracle ---

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
SELECTORS = st.one_of(
    st.none(),
    LABELS,
    st.builds(labelled, st.sampled_from("ab"), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(labelled, st.sampled_from("ab"), st.sampled_from(["In", "NotIn"]), st.sampled_from("12")),
)
POLICY = st.sampled_from([None, "Honor", "Ignore"])
CONSTRAINTS = st.builds(
    spread,
    st.sampled_from([ZONE, "rack", HOSTNAME]),
    SELECTORS,
    skew=st.integers(1, 2),
    soft=st.booleans(),
    min_domains=st.sampled_from([None, 1, 3]),
    node_affinity_policy=POLICY,
    node_taints_policy=POLICY,
    match_label_keys=st.sampled_from([(), ("a",)]),
)
NODES = st.lists(
    st.builds(
        node,
        zone=st.sampled_from([None, "east", "west"]),
        labels=st.dictionaries(st.just("rack"), st.sampled_from("12"), max_size=1),
        taints=st.sampled_from([[], [taint("spot")]]),
    ),
    min_size=1,
    max_size=5,
)
THERE = st.lists(
    st.builds(
        pod,
        namespace=st.sampled_from(["x", "x", "y"]),
        labels=LABELS,
        leaving=st.sampled_from([False, False, True]),
    ),
    max_size=12,
)
INCOMING = st.builds(
    pod,
    namespace=st.just("x"),
    labels=LABELS,
    spread=st.lists(CONSTRAINTS, min_size=1, max_size=3),
    selector=st.sampled_from([{}, {ZONE: "east"}]),
    tolerations=st.sampled_from([[], [toleration("spot")]]),
)


@settings(max_examples=examples(150), deadline=None)
@given(incoming=INCOMING, nodes=NODES, there=THERE, data=st.data())
def test_verdicts_and_scores_equal_those_worked_out_pod_by_pod(
    incoming: Pod, nodes: list[Node], there: list[Pod], data: st.DataObject
) -> None:
    named = [
        node(
            f"n{number}",
            labels={key: value for key, value in each.metadata.labels.items() if key != HOSTNAME},
            taints=each.spec.taints,
        )
        for number, each in enumerate(nodes)
    ]
    places = [data.draw(st.sampled_from([each.metadata.name for each in named])) for _ in there]
    placed = [
        pod(
            f"p{number}",
            namespace=each.metadata.namespace,
            labels=each.metadata.labels,
            leaving=each.metadata.deletion_timestamp is not None,
            node=on,
        )
        for number, (each, on) in enumerate(zip(there, places, strict=True))
    ]
    seen = cluster(*named, *placed)
    attempt = cycle(incoming, within=seen)
    judged = PLUGIN.pre_filter(attempt) is not SKIP
    for each in named:
        verdict = not judged or PLUGIN.filter(attempt, seen.nodes[each.metadata.name]).ok
        assert verdict == fits(incoming, each, named, placed)
    assert scores(incoming, seen) == naive_scores(incoming, named, placed)
