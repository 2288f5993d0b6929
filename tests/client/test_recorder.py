"""Events: told at once, written soon, the same words counted."""

import asyncio
import json
from datetime import UTC, datetime

from allotment.client import recorder as module
from allotment.client.client import Client
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.transport import Call, Reply
from tests.client.script import Script, refusal, reply

POD = Subject("v1", "Pod", "p", "ns", "uid-p")
NODE = Subject("v1", "Node", "n", uid="uid-n")


def recorder(script: Script) -> Recorder:
    return Recorder(Client(script), "tester", now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_an_event_says_about_what_and_by_whom() -> None:
    async def scenario() -> None:
        script = Script(reply(201, {}))
        teller = recorder(script)
        teller.tell(POD, EventType.WARNING, "FailedScheduling", "no GPU is free")
        await teller.flush()
        assert script.calls[0].path == "/api/v1/namespaces/ns/events"
        sent = json.loads(script.calls[0].body or b"")
        assert sent["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": "ns",
            "uid": "uid-p",
        }
        assert (sent["type"], sent["reason"], sent["message"]) == (
            "Warning",
            "FailedScheduling",
            "no GPU is free",
        )
        assert (sent["count"], sent["firstTimestamp"]) == (1, "2026-01-02T03:04:05Z")

    asyncio.run(scenario())


def test_the_same_words_become_one_event_with_a_count() -> None:
    async def scenario() -> None:
        script = Script(reply(201, {}), reply(200, {}))
        teller = recorder(script)
        for _ in range(3):
            teller.tell(POD, EventType.NORMAL, "Waiting", "still")
        await teller.flush()
        teller.tell(POD, EventType.NORMAL, "Waiting", "still")
        await teller.flush()
        assert json.loads(script.calls[0].body or b"")["count"] == 3
        assert (script.calls[1].method, json.loads(script.calls[1].body or b"")["count"]) == ("PATCH", 4)

    asyncio.run(scenario())


def test_an_event_that_expired_is_told_anew() -> None:
    async def scenario() -> None:
        script = Script(reply(201, {}), refusal(404, "NotFound"), reply(201, {}))
        teller = recorder(script)
        for _ in range(2):
            teller.tell(POD, EventType.NORMAL, "Waiting", "still")
            await teller.flush()
        assert [call.method for call in script.calls] == ["POST", "PATCH", "POST"]

    asyncio.run(scenario())


def test_events_about_the_cluster_live_in_default_and_refusals_are_only_counted() -> None:
    async def scenario() -> None:
        script = Script(refusal(403, "Forbidden"))
        teller = recorder(script)
        teller.tell(NODE, EventType.NORMAL, "Ready", "it is")
        await teller.flush()
        assert script.calls[0].path == "/api/v1/namespaces/default/events"
        assert teller.lost == 1

    asyncio.run(scenario())


def test_a_burst_keeps_the_newest() -> None:
    async def scenario() -> None:
        teller = recorder(Script())
        for number in range(module.MAX_WAITING_EVENTS + 5):
            teller.tell(POD, EventType.NORMAL, "Busy", str(number))
        assert teller.lost == 5

    asyncio.run(scenario())


def test_more_than_a_burst_waits_its_turn_and_is_not_lost() -> None:
    async def scenario() -> None:
        script = Script(*(reply(201, {}) for _ in range(5)))
        teller = Recorder(Client(script), "tester", per_second=0.001, burst=3)
        for number in range(5):
            teller.tell(POD, EventType.NORMAL, "Busy", str(number))
        running = asyncio.ensure_future(teller.run())
        async with asyncio.timeout(10):
            while len(script.replies) > 2:
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert sent(script, "message") == ["0", "1", "2"]  # the fourth has its turn in a quarter of an hour
        teller.tell(POD, EventType.NORMAL, "Busy", "4")
        await teller.flush()
        assert sent(script, "message") == ["0", "1", "2", "3", "4"]
        assert sent(script, "count") == [1, 1, 1, 1, 2]
        assert teller.lost == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_busy_server_is_told_less_often() -> None:
    async def scenario() -> None:
        clock = [0.0]
        loop = asyncio.get_running_loop()
        loop.time = lambda: clock[0]  # type: ignore[method-assign]  # no time passes but what the test says

        class Busy(Script):
            async def call(self, call: Call) -> Reply:
                clock[0] += 0.1
                return await super().call(call)

        script = Busy(reply(201, {}), reply(201, {}))
        teller = recorder(script)
        for number in range(2):
            teller.tell(POD, EventType.NORMAL, "Busy", str(number))
        running = asyncio.ensure_future(teller.run())
        written = []
        for seconds in (0.0, module.REST_FACTOR * 0.1 - 0.05, 0.1):
            clock[0] += seconds
            for _ in range(20):
                await asyncio.sleep(0)
            written.append(len(script.calls))
        assert written == [1, 1, 2]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def sent(script: Script, field: str) -> list[object]:
    return [json.loads(call.body or b"")[field] for call in script.calls]
