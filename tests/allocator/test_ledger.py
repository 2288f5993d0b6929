"""Who holds what: commits, releases, forks; beside a dumb model that sums everything up anew."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from allotment.allocator.ledger import Fork, Holding, Ledger, LedgerConflict
from allotment.allocator.outcome import Allocated
from allotment.allocator.pool import DeviceID
from tests.allocator.build import allocate, claim, device, device_id, request, share, slice_, whole
from tests.thoroughness import examples

D0, D1 = device_id("d0"), device_id("d1")


def test_a_commit_is_seen_and_a_release_undoes_it(ledger: Ledger) -> None:
    outcome = allocate([slice_(device("d0"), device("d1"))], claim(request(count=2)))
    assert isinstance(outcome, Allocated)
    ledger.commit("ns/claim", outcome.results[0])
    assert "ns/claim" in ledger
    assert len(ledger) == 1
    assert ledger.exclusive(D0)
    assert ledger.holders(D1) == ["ns/claim"]
    assert [held.device for held in ledger.holdings("ns/claim")] == [D0, D1]
    released = ledger.release("ns/claim")
    assert [held.device for held in released] == [D0, D1]
    assert not ledger.exclusive(D0)
    assert ledger.holders(D0) == []
    assert ledger.holdings("ns/claim") == ()


def test_releasing_what_is_not_held_is_nothing(ledger: Ledger) -> None:
    assert ledger.release("nobody") == ()


def test_shares_add_up(ledger: Ledger) -> None:
    ledger.hold("a", (share("d0", memory="5"),))
    ledger.hold("b", (share("d0", memory="2", lanes="1"), share("d0", memory="1")))
    assert ledger.shared(D0)
    assert not ledger.exclusive(D0)
    assert ledger.consumed(D0) == {"memory": 8 * 10**9, "lanes": 10**9}
    assert ledger.holders(D0) == ["a", "b"]
    ledger.release("b")
    assert ledger.consumed(D0) == {"memory": 5 * 10**9}
    ledger.release("a")
    assert not ledger.shared(D0)
    assert ledger.consumed(D0) == {}


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")])
def test_shares_of_nothing_can_be_released_in_any_order(ledger: Ledger, order: tuple[str, ...]) -> None:
    """A share may take no capacity, and it is not the last one that makes the sum zero."""
    ledger.hold("a", (share("d0", memory="5"),))
    ledger.hold("b", (share("d0", memory="0"),))
    ledger.hold("c", (share("d0"),))
    for name in order:
        ledger.release(name)
        ledger.validate()
    assert not ledger.shared(D0)


def test_admin_access_is_written_down_and_takes_nothing(ledger: Ledger) -> None:
    ledger.hold("user", (whole("d0"),))
    ledger.hold("admin", (whole("d0", admin=True),))
    assert ledger.holders(D0) == ["user"]
    ledger.release("user")
    assert not ledger.exclusive(D0)
    assert ledger.holdings("admin")[0].admin


@pytest.mark.parametrize(
    ("holdings", "complaint"),
    [
        ((whole("d0"),), "device gpu.example.com/pool/d0 is already in use by claim user"),
        ((share("d0"),), "device gpu.example.com/pool/d0 is already in use by claim user"),
        ((whole("d2"), whole("d0")), "is already in use by claim user"),
        ((whole("d1"),), "device gpu.example.com/pool/d1 is shared by sharer"),
        ((whole("d2"), whole("d2")), "d2 is in it twice"),
        ((whole("d2"), share("d2")), "d2 is in it twice"),
        ((share("d2"), whole("d2")), "d2 is in it twice"),
    ],
)
def test_a_conflict_names_device_and_holder_and_changes_nothing(
    ledger: Ledger, holdings: tuple[Holding, ...], complaint: str
) -> None:
    ledger.hold("user", (whole("d0"),))
    ledger.hold("sharer", (share("d1", memory="1"),))
    with pytest.raises(LedgerConflict, match=f"claim late: .*{complaint}"):
        ledger.hold("late", holdings)
    assert "late" not in ledger
    assert not ledger.exclusive(device_id("d2"))
    assert not ledger.shared(device_id("d2"))
    ledger.validate()


def test_a_claim_is_committed_once(ledger: Ledger) -> None:
    ledger.hold("user", (whole("d0"),))
    with pytest.raises(LedgerConflict, match="claim user is already allocated"):
        ledger.hold("user", (whole("d1"),))
    assert not ledger.exclusive(D1)


def test_a_claim_may_hold_nothing(ledger: Ledger) -> None:
    ledger.hold("empty", ())
    assert "empty" in ledger
    ledger.release("empty")
    assert "empty" not in ledger


# --- forks ---


def test_a_fork_is_undone_unless_it_is_kept(ledger: Ledger) -> None:
    ledger.hold("old", (whole("d0"),))
    with ledger.fork():
        ledger.release("old")
        ledger.hold("new", (whole("d0"), whole("d1")))
    assert ledger.holders(D0) == ["old"]
    assert not ledger.exclusive(D1)
    with ledger.fork() as fork:
        ledger.release("old")
        fork.keep()
    assert len(ledger) == 0


def test_what_an_inner_fork_keeps_an_outer_one_undoes(ledger: Ledger) -> None:
    with ledger.fork():
        with ledger.fork() as inner:
            ledger.hold("a", (whole("d0"),))
            inner.keep()
        assert ledger.exclusive(D0)
    assert not ledger.exclusive(D0)


def test_what_an_inner_fork_undoes_an_outer_one_does_not_undo_again(ledger: Ledger) -> None:
    with ledger.fork() as outer:
        ledger.hold("a", (whole("d0"),))
        with ledger.fork():
            ledger.release("a")
            ledger.hold("b", (whole("d0"),))
        assert ledger.holders(D0) == ["a"]
        outer.keep()
    assert ledger.holders(D0) == ["a"]


def test_an_error_undoes_a_fork_even_if_it_was_to_be_kept(ledger: Ledger) -> None:
    def fail() -> None:
        with ledger.fork() as fork:
            ledger.hold("a", (whole("d0"),))
            fork.keep()
            raise RuntimeError("after all")

    with pytest.raises(RuntimeError, match="after all"):
        fail()
    assert "a" not in ledger
    ledger.hold("b", (whole("d0"),))  # and the ledger goes on


def test_the_watch_hears_of_every_change_and_of_every_undoing(make_ledger: Callable[..., Ledger]) -> None:
    heard: list[str] = []
    ledger = make_ledger(lambda id: heard.append(id.device))
    ledger.hold("a", (whole("d0"), whole("d1", admin=True)))
    assert heard == ["d0"]  # admin access changes no use
    with ledger.fork():
        ledger.release("a")
        ledger.hold("b", (share("d0"),))
    assert heard == ["d0", "d0", "d0", "d0", "d0"]
    with pytest.raises(LedgerConflict):
        ledger.hold("c", (whole("d1"), whole("d0")))
    assert len(heard) == 5


def test_validate_notices_books_that_do_not_agree() -> None:
    ledger = Ledger()
    ledger.hold("a", (whole("d0"),))
    ledger._whole.clear()
    with pytest.raises(AssertionError, match="held whole"):
        ledger.validate()
    ledger = Ledger()
    ledger.hold("a", (share("d0", memory="1"),))
    ledger._consumed[D0]["memory"] += 1
    with pytest.raises(AssertionError, match="consumed capacity"):
        ledger.validate()


# --- any sequence ---

DEVICES = ("d0", "d1", "d2")
NAMES = ("a", "b", "c", "d")
HOLDINGS = st.lists(
    st.one_of(
        st.builds(whole, st.sampled_from(DEVICES), admin=st.booleans()),
        st.builds(share, st.sampled_from(DEVICES)),
        st.builds(
            lambda name, amount: share(name, memory=amount), st.sampled_from(DEVICES), st.sampled_from("012")
        ),
        st.builds(lambda name: share(name, memory="1", lanes="2"), st.sampled_from(DEVICES)),
    ),
    max_size=3,
).map(tuple)

Books = dict[str, tuple[Holding, ...]]


class LedgerMachine(RuleBasedStateMachine):
    """The model is the claims alone; forks are copies of them."""

    forks = Bundle("forks")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model: Books = {}
        self.open: list[
            tuple[AbstractContextManager[Fork], Fork, Books]
        ] = []  # the context, its fork, the model before

    @rule(name=st.sampled_from(NAMES), holdings=HOLDINGS)
    def hold(self, name: str, holdings: tuple[Holding, ...]) -> None:
        try:
            self.ledger.hold(name, holdings)
        except LedgerConflict:
            assert name in self.model or not stands({**self.model, name: holdings})
        else:
            assert name not in self.model
            self.model[name] = holdings
            assert stands(self.model)

    @rule(name=st.sampled_from(NAMES))
    def release(self, name: str) -> None:
        assert self.ledger.release(name) == self.model.pop(name, ())

    @rule(target=forks)
    def fork(self) -> int:
        context = self.ledger.fork()
        self.open.append((context, context.__enter__(), dict(self.model)))
        return len(self.open)

    @rule(depth=consumes(forks), keep=st.booleans())
    def end(self, depth: int, keep: bool) -> None:
        """Ends a fork and, since they nest, the ones inside it in the same way."""
        while len(self.open) >= depth:
            context, fork, before = self.open.pop()
            if keep:
                fork.keep()
            else:
                self.model = before
            context.__exit__(None, None, None)

    def teardown(self) -> None:
        self.end(1, False)
        self.agrees()

    @invariant()
    def agrees(self) -> None:
        self.ledger.validate()
        assert self.ledger._claims == self.model
        for name in DEVICES:
            id = device_id(name)
            uses = [(claim, each) for claim, held in self.model.items() for each in held if takes(each, id)]
            wholes = [claim for claim, each in uses if each.share is None]
            shares = [(claim, each) for claim, each in uses if each.share is not None]
            assert self.ledger.exclusive(id) == bool(wholes)
            assert self.ledger.shared(id) == bool(shares)
            assert list(self.ledger.holders(id)) == sorted(wholes or {claim for claim, _ in shares})
            totals: dict[str, int] = {}
            for _, each in shares:
                for capacity, amount in each.consumed:
                    totals[capacity] = totals.get(capacity, 0) + amount
            consumed = {key: amount for key, amount in self.ledger.consumed(id).items() if amount}
            assert consumed == {key: amount for key, amount in totals.items() if amount}


def takes(held: Holding, id: DeviceID) -> bool:
    return held.device == id and not held.admin


def stands(books: Books) -> bool:
    """Whether no device is promised twice."""
    for name in DEVICES:
        uses = [each for held in books.values() for each in held if takes(each, device_id(name))]
        if any(each.share is None for each in uses) and len(uses) > 1:
            return False
    return True


TestAnySequence = LedgerMachine.TestCase
TestAnySequence.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
