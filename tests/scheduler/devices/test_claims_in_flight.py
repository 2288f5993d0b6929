"""Claims that are decided and not written yet: what they hold meanwhile, and how each is written or taken back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from allotment.allocator.ledger import Ledger, holding
from allotment.api.codec import to_builtins
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from allotment.scheduler.binding.claim_writer import (
    FIRST_REST,
    LONGEST_REST,
    MOST_CONFLICTS,
    TAKEN_OVER,
    UNSEEN_SECONDS,
    ClaimWriter,
)
from allotment.scheduler.binding.step import MakeClaim, WriteClaim
from allotment.scheduler.devices.claims import MAX_CONSUMERS, Claims
from allotment.scheduler.event import WriteFailure
from allotment.scheduler.instruction import CreateClaim, DeleteClaim, PatchClaim, Write
from tests.allocator import build
from tests.builders.typed import claim, cluster, node, slice_

KEY = "default/c"
FINALIZER = "protect"


def allocation(*devices: str) -> AllocationResult:
    """Of devices on node n."""
    made = cluster(build.class_(), node("n"), slice_("n", *devices))
    outcome = made.fleet.allocate("n", [claim("c", build.request(count=len(devices)))])
    return outcome.results[0]  # type: ignore[union-attr]  # it fits


D0, D1 = allocation("d0"), allocation("d1")


def user(name: str) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}")


def shown(
    name: str = "c",
    version: int = 1,
    *,
    holds: AllocationResult | None = None,
    users: tuple[str, ...] = (),
    finalizers: tuple[str, ...] = (),
    deleted: bool = False,
    uid: str = "",
    mark: str = "",
) -> ResourceClaim:
    """A claim as the server shows it."""
    made = claim(name)
    meta = replace(
        made.metadata,
        annotations={TAKEN_OVER: mark} if mark else {},
        resource_version=str(version),
        finalizers=finalizers,
        deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        uid=uid or made.metadata.uid,
    )
    reserved = tuple(user(each) for each in users)
    return replace(made, metadata=meta, status=replace(made.status, allocation=holds, reserved_for=reserved))


def books(*objects: ResourceClaim) -> Claims:
    claims = Claims(Ledger())
    for each in objects:
        claims.change(None, each)
    return claims


def holder(claims: Claims) -> list[str]:
    """Who has the device d0."""
    (result,) = D0.devices.results
    return list(claims.ledger.holders(holding(result).device))


# --- flights ---


def test_a_decision_holds_its_devices_at_once() -> None:
    claims = books(shown())

    claims.depart(KEY, "uid-p", user("p"), D0)

    assert holder(claims) == [KEY]
    assert claims.allocation(KEY) is D0
    assert list(claims.reserved(KEY)) == ["uid-p"]
    claims.validate()


def test_a_flight_lands_when_its_own_write_is_shown_and_not_before() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)
    claims.acknowledged(KEY, 5)

    claims.change(shown(), shown(version=3))  # older than our write
    assert holder(claims) == [KEY]
    claims.change(shown(), shown(version=5, holds=D0, users=("p",)))

    assert not claims.flights
    assert holder(claims) == [KEY]
    claims.validate()


def test_a_flight_that_lands_with_less_than_was_decided_holds_less() -> None:
    both = allocation("d0", "d1")
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), both)
    claims.acknowledged(KEY, 5)

    claims.change(shown(), shown(version=5, holds=D1, users=("p",)))

    assert holder(claims) == []
    assert len(claims.ledger.holdings(KEY)) == 1
    claims.validate()


def test_the_watch_may_be_faster_than_the_reply() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)

    claims.change(shown(), shown(version=5, holds=D0, users=("p",)))
    claims.acknowledged(KEY, 5)

    assert not claims.flights
    claims.validate()


def test_a_decision_that_is_taken_back_holds_nothing() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)

    claims.cancel(KEY, "uid-p")
    claims.cancel(KEY, "uid-p")  # safe where nothing is left

    assert holder(claims) == []
    claims.validate()


def test_a_second_user_does_not_land_with_the_first_one_s_write() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)
    claims.acknowledged(KEY, 5)

    claims.depart(KEY, "uid-q", user("q"), None)

    assert claims.flights[KEY].version == 0
    assert set(claims.reserved(KEY)) == {"uid-p", "uid-q"}


def test_if_who_brings_the_allocation_gives_up_nobody_else_has_it() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)
    claims.depart(KEY, "uid-q", user("q"), None)

    claims.cancel(KEY, "uid-p")

    assert claims.allocation(KEY) is None
    assert holder(claims) == []
    claims.validate()


def test_a_claim_that_goes_takes_its_flight_with_it() -> None:
    claims = books(shown())
    claims.depart(KEY, "uid-p", user("p"), D0)

    claims.change(shown(), None)

    assert not claims.flights
    assert holder(claims) == []
    claims.validate()


# --- two schedulers, and a server that does not check ---


def test_what_is_shown_comes_before_what_is_only_decided() -> None:
    """Another scheduler was first: its claim has the device, and ours will have to be undone."""
    claims = books(shown(), shown("other"))
    claims.depart(KEY, "uid-p", user("p"), D0)

    claims.change(shown("other"), shown("other", 4, holds=D0, users=("q",)))

    assert holder(claims) == ["default/other"]
    assert list(claims.disputed) == [KEY]
    claims.validate()


def test_of_two_that_are_shown_the_later_is_disputed() -> None:
    claims = books(shown(holds=D0), shown("other"))

    claims.change(shown("other"), shown("other", 4, holds=D0))

    assert holder(claims) == [KEY]
    assert list(claims.disputed) == ["default/other"]
    claims.validate()


def test_a_disputed_claim_has_its_device_once_the_other_gives_it_back() -> None:
    claims = books(shown(holds=D0), shown("other", holds=D0))

    claims.change(shown(holds=D0), shown(version=7))

    assert holder(claims) == ["default/other"]
    assert not claims.disputed
    claims.validate()


def test_the_order_of_a_list_does_not_matter() -> None:
    """A scheduler that starts anew hears of claims in any order. Their versions tell who was first."""
    claims = books(shown("other", 7, holds=D0), shown(version=4, holds=D0))

    assert holder(claims) == [KEY]
    assert list(claims.disputed) == ["default/other"]
    claims.validate()


def test_who_was_first_stays_first_whatever_is_written_later() -> None:
    claims = books(shown(version=2, holds=D0), shown("other", 3, holds=D0), shown("third", 4, holds=D1))
    claims.change(shown(holds=D0), shown(version=9, holds=D0, users=("p",)))

    claims.change(shown("third", holds=D1), shown("third", 10))  # disputes are looked at again

    assert holder(claims) == [KEY]
    assert list(claims.disputed) == ["default/other"]
    claims.validate()


def test_what_another_scheduler_wrote_counts_beside_our_own_decision() -> None:
    """It allocated the claim otherwise than we are about to. Whoever is late, nobody else is to have either device."""
    claims = books(shown(), shown("other"))
    claims.depart(KEY, "uid-p", user("p"), D1)
    claims.change(shown(), shown(version=4, holds=D0, users=("p",)))

    claims.change(shown("other"), shown("other", 5, holds=D0))

    assert holder(claims) == [KEY]
    assert list(claims.disputed) == ["default/other"]
    claims.validate()


def test_a_decision_comes_last_also_if_its_claim_is_shown_with_something_else() -> None:
    claims = books(shown(), shown("other"))
    claims.depart(KEY, "uid-p", user("p"), D0)
    claims.change(shown(), shown(version=4, holds=D1, users=("p",)))

    claims.change(shown("other"), shown("other", 5, holds=D0))

    assert holder(claims) == ["default/other"]
    assert list(claims.disputed) == [KEY]
    claims.validate()


def test_a_disputed_claim_that_was_away_on_trial_keeps_the_rest_of_its_devices() -> None:
    both = allocation("d0", "d1")
    claims = books(shown(holds=D0), shown("other", 2, holds=both))
    held = claims.ledger.release("default/other")

    claims.restore("default/other")

    assert claims.ledger.holdings("default/other") == held != ()
    claims.validate()


# --- writing: each arrow of the diagram ---


class Writer:
    """A writer of claim c for pod p, with its claims."""

    def __init__(
        self, *objects: ResourceClaim, make: bool = False, wants: AllocationResult | None = D0
    ) -> None:
        self.claims = books(*objects)
        self.claims.depart(KEY, "uid-p", user("p"), wants)
        step = WriteClaim(KEY, wants, user("p"), FINALIZER)
        self.writer = ClaimWriter(MakeClaim(KEY, to_builtins(shown()), step) if make else step, self.claims)
        self.now = 0.0

    def sends(self, now: float | None = None) -> Write | None:
        self.now = self.now if now is None else now
        draft = self.writer.advance(self.now)
        return draft(1) if draft is not None else None

    def patches(self, now: float | None = None) -> dict[str, Any]:
        write = self.sends(now)
        assert isinstance(write, PatchClaim), write
        return write.patch

    def show(self, new: ResourceClaim | None) -> None:
        self.claims.change(self.claims.objects.get(KEY), new)
        self.claims.validate()

    def fails(self, why: WriteFailure) -> None:
        self.writer.failed(why, "", self.now)

    def written(self) -> Writer:
        """Through all of it, up to the status that is acknowledged."""
        self.sends()
        self.writer.done(2, "")
        self.sends()
        self.writer.done(3, "")
        return self


def test_finalizer_then_status_then_seen() -> None:
    made = Writer(shown())

    assert made.patches() == {"metadata": {"finalizers": [FINALIZER]}}
    assert made.sends() is None, "one write at a time"
    made.writer.done(2, "")
    write = made.sends()
    assert isinstance(write, PatchClaim)
    assert (write.version, write.status) == ("2", True), "based on our own write, without waiting to see it"
    assert write.patch["status"]["reservedFor"] == [to_builtins(user("p"))]
    assert write.patch["status"]["allocation"] == to_builtins(D0)
    made.writer.done(3, "")
    assert made.sends() is None
    assert not made.writer.finished, "it is not seen yet"
    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.sends() is None
    assert made.writer.finished
    assert not made.claims.flights


def test_a_claim_that_has_the_finalizer_needs_one_write() -> None:
    assert "status" in Writer(shown(finalizers=(FINALIZER, "other"))).patches()


def _with(**fields: Any) -> AllocationResult:
    """Device d0, with something to say about it."""
    (result,) = D0.devices.results
    return replace(D0, devices=replace(D0.devices, results=(replace(result, **fields),)))


@pytest.mark.parametrize(
    "wants",
    [
        pytest.param(D0, id="a whole device"),
        pytest.param(allocation("d0", "d1"), id="two whole devices"),
        pytest.param(replace(D0, node_selector=None), id="usable everywhere"),
        pytest.param(replace(D0, allocation_timestamp="2026-01-01T00:00:00Z"), id="a timestamp"),
        pytest.param(
            replace(
                D0, devices=replace(D0.devices, config=(DeviceAllocationConfiguration(source="FromClass"),))
            ),
            id="configuration",
        ),
        pytest.param(_with(admin_access=True), id="an admin's"),
        pytest.param(_with(share_id="s", consumed_capacity={"mem": Quantity.parse("1Gi")}), id="a share"),
        pytest.param(_with(binding_conditions=("ready",)), id="binding conditions"),
        pytest.param(AllocationResult(), id="no devices"),
    ],
)
def test_the_allocation_is_written_whole(wants: AllocationResult) -> None:
    made = Writer(shown(finalizers=(FINALIZER,)), wants=wants)

    assert made.patches()["status"]["allocation"] == to_builtins(wants)


def test_finalizers_of_others_stay() -> None:
    assert Writer(shown(finalizers=("other",))).patches() == {
        "metadata": {"finalizers": ["other", FINALIZER]}
    }


def test_a_claim_that_is_allocated_gets_a_reservation_only() -> None:
    made = Writer(shown(holds=D0, users=("q",), finalizers=(FINALIZER,)), wants=None)

    assert made.patches() == {"status": {"reservedFor": [to_builtins(user("q")), to_builtins(user("p"))]}}


def test_a_conflict_waits_for_a_newer_copy() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.patches()

    made.fails(WriteFailure.CONFLICT)

    assert made.sends() is None
    made.show(shown(version=2, finalizers=(FINALIZER,)))
    write = made.sends()
    assert isinstance(write, PatchClaim)
    assert write.version == "2"


def test_a_lost_reply_is_found_out_by_looking() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.patches()
    made.fails(WriteFailure.UNKNOWN)
    assert made.sends() is None, "it rests"

    made.patches(FIRST_REST)  # at the same version: it cannot take effect twice
    made.fails(WriteFailure.CONFLICT)
    made.show(shown(version=2, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.patches() == {"metadata": {"annotations": {TAKEN_OVER: "2"}}}, "it may be another's"
    made.writer.done(3, "")
    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,), mark="2"))
    assert made.sends() is None
    assert made.writer.finished


def test_rests_grow() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    rests = []
    for _ in range(10):
        made.patches(made.now + 100)
        made.fails(WriteFailure.UNKNOWN)
        rests.append(round(made.writer.rests_until - made.now, 3))

    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests[-1] == LONGEST_REST


def test_conflicts_without_end_are_an_error() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    for version in range(2, MOST_CONFLICTS + 3):
        made.patches()
        made.fails(WriteFailure.CONFLICT)
        made.show(shown(version=version, finalizers=(FINALIZER,)))

    assert made.sends() is None
    assert "conflicts" in made.writer.error


@pytest.mark.parametrize("why", [WriteFailure.REFUSED, WriteFailure.TAKEN, WriteFailure.GONE])
def test_any_other_failure_is_an_error(why: WriteFailure) -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.patches()

    made.fails(why)

    assert made.writer.error == why.value
    assert made.sends() is None


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (None, "is gone"),
        (shown(version=9, deleted=True), "is being deleted"),
        (shown(version=9, holds=D1), "was allocated by somebody else meanwhile"),
        (shown(version=9, holds=D1, users=("p",)), "was allocated differently meanwhile"),
        (shown(version=9, uid="another"), "is gone"),  # another one has its name
        (shown(version=9, users=tuple(f"u{n}" for n in range(MAX_CONSUMERS))), "which is the limit"),
    ],
    ids=["gone", "being deleted", "allocated", "allocated otherwise", "replaced", "full"],
)
def test_what_the_copy_shows_may_be_an_obstacle(now: ResourceClaim | None, words: str) -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.patches()
    made.fails(WriteFailure.CONFLICT)

    made.show(now)

    assert made.sends() is None
    assert words in made.writer.error


def test_a_claim_that_is_deallocated_before_it_is_reserved() -> None:
    made = Writer(shown(holds=D0, finalizers=(FINALIZER,)), wants=None)
    made.patches()
    made.fails(WriteFailure.CONFLICT)

    made.show(shown(version=2, finalizers=(FINALIZER,)))

    assert made.sends() is None
    assert made.writer.error == "was deallocated meanwhile"


def test_the_same_allocation_by_another_scheduler_is_joined() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.patches()
    made.fails(WriteFailure.CONFLICT)

    made.show(shown(version=2, holds=D0, users=("q",), finalizers=(FINALIZER,)))

    patch = made.patches()
    assert "allocation" not in patch["status"], "what is there cannot be changed"
    assert len(patch["status"]["reservedFor"]) == 2


def test_a_device_that_another_claim_had_first_is_an_error() -> None:
    made = Writer(shown(), shown("other")).written()
    made.claims.change(shown("other"), shown("other", 2, holds=D0))

    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.sends() is None
    assert made.writer.error == "was promised a device that another claim had first"


def test_one_of_a_gang_waits_for_who_brings_the_allocation() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    second = ClaimWriter(WriteClaim(KEY, None, user("q"), FINALIZER), made.claims)
    made.claims.depart(KEY, "uid-q", user("q"), None)
    assert second.advance(0.0) is None

    made.show(shown(version=2, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert second.advance(0.0) is not None


# --- taking back ---


def test_what_was_never_written_needs_no_write() -> None:
    made = Writer(shown())

    made.writer.undo()

    assert made.sends() is None
    assert made.writer.finished


def test_the_only_user_takes_the_allocation_back_too() -> None:
    made = Writer(shown()).written()
    made.writer.undo()
    assert made.sends() is None, "our own write is to be seen first"
    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.patches() == {"status": {"reservedFor": [], "allocation": None, "devices": None}}
    made.writer.done(4, "")
    assert not made.writer.finished
    made.show(shown(version=4, finalizers=(FINALIZER,)))
    assert made.sends() is None
    assert made.writer.finished


def test_with_other_users_the_allocation_stays() -> None:
    made = Writer(shown()).written()
    made.writer.undo()
    made.show(shown(version=5, holds=D0, users=("p", "q"), finalizers=(FINALIZER,)))

    assert made.patches() == {"status": {"reservedFor": [to_builtins(user("q"))]}}


def test_an_allocation_that_was_there_before_stays() -> None:
    made = Writer(shown(holds=D0, finalizers=(FINALIZER,)), wants=None)
    made.sends()
    made.writer.done(3, "")
    made.writer.undo()
    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.patches() == {"status": {"reservedFor": []}}


def test_what_another_scheduler_wrote_for_the_same_pod_is_not_taken_back() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.sends()
    made.fails(WriteFailure.CONFLICT)
    made.show(shown(version=2, holds=D1, users=("p",), finalizers=(FINALIZER,)))
    made.sends()
    assert made.writer.error

    made.writer.undo()

    assert made.sends() is None
    assert made.writer.finished


def test_after_a_write_without_an_answer_it_is_asked_whether_it_took_effect() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.sends()
    made.fails(WriteFailure.UNKNOWN)
    made.writer.undo()

    write = made.sends(FIRST_REST)
    assert isinstance(write, PatchClaim)
    assert write.version == "1"
    made.fails(WriteFailure.CONFLICT)  # so it did
    made.show(shown(version=2, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.patches()["status"]["allocation"] is None


def test_a_write_without_an_answer_that_did_not_take_effect() -> None:
    made = Writer(shown(finalizers=(FINALIZER,)))
    made.sends()
    made.fails(WriteFailure.UNKNOWN)
    made.writer.undo()
    made.sends(FIRST_REST)

    made.writer.done(1, "")  # nothing was changed by it

    assert made.sends() is None
    assert made.writer.finished


@pytest.mark.parametrize("why", [WriteFailure.REFUSED, WriteFailure.TAKEN])
def test_an_undo_that_is_refused_is_tried_again(why: WriteFailure) -> None:
    made = Writer(shown()).written()
    made.writer.undo()
    made.show(shown(version=3, holds=D0, users=("p",), finalizers=(FINALIZER,)))
    made.sends()

    made.fails(why)

    assert made.sends() is None
    assert made.patches(LONGEST_REST)


def test_of_a_claim_that_is_gone_there_is_nothing_to_take_back() -> None:
    made = Writer(shown()).written()
    made.writer.undo()

    made.show(None)

    assert made.sends() is None
    assert made.writer.finished


# --- claims that the scheduler makes ---


def test_a_claim_is_made_then_written() -> None:
    made = Writer(make=True)

    assert isinstance(made.sends(), CreateClaim)
    made.writer.done(1, shown().metadata.uid)
    assert made.sends() is None, "it is not seen yet"
    made.show(shown())

    assert made.patches() == {"metadata": {"finalizers": [FINALIZER]}}


def test_a_creation_whose_reply_was_lost_is_found() -> None:
    made = Writer(make=True)
    made.sends()
    made.fails(WriteFailure.UNKNOWN)
    assert isinstance(made.sends(FIRST_REST), CreateClaim)
    made.fails(WriteFailure.CONFLICT)

    made.show(shown())

    assert made.patches(10.0) == {"metadata": {"finalizers": [FINALIZER]}}


def test_a_claim_that_was_made_and_never_seen_is_not_waited_for_for_ever() -> None:
    made = Writer(make=True)
    made.sends()
    made.writer.done(1, "uid")

    assert made.sends(1.0) is None
    assert made.writer.patience == 1.0 + UNSEEN_SECONDS
    assert made.sends(1.0 + UNSEEN_SECONDS) is None

    assert made.writer.error == "was made, and is gone"


def test_a_claim_that_was_made_is_deleted_even_if_it_was_not_seen() -> None:
    made = Writer(make=True)
    made.sends()
    made.writer.done(1, "uid")
    made.writer.undo()

    write = made.sends()

    assert isinstance(write, DeleteClaim)
    assert write.uid == "uid"
    made.writer.done(0, "")
    assert made.writer.finished


@pytest.mark.parametrize(
    "why", [WriteFailure.GONE, WriteFailure.CONFLICT], ids=["gone", "another has its name"]
)
def test_a_claim_that_was_made_and_is_not_there_need_not_be_deleted(why: WriteFailure) -> None:
    made = Writer(make=True)
    made.sends()
    made.writer.done(1, "uid")
    made.writer.undo()
    assert isinstance(made.sends(), DeleteClaim)

    made.fails(why)

    assert made.writer.finished


def test_a_claim_that_another_scheduler_made_is_not_deleted() -> None:
    made = Writer(make=True)
    made.sends()
    made.fails(WriteFailure.CONFLICT)
    made.show(shown())
    made.writer.undo()

    assert made.sends(10.0) is None
    assert made.writer.finished


# --- one pod, two schedulers ---


def late(wants: AllocationResult | None = D0, mark: str = "") -> Writer:
    """Another scheduler has reserved the claim for the pod. Without ``wants``, that was known before."""
    made = Writer(shown(holds=D0 if wants is None else None), wants=wants)
    made.show(shown(version=5, holds=D0, users=("p",), mark=mark))
    return made


@pytest.mark.parametrize("wants", [D0, None], ids=["it has decided the same", "it has found it so"])
def test_a_reservation_of_another_is_taken_over_before_it_is_used(wants: AllocationResult | None) -> None:
    made = late(wants)

    write = made.sends()

    assert isinstance(write, PatchClaim)
    assert (write.version, write.status) == ("5", False)
    assert write.patch == {"metadata": {"annotations": {TAKEN_OVER: "5"}}}
    made.writer.done(6, "")
    assert not made.writer.finished, "it is not seen yet"
    made.show(shown(version=6, holds=D0, users=("p",), mark="5"))
    assert made.sends() is None
    assert made.writer.finished


def test_if_the_other_takes_it_back_first_there_is_nothing_to_take_over() -> None:
    made = late(None)
    made.sends()
    made.fails(WriteFailure.CONFLICT)
    made.show(shown(version=6))

    assert made.sends() is None
    assert made.writer.error == "was deallocated meanwhile"


def test_a_reservation_that_another_has_taken_over_is_not_taken_back() -> None:
    made = Writer(shown()).written()
    made.writer.undo()
    assert made.sends() is None, "it has not seen its own write yet"
    made.show(shown(version=3, holds=D0, users=("p",)))
    made.patches()
    made.fails(WriteFailure.CONFLICT)
    made.show(shown(version=4, holds=D0, users=("p",), mark="3"))

    assert made.sends() is None
    assert made.writer.finished


def test_nor_is_one_that_was_taken_over_from_whoever_had_taken_it_over() -> None:
    made = late(mark="2")
    made.sends()
    made.writer.done(6, "")
    made.show(shown(version=7, holds=D0, users=("p",), mark="6"))
    made.writer.undo()

    assert made.sends() is None
    assert made.writer.finished


def test_what_was_taken_over_is_taken_back_as_if_it_were_written() -> None:
    made = late()
    made.sends()
    made.writer.done(6, "")
    made.show(shown(version=6, holds=D0, users=("p",), mark="5"))
    made.writer.undo()

    assert made.patches() == {"status": {"reservedFor": [], "allocation": None, "devices": None}}


def test_a_reservation_that_went_and_came_again_is_another_s() -> None:
    made = Writer(shown()).written()
    made.show(shown(version=4, finalizers=(FINALIZER,)))
    made.patches()
    made.fails(WriteFailure.CONFLICT)
    made.show(shown(version=6, holds=D0, users=("p",), finalizers=(FINALIZER,)))

    assert made.patches() == {"metadata": {"annotations": {TAKEN_OVER: "6"}}}
