"""A simulation that follows a cluster: whatever informers say, and however seldom anybody looks, it is as one that begins anew."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.meta import ApiStruct, key_of
from allotment.autoscaler.simulate.simulation import start_simulation
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from tests.allocator import build
from tests.allocator.build import request
from tests.autoscaler.builders import picture
from tests.builders.typed import claim, node, pod, slice_

Handler = Callable[[Any, Any], None]


class Heard:
    """In the place of informers: tells handlers what happens."""

    def __init__(self) -> None:
        self._handlers: dict[type[ApiStruct], list[Handler]] = {}
        self._kind: type[ApiStruct] | None = None
        self.there: dict[tuple[type[ApiStruct], str], Any] = {}

    def of(self, kind: type[ApiStruct]) -> Heard:
        self._kind = kind
        return self

    def on_change(self, handler: Handler) -> None:
        assert self._kind is not None
        self._handlers.setdefault(self._kind, []).append(handler)

    def show(self, obj: Any) -> None:
        self._tell((type(obj), key_of(obj)), obj)

    def remove(self, obj: Any) -> None:
        self._tell((type(obj), key_of(obj)), None)

    def _tell(self, key: tuple[type[ApiStruct], str], new: Any) -> None:
        old = self.there.pop(key, None)
        if new is not None:
            self.there[key] = new
        if old is not None or new is not None:
            for handler in self._handlers.get(key[0], ()):
                handler(old, new)


def somebody(dice: Random) -> Any:
    """Any of a few objects, in one of its states; a pod may be another one of the same name."""
    name = dice.choice("abc")
    made = pod(name, claims=[name], node=dice.choice([None, "n", "m"]), cpu=1)
    return dice.choice(
        [
            node(dice.choice("nm"), cpu=dice.choice([2, 4])),
            slice_(dice.choice("nm"), *"xyz"[: dice.randint(1, 3)]),
            claim(name, request("r")),
            replace(made, metadata=replace(made.metadata, uid=f"{name}-{dice.randint(1, 2)}")),
        ]
    )


@pytest.mark.parametrize("seed", range(10))
def test_it_is_as_one_that_begins_anew(seed: int) -> None:
    dice, heard = Random(seed), Heard()
    followed = FollowedCluster(heard, {})  # type: ignore[arg-type]  # it only asks to be told of changes
    heard.show(build.class_())
    for moment in range(60):
        (heard.show if dice.random() < 0.7 else heard.remove)(somebody(dice))
        if dice.random() < 0.2:
            now = followed.at(float(moment))
            now.validate()
            assert picture(now) == picture(start_simulation(heard.there.values()))
            assert now.now == float(moment)
