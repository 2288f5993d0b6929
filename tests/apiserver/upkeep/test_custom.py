"""Kinds that come and go with their definitions."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from allotment.api.status import Forbidden, Invalid
from allotment.apiserver.registry import kinds as package
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource, found_in
from allotment.apiserver.registry.conditions import condition
from allotment.apiserver.registry.kinds.custom_resource_definition import CLEANUP, DEFINITIONS
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Obj
from allotment.apiserver.store.store import Store
from allotment.apiserver.upkeep.custom import PER_TURN, CustomKinds
from allotment.apiserver.upkeep.task import LARGE_UPKEEP
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, array, definition, obj
from tests.apiserver.upkeep.rig import Rig, with_rig

WIDGETS = "widgets.example.com"


def kinds(rig: Rig) -> CustomKinds:
    return CustomKinds(rig.writes, rig.catalogue, clock=rig.clock)


def define(rig: Rig, job: CustomKinds, crd: Obj | None = None) -> Obj:
    crd = crd or definition()
    rig.create(DEFINITIONS, "", crd)
    job.settle()
    return rig.get(DEFINITIONS, "", crd["metadata"]["name"])


def told(crd: Obj, type_: str) -> tuple[str, str, str]:
    found = condition(crd, type_)
    assert found is not None, type_
    return found["status"], found["reason"], found["message"]


def served(rig: Rig, version: str = "v1", plural: str = "widgets") -> ServedResource:
    found = rig.catalogue.find("example.com", version, plural)
    assert isinstance(found, ServedResource)
    return found


def widget(rig: Rig, name: str = "a", **spec: Any) -> Obj:
    return rig.create(WIDGETS, "ns", {"metadata": {"name": name}, "spec": spec})


def test_a_definition_is_established_and_served(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        changes = rig.catalogue.changes
        crd = define(rig, job)
        assert told(crd, "NamesAccepted") == ("True", "NoConflicts", "no conflicts found")
        assert told(crd, "Established") == (
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        )
        assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
        assert served(rig).resource.kind == "Widget"
        assert rig.catalogue.changes > changes
        assert widget(rig, size=1)["metadata"]["generation"] == 1
        with pytest.raises(Invalid):
            widget(rig, "b", size="big")

    with_rig(tmp_path, scenario)


def test_kinds_are_there_again_after_a_restart(tmp_path: Path) -> None:
    async def first(rig: Rig) -> None:
        define(rig, kinds(rig))
        widget(rig, size=1)

    with_rig(tmp_path, first)

    async def again() -> None:
        store = Store.open(tmp_path / "store.db")
        try:
            catalogue = ResourceCatalogue(found_in(package))
            CustomKinds(Writes(store), catalogue)
            found = catalogue.find("example.com", "v1", "widgets")
            assert isinstance(found, ServedResource)
            record = store.head(found.key("ns", "a"))
            assert record is not None
            assert record.load()["spec"] == {"size": 1}
        finally:
            await store.close()

    asyncio.run(again())


def test_names_are_given_once_and_again_when_they_are_free(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        first = definition()
        first["spec"]["names"]["shortNames"] = ["w"]
        define(rig, job, first)
        rival = definition("gadget")
        rival["spec"]["names"] |= {"kind": "Widget", "shortNames": ["w"]}
        crd = define(rig, job, rival)
        assert told(crd, "NamesAccepted") == ("False", "ListKindConflict", '"WidgetList" is already in use')
        assert told(crd, "Established") == ("False", "NotAccepted", "not all names are accepted")
        assert crd["status"]["acceptedNames"] == {"plural": "gadgets", "kind": ""}
        assert rig.catalogue.find("example.com", "v1", "gadgets") is None
        rig.delete(DEFINITIONS, "", WIDGETS)
        job.settle()
        assert rig.find(DEFINITIONS, "", WIDGETS) is None
        crd = rig.get(DEFINITIONS, "", "gadgets.example.com")
        assert told(crd, "Established")[0] == "True"
        assert served(rig, plural="gadgets").resource.short_names == ("w",)

    with_rig(tmp_path, scenario)


def test_a_deleted_definition_takes_its_objects_along(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        define(rig, job)
        for number in range(PER_TURN + 5):
            widget(rig, f"w{number}")
        rig.delete(DEFINITIONS, "", WIDGETS)
        crd = rig.get(DEFINITIONS, "", WIDGETS)
        assert crd["metadata"]["finalizers"] == [CLEANUP]
        assert told(crd, "Terminating")[1] == "InstanceDeletionPending"
        with pytest.raises(
            Forbidden, match="create not allowed while custom resource definition is terminating"
        ):
            widget(rig, "late")
        job.settle()
        assert rig.names(WIDGETS) == []
        assert rig.find(DEFINITIONS, "", WIDGETS) is None
        assert rig.catalogue.resource(WIDGETS) is None

    with_rig(tmp_path, scenario)


def test_it_waits_for_finalizers(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        define(rig, job)
        rig.create(WIDGETS, "ns", {"metadata": {"name": "held", "finalizers": ["simple"]}})
        rig.delete(DEFINITIONS, "", WIDGETS)
        job.settle()
        crd = rig.get(DEFINITIONS, "", WIDGETS)
        assert told(crd, "Terminating") == (
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        rig.edit(WIDGETS, "ns", "held", lambda obj: obj["metadata"].pop("finalizers"))
        job.settle()
        assert rig.find(DEFINITIONS, "", WIDGETS) is None

    with_rig(tmp_path, scenario)


def test_a_changed_schema_holds_for_what_is_stored(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        define(rig, job, definition(schema=obj(spec=obj(size=WHOLE, old=TEXT))))
        stored = widget(rig, size=1, old="x")
        assert served(rig).hub  # bytes go out as they are stored

        def change(crd: Obj) -> None:
            size, color = {"type": "integer", "minimum": 5}, {"type": "string", "default": "blue"}
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = obj(spec=obj(size=size, color=color))

        rig.edit(DEFINITIONS, "", WIDGETS, change)
        shown = served(rig)
        assert not shown.hub
        assert shown.from_hub(stored)["spec"] == {"size": 1, "color": "blue"}
        rig.edit(WIDGETS, "ns", "a", lambda obj: obj["metadata"].update(labels={"k": "v"}))  # ratcheting
        assert rig.get(WIDGETS, "ns", "a")["metadata"]["generation"] == 1
        with pytest.raises(Invalid):
            rig.edit(WIDGETS, "ns", "a", lambda obj: obj["spec"].update(size=2))

    with_rig(tmp_path, scenario)


def two_versions() -> Obj:
    crd = definition(schema=obj(spec=obj(size=WHOLE, one={"type": "string", "default": "1"})))
    second = deepcopy(crd["spec"]["versions"][0]) | {"name": "v2", "storage": False, "deprecated": True}
    second["schema"] = {"openAPIV3Schema": obj(spec=obj(size=WHOLE, two={"type": "string", "default": "2"}))}
    crd["spec"]["versions"].append(second)
    return crd


def test_versions_differ_in_name_and_in_what_they_know(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        define(rig, kinds(rig), two_versions())
        other = served(rig, "v2")
        body = {
            "apiVersion": "example.com/v2",
            "kind": "Widget",
            "metadata": {"name": "a"},
            "spec": {"size": 1},
        }
        rig.writes.create(other, "ns", body, rig.call())
        stored = rig.get(WIDGETS, "ns", "a")
        assert (stored["apiVersion"], stored["spec"]["size"]) == ("example.com/v1", 1)
        assert other.from_hub(stored)["apiVersion"] == "example.com/v2"
        assert other.warning == "example.com/v2 Widget is deprecated"

    with_rig(tmp_path, scenario)


def test_a_built_in_version_of_a_group_is_not_taken_over(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        crd = definition()
        crd["metadata"] = {
            "name": "widgets.resource.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        }
        crd["spec"]["group"] = "resource.k8s.io"
        define(rig, kinds(rig), crd)
        assert rig.catalogue.find("resource.k8s.io", "v1", "widgets") is None
        assert rig.catalogue.find("resource.k8s.io", "v1", "resourceclaims") is not None

    with_rig(tmp_path, scenario)


def test_others_are_told_when_kinds_change(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        calls: list[bool] = []
        job = CustomKinds(rig.writes, rig.catalogue, lambda: calls.append(WIDGETS in {r.id for r in rig.catalogue.resources}))  # fmt: skip
        define(rig, job)
        rig.delete(DEFINITIONS, "", WIDGETS)
        job.settle()
        assert calls[0] is True
        assert calls[-1] is False

    with_rig(tmp_path, scenario)


def test_sets_and_maps_hold_nothing_twice(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        tags = array(TEXT, **{"x-kubernetes-list-type": "set"})
        parts = array(
            obj("id", id=TEXT), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
        )
        define(rig, kinds(rig), definition(schema=obj(spec=obj(tags=tags, parts=parts))))
        with pytest.raises(Invalid, match=r'spec.tags\[2\]: Duplicate value: "a"'):
            widget(rig, tags=["a", "b", "a", "a"])
        with pytest.raises(Invalid, match=r'spec.parts\[1\]: Duplicate value: \{"id":"x"\}'):
            widget(rig, parts=[{"id": "x"}, {"id": "x"}])

    with_rig(tmp_path, scenario)


ODD_STATUSES: dict[str, Obj] = {
    "a condition without a type": {"conditions": [{"status": "True"}, {}]},
    "no conditions": {"conditions": None},
    "names of another kind": {
        "conditions": [{"type": "Established", "status": "True"}],
        "acceptedNames": {"plural": "configmaps", "kind": "ConfigMap"},
    },
    "established without names": {"conditions": [{"type": "Established", "status": "True"}]},
    "nothing": {},
}


@pytest.mark.parametrize("status", ODD_STATUSES.values(), ids=ODD_STATUSES)
def test_a_definition_goes_whatever_its_status_says(status: Obj, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        define(rig, job)
        widget(rig, size=1)
        served_as = rig.served(DEFINITIONS)
        prepared = rig.writes.prepare_change(
            served_as, "", WIDGETS, lambda crd: {**crd, "status": deepcopy(status)}, rig.call(), "status"
        )
        rig.writes.commit(prepared)
        assert rig.served("configmaps").resource.kind == "ConfigMap"
        job.settle()
        assert served(rig).resource.kind == "Widget", "the names are given again"
        rig.delete(DEFINITIONS, "", WIDGETS)
        job.settle()
        assert rig.find(DEFINITIONS, "", WIDGETS) is None
        assert not rig.names(WIDGETS)

    with_rig(tmp_path, scenario)


def test_a_large_definition_goes_once_its_objects_are_gone(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = kinds(rig)
        crd = definition()
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "x" * 2 * LARGE_UPKEEP
        define(rig, job, crd)
        for number in range(PER_TURN + 1):
            widget(rig, f"w{number}")
        rig.edit(WIDGETS, "ns", "w7", lambda obj: obj["metadata"].update(finalizers=["example.com/hold"]))
        rig.delete(DEFINITIONS, "", WIDGETS)
        job.settle()
        assert told(rig.get(DEFINITIONS, "", WIDGETS), "Terminating")[:2] == (
            "True",
            "InstanceDeletionInProgress",
        )
        assert rig.names(WIDGETS) == ["w7"]
        rig.edit(WIDGETS, "ns", "w7", lambda obj: obj["metadata"].pop("finalizers"))
        job.settle()
        assert rig.find(DEFINITIONS, "", WIDGETS) is None
        assert rig.catalogue.find("example.com", "v1", "widgets") is None

    with_rig(tmp_path, scenario)
