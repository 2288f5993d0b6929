"""Counts of neighbours, against a fresh look at every pod."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.core import Node, Pod
from allotment.api.meta import LabelSelector
from allotment.api.selection import Selector
from allotment.scheduler import neighbours
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.neighbours import MeantPods, Question, wishes_of
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.selector import pods_selected
from tests.builders.typed import HOSTNAME, ZONE, cluster, labelled, near, node, pod, pod_affinity
from tests.thoroughness import examples


def selector(selector: Mapping[str, str] | LabelSelector) -> Selector:
    given = selector if isinstance(selector, LabelSelector) else LabelSelector(match_labels=dict(selector))
    made = pods_selected(given)
    assert made is not None
    return made


def meant(labels: Mapping[str, str], *namespaces: str) -> MeantPods:
    return MeantPods(frozenset(namespaces) or None, selector(labels))


WEB = Question((meant({"app": "web"}, "default"),))


def test_pods_are_counted_by_node() -> None:
    web = {"app": "web"}
    seen = cluster(
        node("a"),
        node("b"),
        pod("1", node="a", labels=web),
        pod("2", node="a", labels={**web, "x": "y"}),
        pod("3", node="b", labels={"app": "db"}),
        pod("4", node="b", labels=web, namespace="other"),
        pod("5", labels=web),  # on no node
    )
    assert seen.neighbours.tally(WEB) == {"a": 2}
    assert seen.neighbours.tally(Question((meant(web),))) == {"a": 2, "b": 1}
    assert seen.neighbours.tally(Question((meant(web), meant({"x": "y"})))) == {"a": 1}


def test_a_tally_keeps_up_with_pods_that_come_go_and_change() -> None:
    web = pod("1", node="a", labels={"app": "web"})
    seen = cluster(node("a"), node("b"), web)
    assert seen.neighbours.tally(WEB) == {"a": 1}
    other = pod("1", node="a", labels={"app": "db"})
    seen.change(web, other)
    assert seen.neighbours.tally(WEB) == {}
    seen.change(other, web)
    seen.change(None, pod("2", labels={"app": "web"}))
    seen.assume(seen.pods["default/2"], "b")
    assert seen.neighbours.tally(WEB) == {"a": 1, "b": 1}
    seen.forget(seen.pods["default/2"])
    seen.change(web, None)
    assert seen.neighbours.tally(WEB) == {}


def test_a_pod_that_is_being_deleted_does_not_stay() -> None:
    here = pod("1", node="a", labels={"app": "web"})
    seen = cluster(node("a"), here)
    staying = Question(WEB.parts, staying=True)
    assert seen.neighbours.tally(staying) == {"a": 1}
    seen.change(here, pod("1", node="a", labels={"app": "web"}, leaving=True))
    assert seen.neighbours.tally(staying) == {}
    assert seen.neighbours.tally(WEB) == {"a": 1}


def test_pods_on_nodes_that_are_not_known_do_not_count_until_they_are() -> None:
    seen = cluster(pod("1", node="a", labels={"app": "web"}))
    assert seen.neighbours.tally(WEB) == {}
    seen.change(None, node("a"))
    assert seen.neighbours.tally(WEB) == {"a": 1}
    seen.change(node("a"), None)
    assert seen.neighbours.tally(WEB) == {}


def test_what_pods_on_nodes_ask_of_others() -> None:
    apart = pod("1", node="a", affinity=pod_affinity(apart=[near({"app": "web"}, HOSTNAME)]))
    wishing = pod(
        "2",
        node="b",
        affinity=pod_affinity(near=[near({"app": "web"})], rather_apart=[(7, near({"app": "web"}))]),
    )
    seen = cluster(node("a"), node("b"), apart, wishing)
    web, db = PodInfo(pod("w", labels={"app": "web"})), PodInfo(pod("d", labels={"app": "db"}))
    assert seen.neighbours.repelling(web) == [(HOSTNAME, {"a": 1})]
    assert sorted(seen.neighbours.liking(web)) == [(ZONE, -7, {"b": 1}), (ZONE, 1, {"b": 1})]
    assert seen.neighbours.repelling(db) == []
    assert seen.neighbours.liking(db) == []
    seen.change(apart, None)
    assert not any(nodes for _, nodes in seen.neighbours.repelling(web))


def test_pods_with_wishes_are_known_before_they_are_on_nodes() -> None:
    wishing = pod("1", affinity=pod_affinity(apart=[near({"app": "web"})]))
    seen = cluster(pod("0"), wishing)
    assert seen.neighbours.wishful == {"default/1"}
    seen.change(wishing, replace(wishing, status=replace(wishing.status, phase="Succeeded")))
    assert not seen.neighbours.wishful


def test_domains_follow_labels_and_taints_and_nothing_else() -> None:
    first, second = node("a", zone="east"), node("b", zone="west")
    seen = cluster(first, second, node("c"))
    asked: list[str] = []

    def interesting(each: Node) -> bool:
        asked.append(each.metadata.name)
        return True

    assert seen.neighbours.domains("all", ZONE, interesting).of == {"a": "east", "b": "west"}
    seen.change(first, node("a", zone="east", cpu=1))
    seen.neighbours.domains("all", ZONE, interesting)
    assert asked == ["a", "b"]
    seen.change(second, node("b", zone="east"))
    domains = seen.neighbours.domains("all", ZONE, interesting)
    assert domains.of == {"a": "east", "b": "east"}
    assert domains.count({"a": 2, "b": 3, "c": 4}) == {"east": 5}


def test_terms_fill_in_the_pods_namespace_and_labels() -> None:
    own = pod(
        namespace="team",
        labels={"release": "7"},
        affinity=pod_affinity(
            near=[
                near({"app": "web"}, match_label_keys=("release", "absent")),
                near({"app": "web"}, mismatch_label_keys=("release",)),
                near({"app": "web"}, namespaces=["x"]),
                near({"app": "web"}, namespace_selector={"env": "prod"}),
                near({"app": "web"}, namespace_selector={}),
                near(None),
            ]
        ),
    )
    namespaces = {"prod": {"env": "prod"}, "dev": {"env": "dev"}}
    same, other, named, selected, everywhere, nothing = (
        term.meant(namespaces) for term in wishes_of(own).near
    )
    assert same.matches("team", {"app": "web", "release": "7"})
    assert not same.matches("team", {"app": "web", "release": "8"})
    assert not same.matches("prod", {"app": "web", "release": "7"})
    assert other.matches("team", {"app": "web", "release": "8"})
    assert not other.matches("team", {"app": "web", "release": "7"})
    assert named.matches("x", {"app": "web"})
    assert not named.matches("team", {"app": "web"})
    assert [name for name in ("team", "prod", "dev") if selected.matches(name, {"app": "web"})] == ["prod"]
    assert everywhere.matches("anywhere", {"app": "web"})
    assert not nothing.matches("team", {"app": "web"})


def test_questions_beyond_the_limit_are_forgotten_and_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "TALLIES_KEPT", 4)
    seen = cluster(node("a"), *(pod(str(n), node="a", labels={"app": f"app{n}"}) for n in range(10)))
    for _ in range(2):
        for number in range(10):
            assert seen.neighbours.tally(Question((meant({"app": f"app{number}"}),))) == {"a": 1}
    seen.change(None, pod("more", node="a", labels={"app": "app0"}))
    assert seen.neighbours.tally(Question((meant({"app": "app0"}),))) == {"a": 2}
    seen.validate()


def test_kinds_of_pods_that_are_gone_are_forgotten() -> None:
    seen = cluster(node("a"))
    for number in range(500):
        shown = pod("p", uid=str(number), node="a", labels={"n": str(number)})
        seen.change(None, shown)
        seen.neighbours.tally(WEB)
        seen.change(shown, None)
        seen.neighbours.tally(WEB)
    assert len(seen.neighbours._kinds) < 100


# --- random histories ---

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
AFFINITY = st.sampled_from(
    [
        None,
        pod_affinity(apart=[near({"a": "1"})]),
        pod_affinity(near=[near({"a": "1"})], rather_near=[(3, near({"b": "1"}))]),
    ]
)
PODS = st.builds(
    pod,
    st.sampled_from("pqr"),
    namespace=st.sampled_from(["x", "y"]),
    labels=LABELS,
    node=st.sampled_from([None, "m", "n", "unknown"]),
    affinity=AFFINITY,
    leaving=st.booleans(),
    phase=st.sampled_from(["Running", "Running", "Failed"]),
)
NODES = st.builds(node, st.sampled_from("mn"), zone=st.sampled_from([None, "east"]))
GONE = st.tuples(st.just("gone"), st.integers(0, 5))
QUESTIONS = [
    Question((meant({"a": "1"}),)),
    Question((meant({"a": "1"}, "x"), meant({"b": "2"}, "x")), staying=True),
    Question((MeantPods(None, selector(labelled("b", "DoesNotExist"))),)),
]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.one_of(PODS, NODES, GONE, st.sampled_from(QUESTIONS)), max_size=30))
def test_any_history_counts_like_a_fresh_look(history: list[Pod | Node | Question | tuple[str, int]]) -> None:
    seen, shown = Cluster(), dict[tuple[str, str, str], Pod | Node]()
    for event in history:
        if isinstance(event, Question):
            assert seen.neighbours.tally(event) == counted(seen, event)
            continue
        if isinstance(event, tuple):
            key = next(iter(list(shown)[event[1] :]), None)
            if key is not None:
                seen.change(shown.pop(key), None)
            continue
        key = (event.kind, event.metadata.namespace, event.metadata.name)
        before = shown.get(key)
        if isinstance(before, Pod) and isinstance(event, Pod) and before.spec.node_name:
            event = replace(event, spec=replace(event.spec, node_name=before.spec.node_name))
        seen.change(before, event)
        shown[key] = event
    for question in QUESTIONS:
        assert seen.neighbours.tally(question) == counted(seen, question)
    seen.validate()


def counted(seen: Cluster, question: Question) -> dict[str, int]:
    counts: dict[str, int] = {}
    for info in seen.nodes.values():
        for each in info.pods.values() if info.node is not None else ():
            if question.staying and each.leaving:
                continue
            if all(part.matches(each.namespace, each.pod.metadata.labels) for part in question.parts):
                counts[info.name] = counts.get(info.name, 0) + 1
    return counts
