"""What becomes of objects because of who owns them: a table of families, and random ones."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.store.record import Key, Record
from allotment.apiserver.upkeep.ownership import (
    FOREGROUND,
    ORPHAN,
    DeleteObject,
    DropOwners,
    Ownership,
    Policy,
    RemoveFinalizer,
    Step,
    StopBlocking,
)


def record(uid: str, *owners: str, finalizers: Iterable[str] = (), deleting: bool = False) -> Record:
    """An object named like its uid. An owner written with ``!`` is blocked by it."""
    metadata: dict[str, object] = {
        "name": uid,
        "uid": uid,
        "ownerReferences": [
            {
                "uid": owner.rstrip("!"),
                "name": owner,
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "blockOwnerDeletion": "!" in owner,
            }
            for owner in owners
        ],
        "finalizers": list(finalizers),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Record(Key("configmaps", "ns", uid), 1, msgspec.json.encode({"metadata": metadata}))


def family(*records: Record) -> Ownership:
    ownership = Ownership(lambda member, owner: True)
    for each in records:
        ownership.changed(None, each)
    ownership.validate()
    return ownership


def told(step: Step) -> str:
    match step:
        case DeleteObject(member, policy):
            return f"delete {member.uid} {policy.value}"
        case DropOwners(member, owners):
            return f"drop {' '.join(sorted(owners))} from {member.uid}"
        case StopBlocking(member):
            return f"unblock {member.uid}"
        case RemoveFinalizer(member, finalizer):
            return f"take {finalizer} off {member.uid}"


def steps(ownership: Ownership, uid: str) -> list[str]:
    return [told(step) for step in ownership.steps(uid)]


WAITING: dict[str, Any] = {"finalizers": [FOREGROUND], "deleting": True}


@pytest.mark.parametrize(
    ("records", "uid", "expected"),
    [
        pytest.param([record("a"), record("b", "a")], "b", [], id="an owner that is there"),
        pytest.param([record("b", "a")], "b", ["delete b Background"], id="an owner that is gone"),
        pytest.param(
            [record("c"), record("b", "a", "c")], "b", ["drop a from b"], id="one owner of two is gone"
        ),
        pytest.param([record("b", "a", deleting=True)], "b", [], id="gone already, all but"),
        pytest.param([record("b")], "b", [], id="nobody's"),
        pytest.param(
            [record("b", "a", finalizers=[ORPHAN])],
            "b",
            ["delete b Orphan"],
            id="its own finalizer decides how",
        ),
        pytest.param(
            [record("a", **WAITING), record("b", "a!")], "a", [], id="an owner waits for what blocks it"
        ),
        pytest.param(
            [record("a", **WAITING), record("b", "a")],
            "a",
            ["take foregroundDeletion off a"],
            id="and not for what does not",
        ),
        pytest.param(
            [record("a", **WAITING), record("b", "a!")],
            "b",
            ["delete b Background"],
            id="what blocks a waiting owner goes",
        ),
        pytest.param(
            [record("a", **WAITING), record("b", "a!"), record("c", "b")],
            "b",
            ["delete b Foreground"],
            id="in the foreground, if it has dependents itself",
        ),
        pytest.param(
            [record("a", **WAITING), record("b", "a!"), record("c", "b!", **WAITING)],
            "b",
            ["unblock b", "delete b Foreground"],
            id="a circle of waiting is broken",
        ),
        pytest.param(
            [record("a", **WAITING), record("c"), record("b", "a!", "c")],
            "b",
            ["drop a from b"],
            id="another owner keeps it",
        ),
        pytest.param(
            [record("a", finalizers=[ORPHAN], deleting=True), record("b", "a"), record("c", "a", "b")],
            "a",
            ["drop a from b", "drop a from c", "take orphan off a"],
            id="an owner lets go of its dependents",
        ),
    ],
)
def test_what_becomes_of_an_object(records: list[Record], uid: str, expected: list[str]) -> None:
    assert steps(family(*records), uid) == expected


def test_an_owner_of_a_kind_that_is_not_served_keeps_its_dependents() -> None:
    ownership = Ownership(lambda member, owner: False)
    ownership.changed(None, record("b", "a"))
    assert steps(ownership, "b") == []


def due(ownership: Ownership) -> list[str]:
    found = []
    while (uid := ownership.due()) is not None:
        found.append(uid)
    return found


def test_dependents_are_looked_at_when_their_owner_goes() -> None:
    owner = record("a")
    ownership = family(owner, record("b", "a"), record("c"))
    due(ownership)
    ownership.changed(owner, None)
    assert due(ownership) == ["b"]


def test_a_waiting_owner_is_looked_at_when_a_dependent_goes() -> None:
    dependent = record("b", "a!")
    ownership = family(record("a", **WAITING), dependent)
    due(ownership)
    ownership.changed(dependent, None)
    assert due(ownership) == ["a"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([record("a"), record("b", "a!")], [], id="an owner that stays"),
        pytest.param([record("b", "a")], ["b", "a"], id="an owner that is not there"),
        pytest.param([record("a", **WAITING), record("b", "a")], ["a", "b"], id="an owner that waits"),
        pytest.param([record("a", **WAITING)], ["a"], id="no owner, but going"),
    ],
)
def test_an_object_is_looked_at_if_something_could_be_done_about_it(
    records: list[Record], expected: list[str]
) -> None:
    assert due(family(*records)) == expected


def test_an_owner_that_an_object_no_longer_has_is_looked_at() -> None:
    before, after = record("b", "a", "c"), record("b", "a")
    ownership = family(record("a"), record("c"), before)
    ownership.changed(before, after)
    assert "c" in due(ownership)


FAMILIES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["0", "1", "2", "3", "9", "0!", "1!", "2!"]), max_size=3),
        st.sampled_from([(), (FOREGROUND,), (ORPHAN,)]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def carried_out(current: dict[str, Record], step: Step) -> dict[str, Record]:
    """The simplest server there is: it does what a step says and nothing else."""
    uid = step.member.uid
    metadata = json.loads(current[uid].data)["metadata"]
    match step:
        case DeleteObject(policy=policy):
            finalizers = [f for f in metadata["finalizers"] if f not in (FOREGROUND, ORPHAN)]
            finalizers += {Policy.FOREGROUND: [FOREGROUND], Policy.ORPHAN: [ORPHAN]}.get(policy, [])
            metadata |= {"finalizers": finalizers, "deletionTimestamp": "now"}
        case DropOwners(owners=owners):
            metadata["ownerReferences"] = [r for r in metadata["ownerReferences"] if r["uid"] not in owners]
        case StopBlocking():
            for reference in metadata["ownerReferences"]:
                reference["blockOwnerDeletion"] = False
        case RemoveFinalizer(finalizer=finalizer):
            metadata["finalizers"] = [f for f in metadata["finalizers"] if f != finalizer]
    after = Record(current[uid].key, 1, msgspec.json.encode({"metadata": metadata}))
    if metadata.get("deletionTimestamp") and not metadata["finalizers"]:
        return {key: value for key, value in current.items() if key != uid}
    return {**current, uid: after}


@given(FAMILIES)
def test_every_family_settles_with_no_orphan_that_should_have_gone(
    drawn: list[tuple[list[str], tuple[str, ...], bool]],
) -> None:
    current = {
        str(number): record(
            str(number), *owners, finalizers=finalizers, deleting=deleting and bool(finalizers)
        )
        for number, (owners, finalizers, deleting) in enumerate(drawn)
    }
    ownership = family(*current.values())
    for _ in range(200):
        uid = ownership.due()
        if uid is None:
            break
        for step in list(ownership.steps(uid)):
            before = current.get(step.member.uid)
            if before is None:
                continue
            current = carried_out(current, step)
            ownership.changed(before, current.get(step.member.uid))
            ownership.validate()
    assert ownership.due() is None, "it never settles"
    for uid in current:
        assert steps(ownership, uid) == [], f"{uid} was forgotten"
