"""Users take turns, whatever comes and goes in which order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http.turns import Turns


@pytest.mark.parametrize(
    ("arriving", "served"),
    [
        pytest.param("a1 a2 a3 a4 b1", "a1 b1 a2 a3 a4", id="who comes late waits for one"),
        pytest.param("a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3", id="users alternate"),
        pytest.param("a1 a2 a3", "a1 a2 a3", id="one user's stay in their order"),
        pytest.param("a1 b1 b2 c1", "a1 b1 c1 b2", id="who had none comes first"),
    ],
)
def test_users_take_turns(arriving: str, served: str) -> None:
    turns: Turns[str] = Turns(1)
    begun = [one for name in arriving.split() for one in turns.arrive(name[0], name)]
    for name in begun:  # grows
        begun += turns.leave(name[0])
        turns.validate()
    assert begun == served.split()


STEPS = st.lists(
    st.tuples(st.sampled_from(("arrive", "leave", "give up")), st.sampled_from("abcd"), st.integers(0, 9)),
    max_size=80,
)


@given(st.integers(1, 3), STEPS)
def test_nobody_waits_for_more_than_one_turn_of_each_other_user(
    places: int, steps: list[tuple[str, str, int]]
) -> None:
    turns: Turns[int] = Turns(places)
    waiting: dict[int, str] = {}
    serving: dict[int, str] = {}
    first: dict[
        str, Counter[str]
    ] = {}  # of each user that waits and had no turn since: the turns of the others

    def begin(begun: list[int]) -> None:
        for one in begun:
            user = serving[one] = waiting.pop(one)
            first.pop(user, None)
            for others in first.values():
                others[user] += 1
        for user in waiting.values():
            first.setdefault(user, Counter())

    for number, (what, user, which) in enumerate(steps):
        if what == "arrive":
            waiting[number] = user
            begin(turns.arrive(user, number))
        elif what == "leave" and serving:
            one = list(serving)[which % len(serving)]
            begin(turns.leave(serving.pop(one)))
        elif what == "give up" and waiting:
            one = list(waiting)[which % len(waiting)]
            turns.give_up(user := waiting.pop(one), one)
            if user not in waiting.values():
                first.pop(user, None)
        turns.validate()
        assert all(count <= 1 for others in first.values() for count in others.values())
