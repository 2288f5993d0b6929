"""Leader election over one lease: who may lead, when, and never two."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from allotment.client.client import Client
from allotment.client.leader import LeaderElection, LeaseTimes
from allotment.client.transport import Call, Disconnected, Reply, Stream
from tests.client.script import refusal, reply

Obj = dict[str, Any]


class LeaseServer:
    """One lease, with the server's rule that a write must be based on the newest state."""

    def __init__(self) -> None:
        self.lease: Obj | None = None
        self.version = 0
        self.away = False

    async def call(self, call: Call) -> Reply:
        await asyncio.sleep(0)
        if self.away:
            raise Disconnected("away")
        if call.method == "GET":
            return refusal(404, "NotFound") if self.lease is None else reply(200, self.lease)
        sent: Obj = json.loads(call.body or b"{}")
        if call.method == "POST" and self.lease is not None:
            return refusal(409, "AlreadyExists")
        if call.method == "PUT" and sent["metadata"].get("resourceVersion") != str(self.version):
            return refusal(409, "Conflict")
        self.version += 1
        sent["metadata"]["resourceVersion"] = str(self.version)
        self.lease = sent
        return reply(200, sent)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        raise NotImplementedError
        yield

    async def close(self) -> None:
        """Nothing to close."""

    @property
    def holder(self) -> str:
        return "" if self.lease is None else self.lease["spec"]["holderIdentity"]


QUICK = LeaseTimes(duration=1.0, renew_deadline=0.5, retry=0.01)


class Candidate:
    """Takes part in the election, and counts itself while it leads."""

    leading: list[str]

    def __init__(self, server: LeaseServer, name: str, leading: list[str]) -> None:
        self.name, self._leading = name, leading
        self.elected, self.stopped = asyncio.Event(), asyncio.Event()
        election = LeaderElection(Client(server), "lock", "ns", name, times=QUICK)
        self.task = asyncio.ensure_future(election.run(self._lead))

    async def _lead(self) -> None:
        assert not self._leading, f"{self.name} leads beside {self._leading}"
        self._leading.append(self.name)
        self.stopped.clear()
        self.elected.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._leading.remove(self.name)
            self.stopped.set()

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def test_one_leads_and_hands_over_when_it_ends() -> None:
    async def scenario() -> None:
        server, leading = LeaseServer(), list[str]()
        first = Candidate(server, "first", leading)
        await asyncio.wait_for(first.elected.wait(), 10)
        second = Candidate(server, "second", leading)
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.holder == "first"
        await first.end()
        assert server.holder in ("", "second")  # given up, not waited for
        await asyncio.wait_for(second.elected.wait(), 10)
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1
        await second.end()

    asyncio.run(scenario())


def test_a_leader_that_cannot_renew_stops_and_another_takes_over_after_the_lease_expired() -> None:
    async def scenario() -> None:
        server, leading = LeaseServer(), list[str]()
        first = Candidate(server, "first", leading)
        await asyncio.wait_for(first.elected.wait(), 10)
        server.away = True
        await asyncio.wait_for(first.stopped.wait(), 10)
        assert leading == []
        await first.end()
        assert server.holder == "first"  # it could not give the lease up
        server.away = False
        second = Candidate(server, "second", leading)
        await asyncio.wait_for(second.elected.wait(), 10)
        await second.end()

    asyncio.run(scenario())


def test_it_returns_when_the_work_is_done() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        worked = []

        async def lead() -> None:
            worked.append(server.holder)

        await LeaderElection(Client(server), "lock", "ns", "me", times=QUICK).run(lead)
        assert worked == ["me"]
        assert server.holder == ""

    asyncio.run(scenario())


def test_a_renewal_that_arrives_late_does_not_keep_the_lease() -> None:
    class Late(LeaseServer):
        """A renewal that was cancelled on the client arrives between the look at the lease and the giving up."""

        late = True

        async def call(self, call: Call) -> Reply:
            if self.late and call.method == "PUT" and b'"holderIdentity":""' in (call.body or b""):
                self.late = False
                assert self.lease is not None
                self.version += 1
                self.lease["metadata"]["resourceVersion"] = str(self.version)
            return await super().call(call)

    async def scenario() -> None:
        server = Late()

        async def work() -> None:
            """Done at once."""

        await LeaderElection(Client(server), "lock", "ns", "a", times=QUICK).run(work)
        assert (server.holder, server.late) == ("", False)

    asyncio.run(scenario())


def test_an_error_in_the_work_comes_out_and_the_lease_is_given_up() -> None:
    async def scenario() -> None:
        server = LeaseServer()

        async def lead() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await LeaderElection(Client(server), "lock", "ns", "me", times=QUICK).run(lead)
        assert server.holder == ""

    asyncio.run(scenario())


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="duration must exceed renew_deadline"):
        LeaseTimes(duration=5, renew_deadline=5)
