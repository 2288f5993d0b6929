"""Why a node cannot take a pod's claims, in a few words that many nodes can have in common.

The words complete "8 nodes …": a plural verb first, numbers where they help, and no names but those of classes, capacities
and counters: "have every gpu in use", "have only 40Gi gpu, need 80Gi", "have 2 free gpu, need 9".

The properties of the devices come before their use: if even an empty node would not do, that is the reason. If several requests
fail, the first counts; among the alternatives of one request, the one that came nearest.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from allotment.allocator.errors import nameless
from allotment.allocator.phrases import HAVE_TAINT, cut, on_one_line, values_wanted
from allotment.allocator.semantic import OfDriver
from allotment.api.quantity import Quantity

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, RequestDemand
    from allotment.allocator.selector import Criterion

GENERIC = "cannot take the pod's claims"
_LONGEST_ERROR = 300  # characters of a mistake that makes claims impossible to judge
_MOST_TAINTS = 3
_AT_LEAST = re.compile(r"quantity\(\s*[\"']([^\"']+)[\"']\s*\)")


class _NearMiss(NamedTuple):
    """How near one ask came to fitting, and what stopped it. Less ``missing`` is nearer."""

    stage: int  # 0: the devices themselves, 1: what is in use of them, 2: nothing by itself
    missing: int
    words: str


class NodeWording(NamedTuple):
    """The words for a node, and whether the answer would differ if nothing were in use there, as far as that is cheap to know.
    ``lasting`` means that it certainly would not."""

    words: str
    by_use: bool
    lasting: bool = False


def refusal(problem: Problem) -> NodeWording:
    """Why the claims do not fit on a node."""
    fares = [_nearest(problem, request) for request in problem.demand.requests]
    for stage in (0, 1):
        for fare in fares:
            if fare.stage == stage:
                return NodeWording(fare.words, stage == 1, stage == 0 and _lacking(problem))
    return NodeWording(_together(problem), anything_in_use(problem))


def _lacking(problem: Problem) -> bool:
    """Whether some request needs more devices, in each of its alternatives, than the node has that suit it. If expressions can
    fail, this is not certain: use decides which expressions are evaluated, and so what the words are."""
    requests = problem.demand.requests
    return not problem.terms.may_fail() and any(
        all(_too_few(problem, ask) for ask in request.asks) for request in requests
    )


def _too_few(problem: Problem, ask: Ask) -> bool:
    """Certain only for devices that each count once."""
    suits = problem.suits[ask.shape]
    suited = suits.selectable & suits.allowed
    countable = not (ask.all or ask.admin or suited & problem.shareable)
    return countable and suited.bit_count() < ask.count


def anything_in_use(problem: Problem) -> bool:
    """Whether any device that matters to the claims is in use."""
    mattering = 0
    for suits in problem.suits:
        suits.judge_all()
        mattering |= suits.selectable
        for position in suits.errors:
            mattering |= 1 << position
    if problem.site.drawing:
        mattering = problem.site.plan.related(mattering)
    return bool(mattering & (problem.used | problem.shared))


def unjudged(error: str) -> str:
    """The words for an error of the allocator. They leave out the device or pool that raised it, so that nodes with the same
    error are counted together. Besides, equal nodes share one answer, so the device may be another node's."""
    return f"cannot judge the pod's claims: {nameless(error)[:_LONGEST_ERROR]}"


def _nearest(problem: Problem, request: RequestDemand) -> _NearMiss:
    fares = [_fare(problem, ask) for ask in request.asks]
    return max(fares, key=lambda fare: (fare.stage, -fare.missing))


def _fare(problem: Problem, ask: Ask) -> _NearMiss:
    suits = problem.suits[ask.shape]
    suits.judge_all()
    suited = suits.selectable & suits.allowed
    needed = max(problem.terms.size(ask), 1)
    have = suited.bit_count()
    if have < needed:
        return _NearMiss(0, needed - have, _static_words(problem, ask, have, needed))
    free = suited if ask.admin else suited & ~problem.used
    if free.bit_count() < needed:
        words = _count_words(ask, free.bit_count(), needed, "free ", _picky(problem, ask))
        return _NearMiss(
            1, needed - free.bit_count(), words + _besides(_tainted(problem, ask, ~problem.used))
        )
    left = [position for position in range(len(problem.devices)) if free >> position & 1]
    short = [_shortage(problem, ask, position) for position in left]
    fitting = sum(not each for each in short)
    if fitting < needed:
        return _NearMiss(1, needed - fitting, _most_common(short))
    return _NearMiss(2, 0, "")


def _count_words(ask: Ask, have: int, needed: int, kind: str, picky: str = "") -> str:
    """``picky`` is ``matching`` where there are more of the class, which the request itself does not choose."""
    if have == 0:
        return f"have every {picky}{ask.class_name} in use"
    return f"have {have} {kind}{picky}{ask.class_name}, need {needed}"


def _picky(problem: Problem, ask: Ask) -> str:
    suits = problem.suits[ask.shape]
    for position, device in enumerate(problem.devices):
        known = suits.selectable >> position & 1 or position in suits.errors
        if not known and not _fails_class(ask, device):
            return "matching "
    return ""


# --- what the devices are ---


def _static_words(problem: Problem, ask: Ask, have: int, needed: int) -> str:
    tainted = _tainted(problem, ask)
    if have:
        return _count_words(ask, have, needed, "", _picky(problem, ask)) + _besides(tainted)
    if tainted:
        return f"have every matching {ask.class_name} tainted ({tainted})"
    of_class = [
        (position, device) for position, device in enumerate(problem.devices) if not _fails_class(ask, device)
    ]
    if not of_class:
        broken = [pool for pool in problem.site.pools if not pool.usable]
        return (
            f"have a pool of devices that {'is incomplete' if broken[0].incomplete else 'is invalid'}"
            if broken
            else f"have no {ask.class_name}"
        )
    return _most_common([_flaw(problem, ask, position, device) for position, device in of_class])


def _tainted(problem: Problem, ask: Ask, among: int = -1) -> str:
    """How many devices only a taint keeps from the ask, for each taint: ``2 with taint hot=yes:NoSchedule``; empty if none."""
    suits, counts = problem.suits[ask.shape], Counter[str]()
    kept = suits.selectable & ~suits.allowed & among
    for position, device in enumerate(problem.devices):
        forbidden = suits.forbids(device) if kept >> position & 1 else None
        if forbidden is not None and forbidden.startswith(HAVE_TAINT):
            counts[forbidden.removeprefix(HAVE_TAINT)] += 1
    told = [f"{count} with taint {taint}" for taint, count in counts.most_common(_MOST_TAINTS)]
    others = counts.total() - sum(count for _, count in counts.most_common(_MOST_TAINTS))
    return ", ".join([*told, f"{others} with other taints"] if others else told)


def _besides(tainted: str) -> str:
    return f" (besides {tainted})" if tainted else ""


def _fails_class(ask: Ask, device: PooledDevice) -> bool:
    return any(
        test.ask(device) is False
        for test, place in zip(ask.tests, ask.places, strict=True)
        if place.startswith("class ") or isinstance(test, OfDriver)
    )


def _flaw(problem: Problem, ask: Ask, position: int, device: PooledDevice) -> str:
    """What is wrong with one device of the class, taints aside."""
    suits = problem.suits[ask.shape]
    if position in suits.errors:
        return unjudged(str(suits.errors[position]))
    failed = suits.fails(device)
    if isinstance(failed, str):
        return f"have {ask.class_name} that {failed}"
    if failed is not None:
        return _selector_words(ask, device, failed)
    forbidden = suits.forbids(device)
    return _capacity_words(ask, device) if forbidden is None else f"have {ask.class_name} that {forbidden}"


def _selector_words(ask: Ask, device: PooledDevice, failed: Criterion) -> str:
    wanted = _AT_LEAST.findall(failed.expression)
    amounts = [offer.value for name, offer in device.spec.capacity.items() if _reads(failed, name)]
    if len(wanted) == 1 and len(amounts) == 1:
        return f"have only {amounts[0]} {ask.class_name}, need {wanted[0]}"
    expression = cut(on_one_line(failed.expression))
    read = failed.read_by(device)
    return f"have no {ask.class_name} with `{expression}`" + (f" ({read})" if read else "")


def _reads(test: Criterion, name: str) -> bool:
    """Whether a test looks at a capacity of this name, with or without its domain."""
    bare = name.rpartition("/")[2]
    return any(
        isinstance(part.name, tuple)
        and len(part.name) == 3
        and part.name[0] == "capacity"
        and part.name[2] == bare
        for part in test.parts
    )


def _capacity_words(ask: Ask, device: PooledDevice) -> str:
    for name, wanted in ask.capacity.items():
        offer = device.spec.capacity.get(name)
        if offer is None:
            return f"have {ask.class_name} without {name}"
        if offer.value < wanted:
            return f"have only {offer.value} {ask.class_name}, need {wanted}"
    return f"have no {ask.class_name} whose policy serves the capacity asked for"


# --- what is in use of them ---


def _shortage(problem: Problem, ask: Ask, position: int) -> str:
    """What a suitable device lacks although no claim holds the whole device; empty if it lacks nothing."""
    bit, draw, counters = 1 << position, problem.draws.get(position), problem.counters
    if draw is not None and counters is not None and not problem.shareable & problem.shared & bit:
        if draw.pool in counters.overdrawn:
            return "have overdrawn counters"
        short = counters.short_of(draw)
        if short:
            return f"are short of counter {short[0][1]} by {short[0][2]} for {ask.class_name}"
        before = counters.take(draw)
        if before is None:
            return f"have every {ask.class_name} split another way"
        counters.give(draw, before)
    if problem.metered & bit:
        used, amounts = problem.consumed.get(position, {}), problem.amounts(ask.shape, position)
        for name, offer in problem.devices[position].spec.capacity.items():
            left = offer.value.nanos - used.get(name, 0)
            if amounts[name] > left:
                format = offer.value.format
                return f"have at most {Quantity(max(left, 0), format)} {name} left of a {ask.class_name}, need {Quantity(amounts[name], format)}"
    return ""


def _together(problem: Problem) -> str:
    for constraints in problem.terms.constraints:
        for constraint in constraints:
            kind = values_wanted(distinct=constraint.distinct)
            return f"have no choice of devices with {kind} of {constraint.relation.attribute}"
    classes = list(
        dict.fromkeys(ask.class_name for request in problem.demand.requests for ask in request.asks)
    )
    if len(problem.demand.requests) > 1 and len(classes) == 1:
        return f"have too few {classes[0]} for all {len(problem.demand.requests)} requests together"
    return "have too few devices for all requests together"


def _most_common(words: list[str]) -> str:
    counts = Counter(each for each in words if each)
    return counts.most_common(1)[0][0] if counts else GENERIC
