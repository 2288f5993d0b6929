"""Informers through everything that can go wrong between two changes."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.batch import VOLCANO, Queue
from allotment.api.codec import ApiError, to_builtins
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.api.status import Expired, Forbidden
from allotment.client.backoff import Backoff
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed
from allotment.client.informer import Informer
from allotment.client.transport import Disconnected
from tests.client.script import Obj, Script, bookmark, config_map, event, listing, refusal, status

Seen = list[tuple[str | None, str | None]]


def said(obj: Obj | None) -> str | None:
    return None if obj is None else f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"


async def follow(script: Script, **options: Any) -> tuple[Informer[Obj], Seen]:
    """Runs an informer until the script is used up, and returns it with what it told."""
    options.setdefault("backoff", Backoff(0.0))
    informer = Informer(Client(script).plain("v1", "configmaps"), "ns", **options)
    seen: Seen = []
    informer.on_change(lambda old, new: seen.append((said(old), said(new))))
    running = asyncio.ensure_future(informer.run())
    try:
        await asyncio.wait_for(script.idle.wait(), 60)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    informer.validate()
    return informer, seen


def outcome(script: Script, **options: Any) -> tuple[Informer[Obj], Seen]:
    async def run() -> tuple[Informer[Obj], Seen]:
        script.idle = asyncio.Event()
        return await follow(script, **options)

    return asyncio.run(run())


def test_it_lists_then_tells_changes_in_order() -> None:
    script = Script(listing(5, config_map("a", 3), config_map("b", 5))).then_watch(
        event("MODIFIED", config_map("a", 6)),
        event("DELETED", config_map("b", 7)),
        event("ADDED", config_map("c", 8)),
    )
    informer, seen = outcome(script)
    assert seen == [(None, "a@3"), (None, "b@5"), ("a@3", "a@6"), ("b@5", None), (None, "c@8")]
    assert sorted(map(str, map(said, informer.all()))) == ["a@6", "c@8"]
    assert informer.version == 8


def test_one_who_wants_to_know_lists_first_and_follows_from_there() -> None:
    script = Script(refusal(403, "Forbidden"), listing(5, config_map("a", 3))).then_watch(
        event("MODIFIED", config_map("a", 6))
    )

    async def run() -> None:
        script.idle = asyncio.Event()
        informer = Informer(Client(script).plain("v1", "configmaps"), "ns")
        with pytest.raises(Forbidden):
            await informer.begin()
        await informer.begin()
        assert [said(each) for each in informer.all()] == ["a@3"]
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(script.idle.wait(), 60)
        running.cancel()
        assert [said(each) for each in informer.all()] == ["a@6"]
        assert [call.query.get("watch") for call in script.calls[:3]] == [None, None, "true"]

    asyncio.run(run())


def test_a_list_comes_in_pages() -> None:
    script = Script(listing(5, config_map("a", 3), token="more"), listing(5, config_map("b", 5)))
    informer, _ = outcome(script)
    assert len(informer) == 2
    assert script.calls[1].query["continue"] == "more"


def test_a_broken_watch_resumes_where_it_was_without_a_list() -> None:
    script = Script(listing(5, config_map("a", 3)))
    script.then_watch(bookmark(9), Disconnected("gone")).then_watch(event("MODIFIED", config_map("a", 10)))
    _, seen = outcome(script)
    assert seen == [(None, "a@3"), ("a@3", "a@10")]
    assert [call.query.get("resourceVersion") for call in script.calls] == [None, "5", "9", "10"]


def test_an_expired_version_lists_again_and_tells_what_changed_meanwhile() -> None:
    script = Script(
        listing(5, config_map("a", 3), config_map("b", 4), config_map("c", 5)),
        listing(20, config_map("a", 3), config_map("b", 15), config_map("d", 20)),
    ).then_watch(event("ERROR", status(410, "Expired", "too old resource version")))
    _, seen = outcome(script)
    assert seen[3:] == [("c@5", None), ("b@4", "b@15"), (None, "d@20")]


def test_a_server_behind_us_is_listed_again() -> None:
    """After a restore from a backup the server knows nothing of the version we ask for."""
    script = Script(listing(50, config_map("a", 50)), listing(7, config_map("a", 7)))
    script.then_watch(event("ERROR", status(504, "Timeout", "Too large resource version: 50, current: 7")))
    _, seen = outcome(script)
    assert seen == [(None, "a@50"), ("a@50", "a@7")]


def test_an_object_made_anew_under_its_old_name_goes_and_comes() -> None:
    script = Script(listing(5, config_map("a", 3, uid="1")), listing(9, config_map("a", 9, uid="2")))
    script.then_watch(event("ERROR", status(410, "Gone")))
    _, seen = outcome(script)
    assert seen == [(None, "a@3"), ("a@3", None), (None, "a@9")]


def test_an_older_state_never_follows_a_newer_one() -> None:
    script = Script(listing(5, config_map("a", 5)))
    script.then_watch(event("MODIFIED", config_map("a", 4)), event("MODIFIED", config_map("a", 5)))
    _, seen = outcome(script)
    assert seen == [(None, "a@5")]


def test_a_server_that_is_away_is_asked_again() -> None:
    script = Script(
        Disconnected("refused"), refusal(503, "ServiceUnavailable"), refusal(403, "Forbidden"), listing(1)
    )
    informer, _ = outcome(script)
    assert informer.version == 1


def test_a_refusal_is_told_loudly_since_waiting_does_not_help(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(refusal(403, "Forbidden", "you may not"), listing(5)).then_watch(bookmark(6))
    outcome(script)
    (told,) = [record for record in caplog.records if "you may not" in record.getMessage()]
    assert told.levelname == "WARNING"


@pytest.mark.parametrize("end", [event("ERROR", status(410, "Expired")), b'{"type":"ADDED","obj', b"<html>"])
def test_a_server_that_ends_every_watch_is_not_asked_without_a_pause(end: bytes) -> None:
    script = Script(*[listing(5)] * 9)
    for _ in range(4):
        script.then_watch(end)
    for _ in range(4):
        script.then_watch()  # it ends at once, and nothing is wrong
    backoff = Counted()
    outcome(script, backoff=backoff)
    assert backoff.most == 8


class Counted(Backoff):
    """Does not wait, and knows how often in a row it was asked to."""

    most = 0

    def next(self) -> float:
        super().next()
        self.most = max(self.most, self._failures)
        return 0.0


def test_a_list_compacted_between_pages_is_asked_for_whole() -> None:
    script = Script(
        listing(5, config_map("a", 3), token="t"), refusal(410, "Expired"), listing(9, config_map("a", 9))
    )
    informer, _ = outcome(script)
    assert [said(obj) for obj in informer.all()] == ["a@9"]
    assert "limit" not in script.calls[2].query


def test_a_handler_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> Seen:
        script = Script(listing(5, config_map("a", 3)))
        informer = Informer(Client(script).plain("v1", "configmaps"))
        seen: Seen = []
        informer.on_change(lambda old, new: 1 / 0)  # type: ignore[arg-type]  # fails before it returns
        informer.on_change(lambda old, new: seen.append((said(old), said(new))))
        running = asyncio.ensure_future(informer.run())
        await informer.synced()
        running.cancel()
        return seen

    assert asyncio.run(run()) == [(None, "a@3")]
    assert "a handler failed" in caplog.text


def test_what_a_tenant_wrote_and_nobody_can_read_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of kinds that anybody may define; of those that the server judges, nothing is taken for gone because it cannot be read."""
    bad = queue("b", 4, cpu="much")
    script = Script(listing(5, queue("a", 3, cpu="1"), bad)).then_watch(
        event("ADDED", queue("c", 6, cpu="x")),
        event("MODIFIED", queue("a", 7, cpu="?")),
        event("MODIFIED", queue("b", 8, cpu="2")),
        event("DELETED", queue("c", 9, cpu="x")),
        event("MODIFIED", queue("a", 10, cpu="3")),
    )
    seen = [(said(old), said(new)) for old, new in asyncio.run(_queues(script))]
    assert seen == [(None, "a@3"), ("a@3", None), (None, "b@8"), (None, "a@10")]
    assert (
        "queues b cannot be read and is left out: spec.capability[cpu]: 'much' is not a quantity"
        in caplog.text
    )

    claims = Script(*[listing(5, {"metadata": {"name": "c", "resourceVersion": "5"}, "spec": "?"})] * 2)
    with pytest.raises(ApiError):
        asyncio.run(Client(claims).of(ResourceClaim).list())


def queue(name: str, version: int, **capability: str) -> Obj:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": meta, "spec": {"capability": capability}}


async def _queues(script: Script) -> list[tuple[Obj | None, Obj | None]]:
    """What an informer of queues tells until the script is used up."""
    script.idle = asyncio.Event()
    at = ResourcePath(VOLCANO, "queues", False)
    informer = Informer(Collection(Client(script), at, Typed(Queue)), backoff=Backoff(0.0))
    told: list[tuple[Obj | None, Obj | None]] = []
    informer.on_change(lambda old, new: told.append((_plain(old), _plain(new))))
    running = asyncio.ensure_future(informer.run())
    await asyncio.wait_for(script.idle.wait(), 60)
    running.cancel()
    return told


def _plain(obj: ApiStruct | None) -> Obj | None:
    return None if obj is None else to_builtins(obj)


def test_a_late_handler_hears_of_what_is_there() -> None:
    async def run() -> Seen:
        informer, _ = await follow(Script(listing(5, config_map("a", 3))))
        seen: Seen = []
        informer.on_change(lambda old, new: seen.append((said(old), said(new))))
        return seen

    assert asyncio.run(run()) == [(None, "a@3")]


def test_one_can_wait_for_ones_own_write() -> None:
    async def run() -> None:
        script = Script(listing(5)).then_watch(bookmark(6), event("ADDED", config_map("a", 7)))
        informer = Informer(Client(script).plain("v1", "configmaps"))
        running = asyncio.ensure_future(informer.run())
        await informer.reached(7)
        assert informer.get("a", "ns") is not None
        running.cancel()

    asyncio.run(run())


def test_waiting_for_a_write_that_a_restored_server_has_lost_ends() -> None:
    async def run() -> None:
        script = Script(listing(50), listing(7))
        script.then_watch(
            event("ERROR", status(504, "Timeout", "Too large resource version: 50, current: 7"))
        )
        informer = Informer(Client(script).plain("v1", "configmaps"), backoff=Backoff(0.0))
        waiting = asyncio.ensure_future(informer.reached(51))
        await asyncio.sleep(0)
        running = asyncio.ensure_future(informer.run())
        with pytest.raises(Expired, match="restored to an older state"):
            await asyncio.wait_for(waiting, 60)
        running.cancel()

    asyncio.run(run())


def test_resync_shows_everything_again() -> None:
    async def run() -> None:
        informer = Informer(
            Client(Script(listing(5, config_map("a", 3)))).plain("v1", "configmaps"), resync_seconds=0.001
        )
        again = asyncio.Event()
        informer.on_change(lambda old, new: again.set() if old is new else None)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(again.wait(), 60)
        running.cancel()

    asyncio.run(run())


CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", None])), max_size=25)


@given(CHANGES, st.lists(st.integers(0, 25), max_size=4))
def test_the_copy_and_its_index_follow_any_history_through_any_breaks(
    changes: list[tuple[str, str | None]], breaks: list[int]
) -> None:
    script = Script(listing(1))
    model: dict[str, str] = {}
    lines: list[bytes | Exception] = []
    for number, (name, colour) in enumerate(changes):
        if number in breaks:
            script.then_watch(*lines, Disconnected("cut"))
            lines = []
        obj = config_map(name, number + 2, colour=colour or "")
        if colour is None:
            if model.pop(name, None) is not None:
                lines.append(event("DELETED", obj))
        else:
            lines.append(event("MODIFIED" if name in model else "ADDED", obj))
            model[name] = colour
    script.then_watch(*lines)
    informer, _ = outcome(script, indexes={"colour": lambda obj: [obj["data"]["colour"]]})
    assert {obj["metadata"]["name"]: obj["data"]["colour"] for obj in informer.all()} == model
    for colour in "xy":
        found = {obj["metadata"]["name"] for obj in informer.by("colour", colour)}
        assert found == {name for name, value in model.items() if value == colour}


def by_color(obj: Obj) -> list[str]:
    return [obj["data"]["color"]] if "color" in obj["data"] else []


def test_an_index_that_is_added_later_holds_what_is_there_and_follows_it() -> None:
    async def run() -> None:
        script = Script(listing(5, config_map("a", 3, color="red"), config_map("b", 5)))
        script.then_watch(
            event("MODIFIED", config_map("a", 6, color="blue")),
            event("ADDED", config_map("c", 7, color="red")),
        )
        informer = Informer(Client(script).plain("v1", "configmaps"), "ns")
        found: list[list[str | None]] = []

        def look(*_: object) -> None:
            """The first object is there when the index comes; it moves when the object changes."""
            informer.add_index("color", by_color)
            informer.validate()
            found.append([said(obj) for color in ("red", "blue") for obj in informer.by("color", color)])

        informer.on_change(look)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(informer.reached(7), 60)
        assert found == [["a@3"], ["a@3"], ["a@6"], ["c@7", "a@6"]]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(run())


def test_an_index_keeps_its_first_function() -> None:
    informer, _ = outcome(Script(listing(5, config_map("a", 3, color="red"))), indexes={"color": by_color})
    informer.add_index("color", lambda obj: ["another"])
    assert informer.by("color", "another") == []
    assert len(informer.by("color", "red")) == 1
