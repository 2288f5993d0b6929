"""The replica set that a deployment makes of its template, and the numbers that its sets bear."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.client.form import Obj
from allotment.controllers.workloads.revision import (
    DESIRED,
    HISTORY,
    REVISION,
    age,
    essence,
    new_set,
    outdated,
    revision_of,
    template_hash,
)

TEMPLATE: Obj = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
HIGHEST = 2**63 - 1


def deployment(name: str = "web", annotations: Any = None, status: Any = None, **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": "u", "annotations": annotations},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            **spec,
        },
        "status": status,
    }


def replica_set(revision: str | None, history: str | None = None, ready: int = 0) -> Obj:
    notes = {REVISION: revision, HISTORY: history}
    return {
        "metadata": {"name": "web-1", "annotations": {k: v for k, v in notes.items() if v is not None}},
        "spec": {"minReadySeconds": ready},
    }


def test_a_new_set_bears_the_hash_of_its_template() -> None:
    made = new_set(deployment(), [], 2)
    mark = template_hash(TEMPLATE)

    assert made["metadata"]["name"] == f"web-{mark}"
    labels = {"app": "web", "pod-template-hash": mark}
    assert made["metadata"]["labels"] == made["spec"]["selector"]["matchLabels"] == labels
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["spec"]["replicas"] == 2
    assert made["metadata"]["annotations"][DESIRED] == "3"
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["u"]


def test_the_longest_name_of_a_deployment_leaves_room_for_the_hash() -> None:
    name = new_set(deployment("x" * 253), [], 0)["metadata"]["name"]
    assert len(name) == 253
    assert name.endswith(f"-{template_hash(TEMPLATE)}")


def test_a_collision_changes_the_hash() -> None:
    names = {
        new_set(deployment(status=status), [], 0)["metadata"]["name"]
        for status in (None, {"collisionCount": 1})
    }
    assert len(names) == 2


def test_annotations_are_inherited_except_those_about_the_deployment_itself() -> None:
    given = {
        "team": "a",
        REVISION: "7",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deprecated.deployment.rollback.to": "1",
    }
    made = new_set(deployment(annotations=given), [replica_set("3"), replica_set("x")], 0)
    annotations = made["metadata"]["annotations"]
    assert annotations["team"] == "a"
    assert annotations[REVISION] == "4"
    assert not {*given} - {"team", REVISION} & annotations.keys()


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (None, 0),
        ("12", 12),
        ("+007", 7),
        ("-1", 0),
        ("1.5", 0),
        ("١", 0),  # a digit, but not one of Go's
        (str(HIGHEST), HIGHEST),
        (str(HIGHEST + 1), 0),
        ("9" * 5000, 0),
    ],
)
def test_anybody_may_write_a_revision(written: str | None, number: int) -> None:
    assert revision_of(replica_set(written)) == number


def test_a_set_that_comes_back_gets_a_new_number_and_remembers_the_old_one() -> None:
    patch = outdated(deployment(), replica_set("1", "0"), [replica_set("2")])
    assert patch == {"metadata": {"annotations": {REVISION: "3", HISTORY: "0,1"}}}


def test_a_history_does_not_grow_without_end() -> None:
    long = ",".join(map(str, range(300)))
    patch = outdated(deployment(), replica_set("300", long), [replica_set("301")])
    assert patch["metadata"]["annotations"][HISTORY].split(",") == [str(number) for number in range(201, 301)]


def test_there_is_no_number_after_the_highest() -> None:
    assert outdated(deployment(), replica_set(str(HIGHEST)), [replica_set(str(HIGHEST))]) == {}


def test_a_set_follows_its_deployment() -> None:
    assert outdated(deployment(), replica_set("1"), []) == {}
    assert outdated(deployment(minReadySeconds=5), replica_set("1"), []) == {"spec": {"minReadySeconds": 5}}
    assert outdated(deployment(annotations={"team": "a"}), replica_set("1"), []) == {
        "metadata": {"annotations": {"team": "a"}}
    }


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(
            {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": None}]}}, True, id="a null"
        ),
        pytest.param(
            {**TEMPLATE, "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}},
            True,
            id="its hash",
        ),
        pytest.param(
            {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": {}}}, True, id="nothing"
        ),
        pytest.param({**TEMPLATE, "metadata": {"labels": {"app": "db"}}}, False, id="another label"),
        pytest.param({**TEMPLATE, "spec": {"containers": [{"name": "x"}]}}, False, id="another container"),
    ],
)
def test_templates_are_compared_by_what_they_say(other: Obj, same: bool) -> None:
    assert (essence(other) == essence(TEMPLATE)) is same
    assert (template_hash(other) == template_hash(TEMPLATE)) is same


def test_the_older_set_comes_first_and_names_decide_between_equals() -> None:
    sets: list[Obj] = [
        {"metadata": {"name": name, "creationTimestamp": time}}
        for name, time in [("b", "2026-01-02T00:00:00Z"), ("c", None), ("a", "2026-01-02T00:00:00Z")]
    ]
    assert [each["metadata"]["name"] for each in sorted(sets, key=age)] == ["c", "a", "b"]
