"""One problem per line in, one answer per line out: the protocol of ``--ndjson``, for programs.

``allocate_line`` and ``cel_line`` are total: for any text, they return one line of JSON. They answer a line that is not a
problem, and even a fault of Allotment, with an error, so that a long stream survives both.

The allocator gets a problem as it is, neither defaulted nor validated, because callers want to know what the allocator itself
does with it. Fields that the protocol does not have are ignored. Allotment gets share ids from outside everywhere, and this
protocol has none to give, so every share is called ``SHARE_ID``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from allotment.allocator.features import Features
from allotment.allocator.held import Held
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Outcome, Unsatisfiable
from allotment.allocator.phrases import gave_up
from allotment.allocator.pool import DeviceID
from allotment.api.codec import DecodeError, decode, to_builtins
from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.api.quantity import Quantity, QuantityError
from allotment.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from allotment.api.text import printable_json

if TYPE_CHECKING:
    from allotment.allocator.reasons import NodeReason

SHARE_ID = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"

Answer = dict[str, Any]


class LineError(ValueError):
    """The line is JSON, but not a question of this protocol."""


class DeviceInUse(ApiStruct, frozen=True, kw_only=True):
    """A device in use; ``consumed_capacity`` is only set if shares of it are counted."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)

    @property
    def id(self) -> DeviceID:
        return DeviceID(self.driver, self.pool, self.device)


class ProblemLine(ApiStruct, frozen=True, kw_only=True):
    """One line of ``allot allocate --ndjson``."""

    name: str = ""
    node: Node | None = None
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claims_to_allocate: tuple[ResourceClaim, ...] = ()
    allocated_devices: tuple[DeviceInUse, ...] = ()
    allocated_shared_devices: tuple[DeviceInUse, ...] = msgspec.field(
        default=(), name="allocatedSharedDeviceIDs"
    )
    allocated_capacity_devices: tuple[DeviceInUse, ...] = ()
    features: dict[str, bool] | None = None  # absent: all; otherwise only those that are true


def allocate_line(line: str) -> str:
    """Answers one allocation problem. Never raises."""
    return _answered(line, _allocate, {"results": [], "reasons": [], "steps": 0, "ns": 0})


def cel_line(line: str) -> str:
    """Answers one question about an expression, on a device or in the plain language. Never raises."""
    from allotment.cli.ndjson.expression_line import evaluate_line

    return _answered(line, evaluate_line, {})


def _answered(line: str, answer: Callable[[bytes], Answer], refusal: Answer) -> str:
    data = line.encode("utf-8", "surrogatepass")  # text that is not UTF-8 then gets an error of its own
    try:
        return _json(answer(data))
    except DecodeError as exc:
        error = str(exc) if exc.path else f"the line {exc.message}"
    except UnicodeError:
        error = "the line is not valid UTF-8 text"
    except LineError as exc:
        error = str(exc)
    except Exception as exc:  # a fault of Allotment costs one answer, not the stream
        error = f"internal error, please report it: {type(exc).__name__}: {exc}"
    return _json({"name": _name_of(data), "ok": False, "error": error, **refusal})


def _allocate(data: bytes) -> Answer:
    from allotment.allocator.allocate import Allocator

    problem = decode(ProblemLine, data)
    if problem.node is None:
        raise LineError("node: is missing; give the node that the devices must be reachable from")
    allocator = Allocator(problem.slices, problem.classes, _features(problem.features))
    held = _holdings(problem)
    claims = problem.claims or problem.claims_to_allocate
    start = time.perf_counter_ns()
    outcome = allocator.allocate(problem.node, claims, held, share_id=lambda claim, result: SHARE_ID)
    ns = time.perf_counter_ns() - start
    return {"name": problem.name, **_told(outcome), "steps": outcome.steps, "ns": ns}


def _features(switches: dict[str, bool] | None) -> Features:
    try:
        return Features.of(switches)
    except ValueError as exc:
        raise LineError(f"features: {exc}") from exc


def _told(outcome: Outcome) -> Answer:
    results: list[Answer] = []
    reasons: list[str] = []
    error = ""
    match outcome:
        case Allocated():
            results = [_written(result) for result in outcome.results]
        case Unsatisfiable():
            reasons = _sentences(outcome.reasons())
        case InvalidInput():
            error = str(outcome.error)
        case GaveUp():
            error = f"{gave_up(outcome.steps)}: neither a solution nor a proof that there is none"
    return {"ok": isinstance(outcome, Allocated), "error": error, "results": results, "reasons": reasons}


def _written(result: AllocationResult) -> Answer:
    written = to_builtins(result)
    for device, shown in zip(result.devices.results, written["devices"].get("results", ()), strict=True):
        for name, amount in device.consumed_capacity.items():
            shown["consumedCapacity"][name] = _exact(amount)
    return written


def _exact(amount: Quantity) -> str:
    """The canonical text, unless that changes the amount: Kubernetes writes decimal amounts from 1e21 on without their
    exponent, so those are written out in full."""
    text = str(amount)
    with suppress(QuantityError):
        if Quantity.parse(text) == amount:
            return text
    whole, billionths = divmod(amount.nanos, 10**9)
    return f"{whole}.{billionths:09}".rstrip("0").rstrip(".")


def _sentences(reason: NodeReason) -> list[str]:
    short = [f"claim {ask.claim}: {ask}" for ask in reason.asks if ask.short or ask.words]
    return [*(short or [reason.together or str(reason)]), *reason.pools]


def _holdings(problem: ProblemLine) -> Held:
    return Held(
        devices=(held.id for held in problem.allocated_devices),
        shared=(held.id for held in problem.allocated_shared_devices),
        consumed=_total(problem.allocated_capacity_devices),
    )


def _total(shares: Iterable[DeviceInUse]) -> dict[DeviceID, dict[str, int]]:
    total: dict[DeviceID, dict[str, int]] = {}
    for share in shares:
        of_device = total.setdefault(share.id, {})
        for name, amount in share.consumed_capacity.items():
            of_device[name] = of_device.get(name, 0) + amount.nanos
    return total


class _Named(msgspec.Struct):
    name: str = ""


def _name_of(data: bytes) -> str:
    """The name of a line, even if the rest cannot be read."""
    try:
        return msgspec.json.decode(data, type=_Named).name
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def _json(answer: Answer) -> str:
    return printable_json(msgspec.json.encode(answer).decode())
