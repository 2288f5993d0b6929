"""A plan for the dashboard, made in a process of its own, because it may take long and must not delay anyone.

The process reads the cluster through the server, over a pipe, with the rights of the logged-in user. It gets the catalogue on
standard input, writes the answer to standard output, and ends. If it takes too long, it is killed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from allotment.api.autoscaling import InstanceType, NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import decode, encode
from allotment.api.pools import ResourcePool
from allotment.api.status import Forbidden, InternalError, Timeout
from allotment.api.storage import KINDS as STORAGE
from allotment.apiserver.auth import users
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.over_pipe import Pipe
from allotment.daemons.log import set_up

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.client.transport import Transport
    from allotment.insight.snapshot import Snapshot

PLAN_SECONDS = 60.0
"""How long a plan may take."""
_NICE = 10  # requests to the server come first
_PERSON = "person"
_FIELDS: dict[str, type[ApiStruct]] = {
    "types": InstanceType,
    "pools": NodePool,
    "groups": NodeGroup,
    "overlays": NodeOverlay,
}


async def plan_through(person: Transport, catalogue: Catalogue) -> dict[str, Any]:
    """The answer to a user who asks for a plan on the page; ``person`` calls the server as that user. Raises StatusError."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server
        )
    pipe = await Pipe.over(ours, {_PERSON: person})
    try:
        async with asyncio.timeout(PLAN_SECONDS):
            told, _ = await process.communicate(_written(catalogue))
    except TimeoutError:
        raise Timeout(
            f"no plan was found within {PLAN_SECONDS:.0f} s; the command allot plan has no such limit"
        ) from None
    finally:
        await pipe.close()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise InternalError("the plan failed; see the server's log for the reason")
    found: dict[str, Any] = msgspec.json.decode(told)
    if "refusal" in found:
        raise Forbidden(found["refusal"], {})
    return found


def _written(catalogue: Catalogue) -> bytes:
    return msgspec.json.encode(
        {name: [msgspec.Raw(encode(each)) for each in getattr(catalogue, name).values()] for name in _FIELDS}
    )


def _read(data: bytes) -> Catalogue:
    fields = msgspec.json.decode(data, type=dict[str, list[msgspec.Raw]])
    made: dict[str, dict[str, Any]] = {}
    for name, kind in _FIELDS.items():
        objects: list[Any] = [decode(kind, bytes(each)) for each in fields[name]]
        made[name] = {each.metadata.name: each for each in objects}
    return Catalogue(**made)


# --- the process itself ---


async def _look(end: socket.socket) -> Snapshot:
    from allotment.insight.planning import KINDS
    from allotment.insight.snapshot import look_at

    pipe = await Pipe.over(end)
    try:
        return await look_at(Client(pipe.to(_PERSON), manager="allotment-dashboard"), KINDS, ())
    finally:
        await pipe.close()


def _refusal(snapshot: Snapshot) -> str:
    """The missing rights. ResourcePools are not required, because they only count the claims that a plan needs to see.
    Volumes are not required either; without them, the plan notes that it ignores them."""
    optional = (ResourcePool, *STORAGE)
    denied = {plural for kind, plural in snapshot.denied.items() if kind not in optional}
    denied |= {"resourceclaims"} if snapshot.namespaces is not None else set()
    if not denied:
        return ""
    return (
        f"a plan requires rights that you do not have: to list {', '.join(sorted(denied))} in the whole cluster; "
        f"the roles {users.VIEWER} and view grant them"
    )


def _answer(end: socket.socket, catalogue: Catalogue) -> dict[str, Any]:
    from allotment.dashboard.plan_document import plan_document
    from allotment.insight.errors import Failure
    from allotment.insight.planning import planned, waiting_in

    try:
        seen = uvloop.run(_look(end))
    except Failure as exc:
        return {"refusal": exc.message}
    if refusal := _refusal(seen):
        return {"refusal": refusal}
    waiting, own = waiting_in(seen)
    plan = planned(waiting, catalogue, own)
    return plan_document(plan, waiting.notes)


def main(descriptor: str) -> int:
    set_up(logging.WARNING)
    os.nice(_NICE)
    most = int(PLAN_SECONDS) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))  # in case nobody is left to kill it
    gc.disable()  # the process reads much at once, keeps it and ends
    catalogue = _read(sys.stdin.buffer.read())
    told = _answer(socket.socket(fileno=int(descriptor)), catalogue)
    sys.stdout.buffer.write(msgspec.json.encode(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
