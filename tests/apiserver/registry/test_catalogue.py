"""What is served under which path, and in which order versions are preferred."""

from __future__ import annotations

import random

from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource, version_rank
from allotment.apiserver.registry.resource import Resource, ServedVersion
from allotment.apiserver.store.record import Obj


def test_versions_in_kubernetes_order() -> None:
    ordered = [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
    ]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=version_rank) == ordered


def _up(obj: Obj) -> Obj:
    return {**obj, "apiVersion": "example.com/v2", "new": obj.get("old")}


def _down(obj: Obj) -> Obj:
    return {**obj, "apiVersion": "example.com/v1", "old": obj.get("new")}


THINGS = Resource(
    "example.com",
    "v2",
    "Thing",
    "things",
    True,
    versions=(ServedVersion("v1", _up, _down), ServedVersion("v3")),
)


def test_a_kind_is_found_in_each_of_its_versions() -> None:
    catalogue = ResourceCatalogue([THINGS])
    assert catalogue.groups() == {"example.com": ["v3", "v2", "v1"]}
    hub, old, new = (catalogue.find("example.com", version, "things") for version in ("v2", "v1", "v3"))
    assert isinstance(hub, ServedResource)  # for types
    assert isinstance(old, ServedResource)
    assert isinstance(new, ServedResource)
    assert (hub.hub, old.hub, new.hub) == (True, False, False)
    assert old.to_hub({"old": 1})["new"] == 1
    assert new.from_hub({"apiVersion": "example.com/v2", "x": 1}) == {"apiVersion": "example.com/v3", "x": 1}
    assert catalogue.find("example.com", "v9", "things") is None
    assert catalogue.of_kind("example.com/v1", "Thing") is old


def test_what_depends_on_the_whole_is_told_of_changes() -> None:
    catalogue = ResourceCatalogue()
    seen = {catalogue.changes}
    catalogue.add(THINGS)
    seen.add(catalogue.changes)
    catalogue.add(THINGS)  # as a definition that was changed
    seen.add(catalogue.changes)
    catalogue.remove(THINGS.id)
    seen.add(catalogue.changes)
    assert len(seen) == 4
    assert catalogue.groups() == {}
