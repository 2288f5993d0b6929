"""Remembered verdicts are what the plugins would say now, whatever changed since."""

from __future__ import annotations

import random

import pytest

from allotment.api.core import Node, Pod
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.framework import Cycle, Status
from allotment.scheduler.index import Index
from allotment.scheduler.node import NodeInfo
from allotment.scheduler.placement import Attempt, Placer
from allotment.scheduler.plugins.dynamic_resources import DynamicResources
from tests.allocator import build
from tests.builders.typed import claim, cluster, node, pod, slice_, taint


def attempt(placer: Placer, made: object, name: str) -> Attempt:
    found = placer.begin(made.pods[f"default/{name}"], 0.0)  # type: ignore[attr-defined]  # a cluster
    assert not isinstance(found, NoNode)
    return found


def test_the_best_node_and_of_equals_the_first_by_name() -> None:
    made = cluster(node("b"), node("a"), node("full", cpu=1), pod("p", cpu=2))
    index = attempt(Placer(made, DEFAULT.rosters()), made, "p").index

    assert index.best() == "a"
    assert [name for _, name in index.fitting()] == ["a", "b"]
    assert sum(index.rejections.values()) == 1


def test_pods_that_ask_for_the_same_share_one_index() -> None:
    made = cluster(node("n"), pod("p", cpu=1), pod("q", cpu=1), pod("other", cpu=2))
    placer = Placer(made, DEFAULT.rosters())

    assert attempt(placer, made, "p").index is attempt(placer, made, "q").index
    assert attempt(placer, made, "p").index is not attempt(placer, made, "other").index


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_follow_every_change(seed: int) -> None:
    rng = random.Random(seed)
    made = cluster(build.class_())
    placer = Placer(made, DEFAULT.rosters())
    shown: dict[str, object] = {}

    def show(obj: object, key: str) -> None:
        made.change(shown.get(key), obj)  # type: ignore[arg-type]  # objects by key
        if obj is None:
            shown.pop(key, None)
        else:
            shown[key] = obj

    for name in ("x", "y"):
        show(claim(name), f"claim {name}")
        show(pod(name, cpu=2, claims=[name]), f"pod {name}")
    for number in range(60):
        name = f"n{rng.randrange(4)}"
        change = rng.randrange(6)
        if change == 0 and f"node {name}" in shown:
            show(None, f"node {name}")
        elif change == 1:
            show(slice_(name, *[f"d{n}" for n in range(rng.randrange(3))]), f"slice {name}")
        elif change == 2:
            show(pod(f"on{number}", cpu=rng.randrange(1, 6), node=name), f"pod on{number}")
        elif change == 3:
            made.nominate(f"default/{rng.choice('xy')}", rng.choice((name, "")))
        else:
            taints = [taint("t")] if rng.random() < 0.3 else []
            show(
                node(name, cpu=rng.choice((2, 8)), taints=taints, cordoned=rng.random() < 0.2), f"node {name}"
            )
        for waiting in ("x", "y"):
            found = placer.begin(made.pods[f"default/{waiting}"], 0.0)
            if isinstance(found, Attempt):
                best = found.index.best()
                fitting = found.index.fitting()
                assert best == (fitting[0][1] if fitting else None)
        placer.validate()


def test_nodes_that_look_alike_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger device makes a node another one, though the claim does not ask for its size: small ones are given first."""
    judged: list[str] = []
    ask = DynamicResources.filter

    def counted(plugin: DynamicResources, cycle: Cycle, node: NodeInfo) -> Status:
        judged.append(node.name)
        return ask(plugin, cycle, node)

    monkeypatch.setattr(DynamicResources, "filter", counted)
    sizes = {f"n{number}": "80Gi" if number % 5 == 0 else "40Gi" for number in range(20)}
    made = cluster(build.class_(), *[node(name) for name in sizes])
    for name, size in sizes.items():
        made.change(None, slice_(name, build.device("d", capacity={"memory": size})))
    made.change(None, claim("c"))
    made.change(None, pod("p", claims=["c"]))
    placer = Placer(made, DEFAULT.rosters())

    assert attempt(placer, made, "p").index.best() == "n1"
    assert len(judged) == 2
    placer.validate()


RELEASES: dict[str, tuple[Pod, Node, Node]] = {
    # a pod, a node that rejects it for good, and the same node when it does no longer
    "too small": (pod("p", cpu=9), node(), node(cpu=16)),
    "cordoned": (pod("p"), node(cordoned=True), node()),
    "tainted": (pod("p"), node(taints=[taint("t")]), node()),
    "not the one that is named": (pod("p", selector={"disk": "ssd"}), node(), node(labels={"disk": "ssd"})),
    "without devices": (pod("p", claims=["c"]), node(), node()),
}


@pytest.mark.parametrize(("waiting", "before", "after"), RELEASES.values(), ids=RELEASES)
def test_who_rejects_a_pod_for_good_is_asked_again_only_when_it_changes_itself(
    waiting: Pod, before: Node, after: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    judge = Index.judge

    def counted(index: Index, info: NodeInfo, *, without: str = "") -> int | Status:
        asked.append(info.name)
        return judge(index, info, without=without)

    monkeypatch.setattr(Index, "judge", counted)
    made = cluster(build.class_(), before, claim("c"), waiting, pod("other", node="n"))
    placer = Placer(made, DEFAULT.rosters())
    index = attempt(placer, made, "p").index
    assert index.best() is None

    made.change(pod("other", node="n"), None)
    assert index.best() is None
    assert asked == ["n"]
    placer.validate()

    made.change(before, after)
    made.change(None, slice_("n", "d0"))
    assert index.best() == "n"
    made.change(after, before)
    made.change(slice_("n", "d0"), None)
    assert index.best() is None
    placer.validate()


def test_of_two_reasons_the_lasting_one_stays_and_none_outlives_its_cause() -> None:
    made = cluster(build.class_(), node(), claim("c", build.request("r", count=2)), slice_("n", "d0"))
    made.change(None, pod("p", cpu=6, claims=["c"]))
    placer = Placer(made, DEFAULT.rosters())
    index = attempt(placer, made, "p").index
    assert index.best() is None

    made.change(None, pod("other", cpu=6, node="n"))  # now it is also short of cpu
    assert index.best() is None
    assert [status.plugin for status in index.rejections] == ["DynamicResources"]
    placer.validate()
    made.change(slice_("n", "d0"), slice_("n", "d0", "d1"))
    assert index.best() is None
    assert [status.plugin for status in index.rejections] == ["NodeResourcesFit"]
    placer.validate()
