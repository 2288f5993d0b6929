"""Random problems answered twice: by the allocator and by brute force. Expressions are evaluated by our own language,
which is tested elsewhere; the comparison with the real allocator's is in tests/upstream."""

import json
import random
from typing import Any

from allotment.allocator.allocate import Allocator
from allotment.allocator.features import Features
from allotment.allocator.outcome import Outcome, Unsatisfiable
from allotment.allocator.strategy import FIRST_FIT
from allotment.api.codec import decode, to_builtins
from allotment.api.resource import Device
from allotment.cel.device import CelError, DeviceFeatures, compile_derived, compile_selector
from allotment.cli.ndjson.problem_line import SHARE_ID, ProblemLine, _holdings, _told
from tests import bruteforce
from tests.bruteforce import ExpressionError, check_answer
from tests.problems import demand, inventory
from tests.problems.dice import Dice
from tests.upstream.comparison import difference, outcome

Json = dict[str, Any]


def evaluate(expression: str, driver: str, device: Json, derived: bool, features: frozenset[str]) -> Any:
    """As the brute force wants it: a bool, or the JSON of a derived attribute."""
    typed = decode(Device, {key: device[key] for key in ("attributes", "capacity") if key in device})
    on = DeviceFeatures(
        consumable_capacity="ConsumableCapacity" in features,
        list_type_attributes="ListTypeAttributes" in features,
    )
    arguments = (driver, typed.attributes, typed.capacity, bool(device.get("allowMultipleAllocations")))
    try:
        if derived:
            return to_builtins(compile_derived(expression, on).evaluate(*arguments)[0])
        return compile_selector(expression, on).evaluate(*arguments)[0]
    except CelError as exc:
        raise ExpressionError(str(exc)) from exc


def asked(problem: Json, strategy: str = FIRST_FIT) -> Outcome:
    """The allocator's outcome of a problem as ``allot allocate --ndjson`` takes it."""
    line = decode(ProblemLine, json.dumps(problem).encode())
    assert line.node is not None
    allocator = Allocator(line.slices, line.classes, Features.of(line.features))
    return allocator.allocate(
        line.node, line.claims, _holdings(line), strategy=strategy, share_id=lambda claim, result: SHARE_ID
    )


def answer(found: Outcome) -> Json:
    """An outcome as plain data."""
    told: Json = json.loads(json.dumps(_told(found)))
    return told


def fault(problem: Json, strategy: str = FIRST_FIT, most_steps: int = 20_000) -> str | None:
    """What is wrong with the allocator's answer to a problem, None if nothing is."""
    found = asked(problem, strategy)
    ours = answer(found)
    if ours["ok"]:
        complaints = check_answer(problem, ours["results"], evaluate)
        if complaints:
            return f"the answer is not valid: {complaints}"
    if isinstance(found, Unsatisfiable) and found.shortage is not None and not found.shortage.holds():
        return f"the certificate {found.shortage} does not hold"
    theirs = bruteforce.allocate(problem, evaluate, most_steps)
    if theirs.get("exhausted"):
        return None
    if strategy == FIRST_FIT:
        return difference(theirs, ours)
    if "error" in (outcome(theirs), outcome(ours)):
        return None  # in another order, other devices raise
    return (
        None
        if outcome(theirs) == outcome(ours)
        else f"brute force says {outcome(theirs)}, we {outcome(ours)}"
    )


TANGLING = (
    "counters", "groups", "capacity", "match", "distinct", "lists", "alternatives", "derived", "all", "admin", "in-use",
)  # fmt: skip


def tangle(rng: random.Random) -> Json:
    """A small problem whose requests are in each other's way for several reasons at once, so that the search has to
    turn back a lot. All features are on, and expressions do not fail."""
    dice = Dice(rng)
    dice.accents = frozenset({"puzzle", *rng.sample(TANGLING, rng.randint(1, 3))})
    slices = inventory.slices(dice, 1, rng.randint(6, 10))
    return {
        "name": "+".join(sorted(dice.accents)),
        "node": inventory.node(dice),
        "slices": slices,
        "classes": demand.classes(dice),
        "claims": demand.claims(dice, 2, rng.randint(2, 4), dice.devices),
        **inventory.in_use(dice, slices),
    }
