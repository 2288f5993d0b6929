"""What is seen of servers that have less than the embedded one: no ResourcePool, older versions, no devices at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.client.client import Client
from allotment.client.transport import Call, Reply
from allotment.insight.errors import Failure
from allotment.insight.snapshot import USE, Snapshot, look_at
from tests.client.script import Script, refusal, reply
from tests.insight.fleet import Json, pool_counts, reporting_node, slice_of, team_claim

V1, V1BETA2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"


@dataclass
class Shelf:
    """What a server has of a kind, for whom it may be listed."""

    api_version: str
    items: tuple[Json, ...] = ()
    denied: bool = False  # in all namespaces
    only: tuple[str, ...] = ()  # then it may be listed in these
    expires: bool = False  # before the second page


class Foreign(Script):
    """A server with shelves by plural."""

    def __init__(self, shelves: Mapping[str, Shelf]) -> None:
        super().__init__()
        self.shelves = shelves

    async def call(self, call: Call) -> Reply:
        if call.path in ("/api", "/apis"):
            return reply(200, self._discovery(core=call.path == "/api"))
        parts = call.path.split("/")
        if "leases" in parts:
            return refusal(404, "NotFound")
        shelf, namespace = self.shelves[parts[-1]], parts[-2] if "namespaces" in parts else ""
        assert shelf.api_version in call.path
        if shelf.denied and namespace not in shelf.only:
            return refusal(403, "Forbidden")
        if "continue" in call.query:
            return refusal(410, "Expired")
        items = [
            each for each in shelf.items if not namespace or each["metadata"].get("namespace") == namespace
        ]
        meta = {"resourceVersion": "1"}
        if shelf.expires and "limit" in call.query:
            meta, items = {**meta, "continue": "more"}, items[:1]
        return reply(200, {"kind": "List", "metadata": meta, "items": items})

    def _discovery(self, *, core: bool) -> Json:
        groups: dict[str, list[Json]] = {}
        for plural, shelf in self.shelves.items():
            if ("/" not in shelf.api_version) is core:
                groups.setdefault(shelf.api_version, []).append(
                    {"resource": plural, "responseKind": {"kind": "X"}, "scope": "Cluster", "verbs": ["list"]}
                )
        return {
            "kind": "APIGroupDiscoveryList",
            "items": [
                {
                    "metadata": {"name": version.rpartition("/")[0]},
                    "versions": [{"version": version.rpartition("/")[2], "resources": resources}],
                }
                for version, resources in groups.items()
            ],
        }


def look(*kinds: type[ApiStruct], namespaces: tuple[str, ...] = ("team-a",), **shelves: Shelf) -> Snapshot:
    return asyncio.run(look_at(Client(Foreign(shelves)), kinds or USE, namespaces))


SLICES = Shelf(V1, (slice_of("node-1", "a", "b", "c"),))
CLAIMS = Shelf(V1, (team_claim("mine", "a"), team_claim("theirs", "b", namespace="team-b")))
MINE = Shelf(V1, CLAIMS.items, denied=True, only=("team-a",))


def states(seen: Snapshot) -> list[str]:
    return [str(device.state) for pool in seen.pools() for device in pool.devices]


def test_a_server_without_resource_pools_suffices_for_who_sees_all_claims() -> None:
    seen = look(resourceslices=SLICES, resourceclaims=CLAIMS)
    assert states(seen) == ["Allocated", "Allocated", "Available"]
    assert seen.notes == []


def test_without_resource_pools_what_others_hold_is_unknown() -> None:
    seen = look(resourceslices=SLICES, resourceclaims=MINE)
    assert states(seen) == ["Allocated", "Unknown", "Unknown"]
    assert seen.notes == [
        "no ResourcePools can be read: what other claims hold is unknown",
        "you may list resourceclaims only in namespace team-a, not in all; -n names others",
    ]


@pytest.mark.parametrize("claims", [CLAIMS, MINE], ids=["all claims", "some"])
def test_resource_pools_that_may_not_be_read_are_missed_only_without_all_claims(claims: Shelf) -> None:
    pools = Shelf(V1BETA2, (pool_counts("node-1", 3, 2, 1),), denied=True)
    seen = look(resourceslices=SLICES, resourceclaims=claims, resourcepools=pools)
    assert sum("ResourcePools" in note for note in seen.notes) == (claims is MINE)
    assert not any("resourcepools" in note for note in seen.notes)


def test_resource_pools_fill_in_what_is_hidden() -> None:
    pools = Shelf(V1BETA2, (pool_counts("node-1", 3, 2, 1),))
    (pool,) = look(resourceslices=SLICES, resourceclaims=MINE, resourcepools=pools).pools()
    assert (pool.summary.allocated, pool.summary.available, pool.hidden) == (2, 1, 1)


def test_claims_of_several_namespaces() -> None:
    both = Shelf(V1, CLAIMS.items, denied=True, only=("team-a", "team-b"))
    seen = look(resourceslices=SLICES, resourceclaims=both, namespaces=("team-a", "team-b", "team-c"))
    assert seen.namespaces == ("team-a", "team-b")
    assert states(seen) == ["Allocated", "Allocated", "Unknown"]
    assert "you may not list resourceclaims in namespace team-c; -n names others" in seen.notes


def test_older_servers_have_the_same_in_v1beta2() -> None:
    old = [{**each, "apiVersion": V1BETA2} for each in (*SLICES.items, *CLAIMS.items)]
    seen = look(resourceslices=Shelf(V1BETA2, (old[0],)), resourceclaims=Shelf(V1BETA2, tuple(old[1:])))
    assert states(seen) == ["Allocated", "Allocated", "Available"]


def test_changes_that_come_faster_than_pages_do_no_harm() -> None:
    claims = Shelf(V1, CLAIMS.items, expires=True)
    assert len(look(ResourceClaim, resourceslices=SLICES, resourceclaims=claims).claims) == 2


def test_nodes_that_may_not_be_listed_are_noted_with_what_that_means() -> None:
    seen = look(*USE, Node, resourceslices=SLICES, resourceclaims=CLAIMS, nodes=Shelf("v1", denied=True))
    assert not seen.sees(Node)
    assert seen.notes == ["you may not list nodes: whether nodes exist and what they reach is unknown"]
    assert look(Node, resourceslices=SLICES, nodes=Shelf("v1", (reporting_node("n"),))).sees(Node)


@pytest.mark.parametrize(
    ("shelves", "words"),
    [
        ({}, "the server has no resource.k8s.io/v1 or v1beta2"),
        (
            {"resourceslices": Shelf(V1, denied=True), "resourceclaims": CLAIMS},
            "you may not list resourceslices, and there are no resourcepools",
        ),
    ],
    ids=["no devices", "no rights"],
)
def test_where_there_is_nothing_to_tell_of(shelves: dict[str, Shelf], words: str) -> None:
    with pytest.raises(Failure, match=words):
        asyncio.run(look_at(Client(Foreign(shelves)), (ResourceSlice,), ()))
