"""What claims get, held against a plain search over random volumes, claims and nodes; and what pods' volumes have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.core import Node
from allotment.api.meta import LabelSelector
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.volumes.likeness import labels_read, likeness
from allotment.scheduler.volumes.needs import BIND_CONFLICT, Needs, VolumeChoice, needs_of
from allotment.scheduler.volumes.pod_volumes import volumes_of
from allotment.scheduler.volumes.storage import KnownVolume, Storage
from tests.builders.typed import HOSTNAME, ZONE, node, term, where
from tests.scheduler.storage import DRIVER, LOCAL, MADE, claim, kind, pod, taken, volume
from tests.scheduler.volumes.naive_matching import choices

NODES = (node("a", zone="east"), node("b", zone="east"), node("c", zone="west"), node("d"))
CLAIMS = ("k", "l", "m")
_TERMS = st.sampled_from(
    [
        term(where(HOSTNAME, "In", "a")),
        term(where(HOSTNAME, "In", "b", "c")),
        term(where(HOSTNAME, "In", "a"), where(ZONE, "In", "west")),
        term(where(ZONE, "In", "east")),
        term(where(ZONE, "Exists")),
    ]
)
_MODES = st.sampled_from([("ReadWriteOnce",), ("ReadOnlyMany",), ("ReadWriteOnce", "ReadOnlyMany")])
_KINDS = st.sampled_from([LOCAL, MADE])
_SELECTORS = st.sampled_from([None, LabelSelector(match_labels={"tier": "fast"})])


@st.composite
def volumes(draw: st.DrawFn) -> list[PersistentVolume]:
    found = []
    for number in range(draw(st.integers(0, 7))):
        whose = draw(st.sampled_from(["", "", "", *CLAIMS, "stranger"]))
        uids = [None, f"uid-default-{whose}", "uid-of-another"]
        found.append(
            volume(
                f"v{number}",
                f"{draw(st.integers(1, 4))}Gi",
                terms=draw(st.lists(_TERMS, max_size=2)),
                labels=draw(st.sampled_from([{}, {"tier": "fast"}])),
                storage_class=draw(_KINDS),
                modes=draw(_MODES),
                phase=draw(st.sampled_from(["Available", "Available", "Pending", "Released"])),
                claim=whose,
                uid=draw(st.sampled_from(uids)) if whose else None,
                leaving=draw(st.sampled_from([False, False, False, True])),
                volume_mode=draw(st.sampled_from([None, "Filesystem", "Block"])),
            )
        )
    return found


@st.composite
def claims(draw: st.DrawFn) -> list[PersistentVolumeClaim]:
    names = draw(st.lists(st.sampled_from(CLAIMS), min_size=1, unique=True))
    return [
        claim(
            name,
            f"{draw(st.integers(1, 4))}Gi",
            storage_class=draw(_KINDS),
            modes=draw(_MODES),
            selector=draw(_SELECTORS),
            volume_mode=draw(st.sampled_from([None, "Filesystem"])),
        )
        for name in names
    ]


def stored(*objects: object) -> Storage:
    storage = Storage()
    for each in objects:
        storage.change(None, each)
    return storage


@settings(max_examples=150, deadline=None)
@given(there=volumes(), asked=claims(), maker=st.booleans())
def test_claims_get_what_a_plain_search_finds(
    there: Sequence[PersistentVolume], asked: Sequence[PersistentVolumeClaim], maker: bool
) -> None:
    classes = (kind(), kind(MADE, DRIVER) if maker else kind(MADE))
    storage = stored(*classes, *there, *asked)
    of = pod("p", *[each.metadata.name for each in asked])
    named = PodInfo(of).volumes
    assert named is not None
    needs = needs_of(of, named.claims, storage)
    for on in NODES:
        expected = choices(asked, there, on)
        lacking = {name for name, chosen in expected.items() if chosen is None}
        makeable = {each.metadata.name for each in asked if maker and each.spec.storage_class_name == MADE}
        found = needs.on(on)
        if lacking - makeable:
            assert found == BIND_CONFLICT
        else:
            assert isinstance(found, VolumeChoice)
            assert {each.metadata.name: name for each, name in found.given} == {
                name: chosen for name, chosen in expected.items() if chosen is not None
            }
            assert {each.metadata.name for each in found.made} == lacking
    storage.validate()


@settings(max_examples=50, deadline=None)
@given(there=volumes(), asked=claims())
def test_storage_forgets_what_went_and_what_was_given_back(
    there: Sequence[PersistentVolume], asked: Sequence[PersistentVolumeClaim]
) -> None:
    storage = stored(*there, *asked)
    for each in asked:
        storage.place(f"default/{each.metadata.name}", "a", "pod")
    storage.take_back("pod")
    assert storage.assumptions == 0
    for one in (*there, *asked):
        storage.change(one, None)
    assert not storage.volumes
    assert not storage.of_class
    assert not storage.claims
    storage.validate()


def test_what_the_server_shows_ends_what_was_assumed() -> None:
    mine, other = claim("c"), claim("d", storage_class=MADE)
    storage = stored(volume(), mine, other)
    storage.give("v", mine, "pod")
    storage.place("default/d", "a", "pod")
    storage.change(volume(), taken(volume(), mine))
    storage.change(other, claim("d", storage_class=MADE, node="a"))
    assert storage.assumptions == 0
    assert storage.meant_for(storage.volumes["v"], mine) is True


def _likeness(*names: str, storage: Storage) -> object:
    found = volumes_of(pod("p", *names))
    assert found is not None
    return likeness(found, storage)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(claim("c"), claim("d"), True, id="the same is asked for"),
        pytest.param(claim("c"), claim("d", "6Gi"), False, id="another size"),
        pytest.param(claim("c"), claim("d", storage_class=MADE), False, id="another class"),
        pytest.param(claim("c"), claim("d", bound="v"), False, id="one is bound"),
        pytest.param(claim("c"), claim("d", node="a"), False, id="one is to be made for a node"),
        pytest.param(
            claim("c", modes=["ReadWriteOncePod"]),
            claim("d", modes=["ReadWriteOncePod"]),
            False,
            id="for one pod alone",
        ),
    ],
)
def test_pods_are_alike_whatever_their_claims_are_called(
    one: PersistentVolumeClaim, other: PersistentVolumeClaim, alike: bool
) -> None:
    storage = stored(one, other, volume(claim="somebody"))
    assert (_likeness("c", storage=storage) == _likeness("d", storage=storage)) is alike


def test_a_volume_that_is_meant_for_one_claim_tells_it_from_others() -> None:
    storage = stored(claim("c"), claim("d"), volume(claim="d"))
    assert _likeness("c", storage=storage) != _likeness("d", storage=storage)


@pytest.mark.parametrize(
    ("there", "labels"),
    [
        pytest.param([claim("c", bound="v"), volume(zone="east")], {ZONE}, id="where its volume is"),
        pytest.param(
            [claim("c"), volume(on="a"), volume("w", zone="e")], {ZONE, HOSTNAME}, id="where one may be"
        ),
        pytest.param(
            [claim("c", storage_class="z"), kind("z", DRIVER, zones=["e"])],
            {ZONE},
            id="where one may be made",
        ),
        pytest.param([], set(), id="no claim"),
    ],
)
def test_which_labels_of_nodes_matter(there: Sequence[object], labels: set[str]) -> None:
    found = volumes_of(pod("p", "c"))
    assert found is not None
    assert labels_read(found, stored(*there)) == labels


def test_claims_that_ask_for_the_same_do_not_look_through_all_volumes_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod of fifty claims, for which there is one volume too few."""
    storage = Storage()
    for number in range(49):
        storage.change(None, volume(f"v{number:02}"))
    claims = [claim(f"c{number:02}") for number in range(50)]
    asked = Counter[str]()
    reached = KnownVolume.reached_from

    def counting(self: KnownVolume, node: Node) -> bool:
        asked[self.name] += 1
        return reached(self, node)

    monkeypatch.setattr(KnownVolume, "reached_from", counting)
    needs = Needs(storage, waiting=claims)
    assert isinstance(needs.on(node("n")), str)
    assert asked.total() <= 2 * 49
