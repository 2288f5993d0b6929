"""What follows from the state of a claim alone: its name, its finalizer, its next step."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.claim_marks import FINALIZER, SEMANTIC_FINALIZER
from allotment.api.codec import decode
from allotment.api.core import Pod, PodSpec, PodStatus
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from allotment.controllers.claims.claim_release import DropClaim, ReleaseClaim, Step, Unprotect, next_step
from allotment.controllers.claims.claim_users import (
    claim_name,
    finalizer_for,
    is_done,
    stays_allocated,
)

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABELS = st.text("az-09", min_size=1, max_size=63).map(lambda text: f"a{text[1:]}".rstrip("-"))
_NAMES = st.lists(_LABELS, min_size=1, max_size=5).map(lambda labels: ".".join(labels)[:253].strip("-."))
_UIDS = st.uuids().map(str)


@given(_NAMES, _LABELS, _UIDS)
def test_a_claims_name_is_one(owner: str, entry: str, uid: str) -> None:
    name = claim_name(owner, entry, uid)
    assert len(name) <= 63
    assert _SUBDOMAIN.fullmatch(name)
    assert name == claim_name(owner, entry, uid)


@given(_NAMES, st.lists(st.tuples(_LABELS, _UIDS), min_size=2, max_size=20, unique=True))
def test_other_owners_and_entries_have_other_claims(owner: str, others: list[tuple[str, str]]) -> None:
    assert len({claim_name(owner, entry, uid) for entry, uid in others}) == len(others)


def test_a_short_name_can_be_read() -> None:
    assert re.fullmatch(r"web\.1-gpu-[0-9a-f]{10}", claim_name("web.1", "gpu", "u"))


FOREIGN = "example.com/mine"


def used_claim(
    *users: str,
    allocated: bool = False,
    deleted: bool = False,
    finalizers: tuple[str, ...] = (FINALIZER,),
    mode: str = "",
) -> ResourceClaim:
    reserved = tuple(ResourceClaimConsumerReference(resource="pods", name=user, uid=user) for user in users)
    allocation = AllocationResult() if allocated or users else None
    spec = decode(ResourceClaimSpec, carried(mode)) if mode else ResourceClaimSpec()
    return ResourceClaim(
        metadata=ObjectMeta(finalizers=finalizers, deletion_timestamp="now" if deleted else None),
        spec=spec,
        status=ResourceClaimStatus(allocation=allocation, reserved_for=reserved),
    )


def carried(mode: str) -> dict[str, Any]:
    parameters = {"kind": "ResourceClaimSpec", "allocationMode": mode}
    return {
        "devices": {"config": [{"opaque": {"driver": "v1alpha2.allotment.dev", "parameters": parameters}}]}
    }


STEPS: dict[str, tuple[ResourceClaim, set[str], bool, Step | None]] = {
    "pending": (used_claim(), set(), False, None),
    "in use": (used_claim("p", "q"), set(), False, None),
    "one of two users went": (used_claim("p", "q"), {"p"}, False, ReleaseClaim(("p",), deallocate=False)),
    "the last user went": (
        used_claim("p", "q"),
        {"p", "q"},
        False,
        ReleaseClaim(("p", "q"), deallocate=True),
    ),
    "allocated ahead of any use": (used_claim(allocated=True), set(), False, None),
    "Immediate, and the last user went": (
        used_claim("p", mode="Immediate", finalizers=(SEMANTIC_FINALIZER,)),
        {"p"},
        False,
        ReleaseClaim(("p",), deallocate=False),
    ),
    "a semantic claim's usual mode, and the last user went": (
        used_claim("p", mode="WaitForFirstConsumer", finalizers=(SEMANTIC_FINALIZER,)),
        {"p"},
        False,
        ReleaseClaim(("p",), deallocate=True),
    ),
    # not allocated by a scheduler that keeps to the rules: its allocation is not ours
    "the last user went, no finalizer": (
        used_claim("p", finalizers=()),
        {"p"},
        False,
        ReleaseClaim(("p",), deallocate=False),
    ),
    "its pod is done": (used_claim("p"), {"p"}, True, DropClaim()),
    "its pod is done before it was allocated": (used_claim(), set(), True, DropClaim()),
    "its pod is done but another uses it": (
        used_claim("p", "q"),
        {"p"},
        True,
        ReleaseClaim(("p",), deallocate=False),
    ),
    "its pod is done and it is being deleted": (used_claim("p", deleted=True), {"p"}, True, Unprotect(())),
    "deleted, never allocated": (used_claim(deleted=True), set(), False, Unprotect(())),
    "deleted, allocated ahead of any use": (
        used_claim(deleted=True, allocated=True),
        set(),
        False,
        Unprotect(()),
    ),
    "deleted in use": (used_claim("p", deleted=True), set(), False, None),
    "deleted, one of two users went": (
        used_claim("p", "q", deleted=True),
        {"q"},
        False,
        ReleaseClaim(("q",), deallocate=False),
    ),
    "deleted, held by another finalizer too": (
        used_claim("p", deleted=True, finalizers=(FOREIGN, FINALIZER)),
        {"p"},
        False,
        ReleaseClaim(("p",), deallocate=True),
    ),
    "deleted and deallocated, held by another finalizer too": (
        used_claim(deleted=True, finalizers=(FOREIGN, FINALIZER)),
        set(),
        False,
        Unprotect((FOREIGN,)),
    ),
    "deleted, held by another finalizer only": (
        used_claim(deleted=True, finalizers=(FOREIGN,)),
        set(),
        False,
        None,
    ),
    "deleted, with both finalizers": (
        used_claim(deleted=True, finalizers=(SEMANTIC_FINALIZER, FINALIZER)),
        set(),
        False,
        Unprotect(()),
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_next_step(case: str) -> None:
    found, gone, owner_done, step = STEPS[case]
    assert next_step(found, gone, owner_done=owner_done) == step


@given(
    st.lists(st.sampled_from("pqrs"), unique=True),
    st.sets(st.sampled_from("pqrs")),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sets(st.sampled_from((FINALIZER, SEMANTIC_FINALIZER, FOREIGN))),
)
def test_no_step_takes_from_who_uses_it(
    users: list[str], gone: set[str], allocated: bool, deleted: bool, owner_done: bool, finalizers: set[str]
) -> None:
    found = used_claim(*users, allocated=allocated, deleted=deleted, finalizers=tuple(sorted(finalizers)))
    step = next_step(found, gone, owner_done=owner_done)
    if set(users) - gone:
        assert step is None or (isinstance(step, ReleaseClaim) and not step.deallocate)
    if isinstance(step, ReleaseClaim):
        assert set(step.uids) == set(users) & gone


def test_finalizers_by_form() -> None:
    assert finalizer_for({"devices": {"requests": []}}) == FINALIZER
    assert finalizer_for(carried("Immediate")) == SEMANTIC_FINALIZER
    assert finalizer_for({}) == FINALIZER


def test_only_immediate_claims_stay_allocated() -> None:
    assert stays_allocated(used_claim(mode="Immediate"))
    assert not stays_allocated(used_claim(mode="WaitForFirstConsumer"))
    assert not stays_allocated(used_claim())


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "done"),
    [
        ("Pending", "", False, False),
        ("Pending", "", True, True),  # nobody will bind it
        ("Pending", "n", True, False),  # its node may be starting it
        ("Running", "n", True, False),
        ("Running", "n", False, False),
        ("Succeeded", "n", False, True),
        ("Failed", "", False, True),
    ],
)
def test_a_pod_is_done(phase: str, node: str, deleted: bool, done: bool) -> None:
    meta = ObjectMeta(deletion_timestamp="now" if deleted else None)
    assert (
        is_done(Pod(metadata=meta, spec=PodSpec(node_name=node or None), status=PodStatus(phase=phase)))
        is done
    )
