"""Server-side apply: what becomes of the object, who owns what, and when it is a conflict."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.schema.schema import Schema, schema_of
from allotment.api.status import BadRequest, Conflict, Invalid, StatusError
from allotment.apiserver.patch.apply import LAST_APPLIED, apply
from allotment.apiserver.patch.comparison import compare, fields_of
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet
from allotment.apiserver.patch.managed import NEVER_OWNED, parsed, track
from tests.apiserver.patch.pods import configurations, pods
from tests.apiserver.patch.schemas import POD
from tests.apiserver.patch.test_managed import at, owners, times
from tests.apiserver.patch.values import nested, values

DEPLOYMENT = schema_of("apps/v1", "Deployment")


def config(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}}
    return obj if spec is None else {**obj, "spec": spec}


def applied(
    live: dict[str, Any] | None,
    spec: Any,
    manager: str = "me",
    minute: int = 0,
    force: bool = False,
    **more: Any,
) -> dict[str, Any]:
    given_config = spec if isinstance(spec, dict) and "apiVersion" in spec else config(spec)
    schema = more.pop("schema", POD)
    version = more.pop("api_version", "v1")
    return apply(
        live, given_config, schema, manager, force=force, api_version=version, now=at(minute), **more
    )


def updated(live: dict[str, Any] | None, spec: Any, manager: str, minute: int = 0) -> dict[str, Any]:
    """The object after somebody replaced its spec."""
    new = {**deepcopy(live or config()), "spec": spec}
    new["metadata"]["uid"] = "u"
    track(new, live, POD, manager, api_version="v1", now=at(minute))
    return new


def test_applying_to_nothing_creates() -> None:
    created = applied(None, {"nodeName": "x"})
    assert created["spec"] == {"nodeName": "x"}
    assert owners(created) == {"me/Apply": [".spec.nodeName"]}
    assert times(created) == [at(0)]


def test_applying_the_same_again_changes_nothing_not_even_a_time() -> None:
    created = applied(None, {"nodeName": "x", "containers": [{"name": "c", "args": ["a"]}]})
    assert (
        applied(created, {"nodeName": "x", "containers": [{"name": "c", "args": ["a"]}]}, minute=5) == created
    )


def test_what_is_not_applied_any_more_goes() -> None:
    live = applied(
        None, {"nodeName": "x", "nodeSelector": {"a": "1", "b": "2"}, "containers": [{"name": "c"}]}
    )
    again = applied(live, {"nodeSelector": {"b": "2"}}, minute=1)
    assert again["spec"] == {"nodeSelector": {"b": "2"}}
    assert owners(again) == {"me/Apply": [".spec.nodeSelector.b"]}


def test_what_identifies_the_object_stays_when_nothing_else_of_its_metadata_does() -> None:
    live = applied(None, config({"nodeName": "x"}, namespace="n", labels={"a": "1"}))
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1, "creationTimestamp": at(0)}
    for change in (config({"nodeName": "x"}), {"apiVersion": "v1", "kind": "Pod"}):
        metadata = applied(live, change, minute=1)["metadata"]
        metadata.pop("managedFields", None)
        assert metadata == {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 1, "creationTimestamp": at(0),
        }  # fmt: skip


def test_what_somebody_else_owns_too_stays() -> None:
    live = applied(None, {"nodeName": "x"}, "one")
    live = applied(live, {"nodeName": "x"}, "two", 1)
    assert owners(live) == {"one/Apply": [".spec.nodeName"], "two/Apply": [".spec.nodeName"]}
    live = applied(live, {}, "one", 2)
    assert live["spec"] == {"nodeName": "x"}
    assert owners(live) == {"one/Apply": [".spec"], "two/Apply": [".spec.nodeName"]}


def test_a_new_owner_of_what_is_there_has_no_time_as_nothing_changed() -> None:
    live = applied(None, {"nodeName": "x"}, "one")
    both = applied(live, {"nodeName": "x"}, "two", 1)
    assert [(e["manager"], e.get("time")) for e in both["metadata"]["managedFields"]] == [
        ("two", None),
        ("one", at(0)),
    ]


def test_what_nobody_applied_stays() -> None:
    live = updated(None, {"nodeName": "x", "nodeSelector": {"a": "1"}}, "editor")
    live = applied(live, {"nodeSelector": {"b": "1"}}, minute=1)
    live = applied(live, config(), minute=2)
    assert live["spec"] == {"nodeName": "x", "nodeSelector": {"a": "1"}}


def test_changing_what_another_owns_is_a_conflict() -> None:
    live = updated(None, {"nodeName": "x"}, "kubectl-edit")
    with pytest.raises(Conflict) as caught:
        applied(live, {"nodeName": "y"})
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .spec.nodeName'
    )
    assert caught.value.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-edit" using v1',
            "field": ".spec.nodeName",
        }
    ]


def test_conflicts_are_told_by_manager() -> None:
    live = updated(None, {"nodeName": "x", "containers": [{"name": "c", "image": "1"}]}, "editor")
    live = applied(live, {"nodeSelector": {"a": "1"}}, "other")
    with pytest.raises(Conflict) as caught:
        applied(
            live, {"nodeName": "y", "nodeSelector": {"a": "2"}, "containers": [{"name": "c", "image": "2"}]}
        )
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "editor" using v1:\n- .spec.nodeName\n'
        '- .spec.containers[name="c"].image\nconflicts with "other":\n- .spec.nodeSelector.a'
    )


def test_force_takes_the_field() -> None:
    live = updated(None, {"nodeName": "x", "nodeSelector": {"a": "1"}}, "editor")
    taken = applied(live, {"nodeName": "y"}, minute=1, force=True)
    assert taken["spec"]["nodeName"] == "y"
    assert owners(taken) == {
        "me/Apply": [".spec.nodeName"],
        "editor/Update": [".spec", ".spec.nodeSelector", ".spec.nodeSelector.a"],
    }


def test_the_value_that_is_there_is_no_conflict() -> None:
    live = updated(None, {"nodeName": "x"}, "editor")
    assert owners(applied(live, {"nodeName": "x"}))["me/Apply"] == [".spec.nodeName"]


def test_what_nobody_kept_account_of_belongs_to_one_manager_from_then_on() -> None:
    live = {**config({"nodeName": "x"}), "metadata": {"name": "p", "uid": "u"}}
    with pytest.raises(Conflict, match="before-first-apply"):
        applied(live, {"nodeName": "y"})
    assert "before-first-apply/Update" in owners(applied(live, {"nodeName": "x"}))


def test_kubectl_may_take_over_what_its_client_side_apply_set() -> None:
    last = config({"nodeName": "x"})
    live = {**config({"nodeName": "x"}, annotations={LAST_APPLIED: json.dumps(last)}, uid="u")}
    track(live, None, POD, "kubectl-client-side-apply", api_version="v1", now=at(0))
    with pytest.raises(Conflict):
        applied(live, {"nodeName": "y"}, "me")
    moved = applied(live, {"nodeName": "y"}, "kubectl", 1)
    assert moved["spec"] == {"nodeName": "y"}
    assert json.loads(moved["metadata"]["annotations"][LAST_APPLIED]) == config({"nodeName": "y"})


def test_kubectl_may_not_take_over_what_was_changed_since() -> None:
    last = config({"nodeName": "z"})
    live = {**config({"nodeName": "x"}, annotations={LAST_APPLIED: json.dumps(last)}, uid="u")}
    track(live, None, POD, "editor", api_version="v1", now=at(0))
    with pytest.raises(Conflict):
        applied(live, {"nodeName": "y"}, "kubectl")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "[" * 10_000, '{"apiVersion": 7}'])
def test_a_last_applied_annotation_of_nonsense_allows_nothing(text: str) -> None:
    live = {**config({"nodeName": "x"}, annotations={LAST_APPLIED: text}, uid="u")}
    track(live, None, POD, "editor", api_version="v1", now=at(0))
    with pytest.raises(Conflict):
        applied(live, {"nodeName": "y"}, "kubectl")


ORDERS: dict[str, tuple[str, str, str]] = {  # live, applied, result
    "the same": ("abc", "abc", "abc"),
    "only some": ("abc", "b", "abc"),
    "the configuration's order wins": ("abc", "cba", "cba"),
    "new ones come where the configuration has them": ("ab", "axb", "axb"),
    "new ones at the end": ("ab", "x", "abx"),
    "others stay where they were": ("abcd", "db", "acdb"),
    "two moved among others": ("1a2b3", "ba", "12b3a"),
}


@pytest.mark.parametrize("case", ORDERS)
def test_a_merged_list_keeps_the_order_of_both(case: str) -> None:
    before, change, expected = ORDERS[case]
    live = updated(None, {"containers": [{"name": name, "image": "i"} for name in before]}, "editor")
    result = applied(live, {"containers": [{"name": name} for name in change]})
    assert "".join(each["name"] for each in result["spec"]["containers"]) == expected


def test_keys_with_defaults_find_their_element() -> None:
    live = updated(
        None, {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}, "editor"
    )
    result = applied(live, {"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]})
    assert result["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "name": "web"}
    ]


def test_atomic_values_are_taken_as_a_whole() -> None:
    live = applied(None, {"selector": {"matchLabels": {"a": "1"}}, "tolerations": [{"key": "a"}]})
    result = applied(live, {"selector": {"matchLabels": {"b": "1"}}, "tolerations": [{"key": "b"}]}, minute=1)
    assert result["spec"] == {"selector": {"matchLabels": {"b": "1"}}, "tolerations": [{"key": "b"}]}


def test_an_element_of_a_set_goes_when_it_is_not_applied_any_more() -> None:
    live = applied(None, config(finalizers=["a", "b"]))
    assert applied(live, config(finalizers=["b"]))["metadata"]["finalizers"] == ["b"]


def test_an_element_that_only_its_applier_owned_goes_but_not_one_with_fields_of_others() -> None:
    live = applied(None, {"containers": [{"name": "a"}, {"name": "b"}]}, "one")
    live = applied(live, {"containers": [{"name": "b", "image": "x"}]}, "two", 1)
    live = applied(live, config(), "one", 2)
    assert live["spec"]["containers"] == [{"name": "b", "image": "x"}]


REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "error decoding patch"),
    "metadata that is none": ({**config(), "metadata": []}, "error decoding patch"),
    "another version": ({**config(), "apiVersion": "v2"}, "invalid object type: /v2, Kind=Pod"),
    "no version": ({"metadata": {}}, "invalid object type: /, Kind="),
    "managed fields": (config(managedFields=[]), "metadata.managedFields must be nil"),
    "an unknown field": (
        {**config(), "foo": 1},
        "failed to create typed patch object (/p; /v1, Kind=Pod): .foo: field not declared in schema",
    ),
    "elements that are there twice": (
        config(finalizers=["a", "a"]),
        '.metadata.finalizers: duplicate entries for key [="a"]',
    ),
    "elements without a key": (
        config({"containers": [{}]}),
        ".spec.containers: element 0: associative list with keys",
    ),
    "a list for a map": (config({"nodeSelector": []}), ".spec.nodeSelector: expected map, got []"),
    "a map for a list": (config({"containers": {}}), ".spec.containers: expected list, got map[]"),
    "a number for a text": (config({"nodeName": 1}), ".spec.nodeName: expected string, got 1"),
    "too deep": (config({"opaque": nested(300)}), "nests deeper"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_configuration_that_makes_no_sense_is_refused(case: str) -> None:
    given_config, complaint = REFUSED[case]
    with pytest.raises(BadRequest) as caught:
        apply(None, given_config, POD, "me", force=False, api_version="v1", now=at(0))
    assert complaint in caught.value.message


def test_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match="invalid object type: apps/v1, Kind=Pod"):
        applied(None, {"apiVersion": "apps/v1", "kind": "Pod"}, schema=DEPLOYMENT, api_version="apps/v1")


def test_who_applies_must_say_who_it_is() -> None:
    with pytest.raises(Invalid, match="fieldManager: Required value: is required for apply patch"):
        applied(None, {}, "")


def test_live_and_configuration_stay_as_they_are() -> None:
    live = applied(None, {"containers": [{"name": "c", "env": [{"name": "E"}]}]})
    change = config({"containers": [{"name": "c", "env": [{"name": "F"}]}]})
    before = deepcopy((live, change))
    applied(live, change)
    assert (live, change) == before


def test_what_the_strategy_puts_back_is_not_owned_and_no_conflict() -> None:
    live = updated(None, {"nodeName": "x"}, "editor")
    status = {**config({"nodeName": "y"}), "status": {"phase": "a"}}
    result = applied(live, status, subresource="status", reset=FieldSet.of_names("spec"))
    assert owners(result)["me/Apply/status"] == [".status.phase"]


def test_applying_in_a_newer_version_goes_on_from_what_was_applied_in_the_older() -> None:
    """v2 calls ``nodeName`` ``host``."""
    newer = deepcopy(POD)
    properties = dict(newer.properties["spec"].properties)
    properties["host"] = properties.pop("nodeName")
    newer.properties["spec"].properties = properties

    def convert(obj: dict[str, Any], version: str) -> tuple[dict[str, Any], Schema] | None:
        old, new = ("nodeName", "host") if version == "v2" else ("host", "nodeName")
        spec = {(new if key == old else key): value for key, value in (obj.get("spec") or {}).items()}
        return {**obj, "spec": spec}, newer if version == "v2" else POD

    live = applied(None, {"nodeName": "x", "nodeSelector": {"a": "1"}})
    there = convert(live, "v2")
    assert there is not None
    change = {**config({"nodeSelector": {"a": "1"}}), "apiVersion": "v2"}
    result = applied(there[0], change, schema=newer, api_version="v2", convert=convert, minute=1)
    assert result["spec"] == {"nodeSelector": {"a": "1"}}
    assert owners(result) == {"me/Apply": [".spec.nodeSelector.a"]}


def test_a_deployment_is_applied_as_kubernetes_does() -> None:
    def deployment(**spec: Any) -> dict[str, Any]:
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    container = {"name": "c", "image": "1", "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}
    how: Any = {"schema": DEPLOYMENT, "api_version": "apps/v1"}
    live = applied(
        None, deployment(replicas=1, selector={"matchLabels": {"app": "d"}}, template=template), "ci", **how
    )
    with pytest.raises(Conflict, match=r'conflict with "ci": \.spec\.replicas'):
        applied(live, deployment(replicas=3), "autoscaler", **how)
    live = applied(live, deployment(replicas=3), "autoscaler", 1, force=True, **how)
    live = applied(
        live, deployment(selector={"matchLabels": {"app": "d"}}, template=template), "ci", 2, **how
    )
    assert live["spec"]["replicas"] == 3
    assert owners(live)["autoscaler/Apply"] == [".spec.replicas"]


MANAGERS = st.sampled_from(["one", "two", "three"])


@given(st.lists(st.tuples(configurations(), MANAGERS), min_size=1, max_size=5))
def test_what_was_applied_by_force_is_there_and_owned_and_applying_it_again_is_nothing(
    steps: list[tuple[Any, str]],
) -> None:
    live: dict[str, Any] | None = None
    for minute, (change, manager) in enumerate(steps):
        live = applied(live, change, manager, minute, force=True)
        bare = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        entries = parsed(live["metadata"].get("managedFields") or [])
        difference = compare(change, bare, POD)
        assert not difference.removed
        assert not difference.gained & fields_of(change, POD)
        mine = entries.get((manager, "Apply", "", ""))
        assert (mine.fields if mine is not None else EMPTY) == fields_of(change, POD) - NEVER_OWNED
        assert applied(live, change, manager, minute + 30) == live
        assert applied(live, change, manager, minute + 30, force=True) == live


@given(st.lists(st.tuples(configurations(), MANAGERS), min_size=1, max_size=5))
def test_what_nobody_applies_any_more_is_gone(steps: list[tuple[Any, str]]) -> None:
    live: dict[str, Any] | None = None
    for minute, (change, manager) in enumerate(steps):
        live = applied(live, change, manager, minute, force=True)
    for manager in ("one", "two", "three"):
        live = applied(live, {"apiVersion": "v1", "kind": "Pod"}, manager, 50)
    assert live is not None
    assert "managedFields" not in live["metadata"]
    assert {k: v for k, v in live.get("spec", {}).items() if v} == {}


@given(pods(), configurations())
def test_without_force_nobody_loses_a_field(pod: Any, change: Any) -> None:
    live = updated(None, pod["spec"], "editor")
    before = parsed(live["metadata"].get("managedFields") or [])
    try:
        after = parsed(applied(live, change, minute=1)["metadata"].get("managedFields") or [])
    except Conflict:
        return
    for owner, entry in before.items():
        assert after[owner].fields == entry.fields


@given(values(nulls=True), values(nulls=True), st.booleans())
def test_whatever_is_applied_only_a_status_error_comes_out(live: Any, change: Any, force: bool) -> None:
    base = {"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u"}}
    try:
        result = applied(
            {**base, "spec": {"opaque": live}}, {**base, "spec": {"opaque": change}}, force=force
        )
    except StatusError:
        return
    assert result["spec"]["opaque"] is not ...
