"""Why something does not fit: a tree of node, request and device, and one sentence for each.

For every device the first thing that rules it out is named: what the device is (class, selectors, capacity, taints) before what is in use.
Devices with the same reason fold into a count: ``8 devices: 5 in use, 2 fail `memory >= 80Gi` (40Gi), 1 tainted``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allotment.allocator.errors import AllocationError
from allotment.allocator.phrases import counted, cut, of_one, on_one_line, several, values_wanted
from allotment.allocator.selector import NotKnownYet
from allotment.api.quantity import Quantity
from allotment.api.text import few, plural

if TYPE_CHECKING:
    from allotment.allocator.matching import Shortage
    from allotment.allocator.pool import Pool, PooledDevice
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, RequestDemand
    from allotment.allocator.selector import Criterion

FITS = "fits"
IN_USE = "in-use"
_EXPRESSION_LENGTH = 120  # of one that a device fails, characters that are shown


@dataclass(frozen=True, slots=True)
class DeviceReason:
    """The first thing that keeps a device from an ask; ``code`` FITS if nothing does by itself."""

    device: str
    code: str  # in-use, selector, node, capacity, counters, groups, taint, constraint, feature, error, fits
    text: str  # what many devices can have in common, to be counted
    detail: str = ""  # what is this device's own: values read, who holds it

    @property
    def words(self) -> str:
        """The text, said of this one device."""
        return of_one(self.text)

    def __str__(self) -> str:
        return f"{self.device}: {self.words}" + (f" ({self.detail})" if self.detail else "")


@dataclass(slots=True)
class AskReason:
    """How one ask fares on its own: what it needs and what each device says."""

    claim: str
    request: str
    needed: int
    devices: list[DeviceReason]
    words: str = ""  # instead of devices, where those are not the point
    excused: bool = False  # another alternative of the same request has enough devices by itself

    @property
    def fitting(self) -> int:
        return sum(reason.code == FITS for reason in self.devices)

    @property
    def short(self) -> bool:
        return self.fitting < self.needed and not self.excused

    def __str__(self) -> str:
        what = f"request {self.request} needs {self.needed}, {self.fitting} of {plural(len(self.devices), 'device')} fit"
        if self.words:
            return f"request {self.request}: {self.words}"
        rest = fold(reason for reason in self.devices if reason.code != FITS)
        return f"{what}: {rest}" if rest else what


@dataclass(slots=True)
class NodeReason:
    """Why the claims do not fit on a node."""

    node: str
    asks: list[AskReason]
    together: str = ""  # what goes wrong although every request has enough devices by itself
    pools: list[str] = field(default_factory=list)  # pools that could not be used

    def __str__(self) -> str:
        short = [str(ask) for ask in self.asks if ask.short or ask.words]
        parts = short or [self.together or "no combination of devices satisfies all requests"]
        return "; ".join([*parts, *self.pools])

    def tree(self) -> dict[str, Any]:
        """The same, unfolded, as plain data."""
        return {
            "node": self.node,
            "summary": str(self),
            "requests": [
                {
                    "claim": ask.claim,
                    "request": ask.request,
                    "needed": ask.needed,
                    "fitting": ask.fitting,
                    "summary": str(ask),
                    "devices": [
                        {
                            "device": reason.device,
                            "code": reason.code,
                            "text": reason.words,
                            "detail": reason.detail,
                        }
                        for reason in ask.devices
                    ],
                }
                for ask in self.asks
            ],
            "pools": self.pools,
        }


def fold(reasons: Iterable[DeviceReason]) -> str:
    """Counts equal reasons, the most frequent first; up to three different details are shown."""
    counts: Counter[tuple[str, str]] = Counter()
    details: dict[tuple[str, str], Counter[str]] = {}
    for reason in reasons:
        key = (reason.code, reason.text)
        counts[key] += 1
        if reason.detail:
            details.setdefault(key, Counter())[reason.detail] += 1
    parts = []
    for key, count in counts.most_common():
        shown = [detail for detail, _ in details.get(key, Counter()).most_common()]
        suffix = f" ({several(shown)})" if shown else ""
        parts.append(f"{counted(count, key[1])}{suffix}")
    return ", ".join(parts)


def explain(problem: Problem, shortage: Shortage | None) -> NodeReason:
    """Judges every device for every ask against what is held before the search, and says what fails together."""
    asks: list[AskReason] = []
    for request in problem.demand.requests:
        alternatives = [_fare(problem, request, ask) for ask in request.asks]
        if not all(ask.short or ask.words for ask in alternatives):
            for ask in alternatives:
                ask.excused, ask.words = True, ""
        asks += alternatives
    pools = [_pool_words(pool) for pool in problem.site.pools if not pool.usable]
    return NodeReason(problem.site.node.metadata.name, asks, _together(problem, shortage), pools)


def _fare(problem: Problem, request: RequestDemand, ask: Ask) -> AskReason:
    reason = AskReason(
        claim=problem.demand.claims[request.claim].metadata.key,
        request=ask.name,
        needed=max(problem.terms.size(ask), 1) if ask.all else ask.count,
        devices=[_judge(problem, request, ask, position) for position in range(len(problem.devices))],
    )
    if ask.all:
        reason.words = _all_words(problem, ask, reason)
    return reason


def _judge(problem: Problem, request: RequestDemand, ask: Ask, position: int) -> DeviceReason:
    """What the device is comes before who has it: a device that is no good anyway is not what somebody holds."""
    device = problem.devices[position]
    bit, name, suits = 1 << position, str(device.id), problem.suits[ask.shape]
    used = None
    if problem.used & bit and not ask.admin:
        holders = problem.held.holders(device.id)
        used = DeviceReason(name, IN_USE, "in use", f"by {', '.join(holders)}" if holders else "")
    try:
        failed = suits.fails(device)
        suits.judge(position)
    except AllocationError as exc:
        # Also of a device in use: the search asks nothing of it now, but will once the device is free.
        return _error(name, str(exc))
    if isinstance(failed, str):
        if isinstance(failed, NotKnownYet):
            return used or DeviceReason(name, "unknown", failed)
        return DeviceReason(name, "node" if "node" in failed else "feature", failed)
    if failed is not None:
        return _selector_reason(name, device, failed)
    if not suits.selectable & bit:
        return DeviceReason(name, "capacity", "lack the capacity asked for", _capacity_detail(device, ask))
    forbidden = suits.forbids(device)
    if forbidden is not None:
        return DeviceReason(name, "taint" if "taint" in forbidden else "feature", forbidden)
    if used is not None:
        return used
    return _judge_use(problem, ask, position) or _judge_constraints(problem, request, ask, position)


def _judge_use(problem: Problem, ask: Ask, position: int) -> DeviceReason | None:
    device, bit = problem.devices[position], 1 << position
    draw = problem.draws.get(position)
    if draw is not None and problem.counters is not None and not problem.shareable & problem.shared & bit:
        if draw.pool in problem.counters.overdrawn:
            return DeviceReason(str(device.id), "counters", "are in a pool whose counters are overdrawn")
        short = problem.counters.short_of(draw)
        if short:
            detail = ", ".join(f"{set}.{counter} short by {missing}" for set, counter, missing in short)
            return DeviceReason(str(device.id), "counters", "lack shared counters", detail)
        before = problem.counters.take(draw)
        if before is None:
            words = "share no compatibility group with devices in use"
            if not draw.amounts:  # a set without counters is a lock
                words = "are locked, as another way to split the same device is in use"
            return DeviceReason(str(device.id), "groups", words)
        problem.counters.give(draw, before)
    if problem.metered & bit:
        used = problem.consumed.get(position, {})
        amounts = problem.amounts(ask.shape, position)
        for name, offer in device.spec.capacity.items():
            over = amounts[name] + used.get(name, 0) - offer.value.nanos
            if over > 0:
                return DeviceReason(
                    str(device.id),
                    "capacity",
                    "have too little capacity left",
                    f"{name} short by {Quantity(over, offer.value.format)}",
                )
    return None


def _judge_constraints(problem: Problem, request: RequestDemand, ask: Ask, position: int) -> DeviceReason:
    name = str(problem.devices[position].id)
    for number, values in zip(ask.constraints, problem.terms.values.get(ask, ()), strict=True):
        relation = problem.terms.constraints[request.claim][number].relation
        if position in values.errors:
            return _error(name, str(values.errors[position]))
        if not values.present >> position & 1:
            return DeviceReason(name, "constraint", f"lack attribute {relation.attribute} of a constraint")
    return DeviceReason(name, FITS, "fit")


def _error(name: str, words: str) -> DeviceReason:
    """The words without the device's name, so that devices with the same error fold into one line."""
    return DeviceReason(name, "error", "cannot be judged", words.replace(f" on device {name}", ""))


def _selector_reason(name: str, device: PooledDevice, failed: Criterion) -> DeviceReason:
    short = cut(on_one_line(failed.expression), _EXPRESSION_LENGTH)
    return DeviceReason(name, "selector", f"fail `{short}`", failed.read_by(device))


def _capacity_detail(device: PooledDevice, ask: Ask) -> str:
    parts = []
    for name, wanted in ask.capacity.items():
        offer = device.spec.capacity.get(name)
        parts.append(f"{name}: {offer.value if offer is not None else 'none'}, asked {wanted}")
    return ", ".join(parts)


def _all_words(problem: Problem, ask: Ask, reason: AskReason) -> str:
    if not problem.terms.all[ask]:
        return f"asks for all devices, but none matches: {fold(reason.devices) or 'there are no devices'}"
    blocked = [
        each
        for position, each in enumerate(reason.devices)
        if position in problem.terms.all[ask] and each.code != FITS
    ]
    if blocked:
        return f"asks for all {plural(len(problem.terms.all[ask]), 'device')}, but {fold(blocked)}"
    return ""


def _pool_words(pool: Pool) -> str:
    if pool.incomplete:
        return f"pool {pool.id} is incomplete ({pool.slices} of {pool.announced} slices)"
    return f"pool {pool.id} is invalid ({pool.invalid})"


def _together(problem: Problem, shortage: Shortage | None) -> str:
    if shortage is not None and len(shortage.requests) > 1:
        names = [problem.demand.requests[number].name for number, _ in shortage.requests]
        suit = "suits" if shortage.available == 1 else "suit"
        return (
            f"requests {few(names)} together need {shortage.needed} devices, "
            f"but only {plural(shortage.available, 'device')} {suit} any of them"
        )
    for number, constraints in enumerate(problem.terms.constraints):
        claim = problem.demand.claims[number].metadata.key
        for constraint in constraints:
            kind = values_wanted(distinct=constraint.distinct)
            if constraint.holders:
                best = max(mask.bit_count() for mask in constraint.holders.values())
                have = (
                    f"there are {len(constraint.holders)} values"
                    if constraint.distinct
                    else f"at most {plural(best, 'device')} share one"
                )
                return f"claim {claim} wants {kind} of {constraint.relation.attribute}; {have}, and no choice satisfies all requests"
    if any(draw.amounts for draw in problem.draws.values()):
        return "the devices that suit draw on the same counters, which have too little left for all requests"
    if problem.draws:
        return "the devices that suit are alternative ways to split the same devices, and exclude each other"
    return ""
