"""volcano-scheduler.conf: what it comes to here, and what is said of the rest."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import SCORES, Configuration, ConfigurationError
from allotment.scheduler.config.profile_file import load
from allotment.scheduler.core import Scheduler

USUAL = """
    actions: "enqueue, allocate, preempt, reclaim, backfill"
    tiers:
    - plugins:
      - name: priority
      - name: gang
      - name: predicates
      - name: capacity
      - name: nodeorder
"""


def conf(text: str) -> Configuration:
    return load(dedent(text), "v.conf")


def with_plugin(text: str) -> Configuration:
    return conf(USUAL + indent(dedent(text).strip(), "      ") + "\n")


def test_the_usual_file_means_all_that_it_says() -> None:
    found = conf(USUAL)
    assert found.ignored == ()
    assert found.making_room == {"preempt", "reclaim"}
    assert set(found.rosters()) == {"default-scheduler", "volcano"}
    assert found.rosters()["volcano"].weights == SCORES


@pytest.mark.parametrize(
    ("actions", "making_room"),
    [
        ("enqueue, allocate, backfill", set()),
        ("enqueue, allocate, backfill, reclaim", {"reclaim"}),
        ("enqueue,allocate,backfill,preempt", {"preempt"}),
        ("enqueue, allocate, backfill, gangpreempt, gangreclaim", {"preempt", "reclaim"}),
    ],
)
def test_the_actions_say_who_makes_room(actions: str, making_room: set[str]) -> None:
    found = conf(f"actions: {actions}\ntiers: []")
    assert found.making_room == making_room
    core = Scheduler(Cluster(), found.rosters(), making_room=found.making_room)
    assert core.actions._making_room == making_room


def test_nodeorder_weighs_scores() -> None:
    found = with_plugin("""
        - name: nodeorder
          arguments: {leastrequested.weight: 0, mostrequested.weight: 5, podaffinity.weight: "7", imagelocality.weight: 1}
    """)
    weights = found.rosters()["volcano"].weights
    assert (weights["LeastAllocated"], weights["MostAllocated"], weights["InterPodAffinity"]) == (0, 5, 7)
    assert found.ignored == ("tiers[0].plugins[5].arguments.imagelocality.weight: has no meaning here",)


def test_binpack_fills_nodes() -> None:
    found = with_plugin("""
        - name: binpack
          arguments:
            binpack.weight: 10
            binpack.cpu: 5
            binpack.memory: 1
            binpack.resources: nvidia.com/gpu, example.com/foo
            binpack.resources.nvidia.com/gpu: 2
    """)
    profile = found.profiles[1]
    assert profile.scores == {"MostAllocated": 10, "LeastAllocated": 0}
    assert profile.resources == {"cpu": 5, "memory": 1, "nvidia.com/gpu": 2, "example.com/foo": 1}
    assert found.ignored == ()


def test_without_nodeorder_only_devices_are_scored() -> None:
    found = conf(
        "actions: enqueue, allocate, backfill\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: proportion}]}]"
    )
    weights = found.rosters()["volcano"].weights
    assert {name for name, weight in weights.items() if weight} == {"DynamicResources"}


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("- name: drf", "tiers[0].plugins[5]: drf: jobs of one queue are served by priority, then by age"),
        ("- name: mine", "tiers[0].plugins[5]: mine: no such plugin is known"),
        (
            "- {name: gang, enablePreemptable: false}",
            "tiers[0].plugins[5].enablePreemptable: gang cannot be switched in part",
        ),
        (
            "- {name: predicates, arguments: {predicate.CacheEnable: true}}",
            "tiers[0].plugins[5].arguments.predicate.CacheEnable: has no meaning here",
        ),
    ],
)
def test_what_has_no_meaning_is_named(plugin: str, words: str) -> None:
    assert with_plugin(plugin).ignored == (words,)


def test_what_is_left_out_and_happens_all_the_same_is_named() -> None:
    found = conf("actions: shuffle\ntiers: []\nmetrics: {type: prometheus}").ignored
    assert [words.partition(": ")[0] for words in found] == ["actions"] * 4 + ["tiers"] * 3 + ["metrics"]
    assert "actions: shuffle: running pods are never moved" in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("actions: allocate, dance\ntiers: []", "v.conf: actions: 'dance' is not one of enqueue, allocate"),
        ("actions: allocate\ntiers: [{plugins: [{arguments: {}}]}]", "tiers[0].plugins[0]"),
        ("actions: allocate\ntears: []", "v.conf: tears: unknown field"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.weight: much}}]}]",
            "binpack.weight: 'much' is not a whole number from 0 to 100",
        ),
    ],
)
def test_mistakes_name_the_field(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        conf(text)
    assert words in str(caught.value)


def test_it_may_come_in_its_config_map() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n" + indent(
        dedent(USUAL).strip(), "    "
    )
    assert load(text, "m.yaml") == conf(USUAL)
    with pytest.raises(ConfigurationError, match=r"m\.yaml: data\.volcano-scheduler\.conf: actions"):
        load(text.replace("enqueue,", "dance,"), "m.yaml")
