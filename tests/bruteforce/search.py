"""The dumb allocator: try everything in upstream's order, and decide every question from scratch.

The only state of the search is the list of picks so far. Whether one more device may join them is recomputed from
that list each time, so there is nothing to undo and nothing to get out of step. That makes it slow and easy to trust.
Order: claims, requests, subrequests, devices; within a request devices only in ascending order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.bruteforce.capacity import Amount, fits
from tests.bruteforce.constraint import agree, applies, own_attribute
from tests.bruteforce.pools import Candidate, DeviceID, Fatal, Json, Pool, reachable, reaches
from tests.bruteforce.quantity import exact

ALL_FEATURES = frozenset(
    {
        "AdminAccess",
        "CompatibilityGroups",
        "ConsumableCapacity",
        "DerivedAttributes",
        "DeviceBindingAndStatus",
        "DeviceTaints",
        "FractionalCapacityRange",
        "ListTypeAttributes",
        "OptionalNodeOperations",
        "PartitionableDevices",
        "PrioritizedList",
    }
)
MOST_RESULTS = 32

# Evaluates (expression, driver, device, derived, features): a bool, or for a derived attribute the attribute's JSON.
# Raises ExpressionError where the expression does not compile or fails on this device.
Evaluate = Callable[[str, str, Json, bool, frozenset[str]], Any]


class ExpressionError(Exception):
    """An expression does not compile, or fails on a device."""


class Exhausted(Exception):
    """The search took more steps than it was given."""


class TooMany(Exception):
    """What is left of the 32 results of a claim does not suffice for a request."""


@dataclass
class Ask:
    """A request or subrequest, and what was found out about it before the search."""

    claim: int
    request: str
    subrequest: str | None
    spec: Json
    count: int = 0
    devices: list[Candidate] = field(default_factory=list)  # of mode All

    @property
    def name(self) -> str:
        return self.request if self.subrequest is None else f"{self.request}/{self.subrequest}"

    @property
    def admin(self) -> bool:
        return bool(self.spec.get("adminAccess")) and self.subrequest is None

    @property
    def all(self) -> bool:
        return bool(self.spec["allocationMode"] == "All")


@dataclass(frozen=True)
class Pick:
    """A device for a request. ``amounts`` are set for a share; ``charged`` says whether it draws its counters."""

    ask: Ask
    candidate: Candidate
    amounts: dict[str, Amount] | None
    charged: bool


class Search:
    """One allocation on one node. ``run`` returns the picks, or None for "no"; errors are ``Fatal``."""

    def __init__(self, problem: Json, evaluate: Evaluate, most_steps: int) -> None:
        self.problem = problem
        self.features = features_of(problem)
        self.steps = 0
        self._most_steps = most_steps
        self._evaluate = evaluate
        self._known: dict[tuple[str, DeviceID, bool], Any] = {}
        self.claims: list[Json] = problem.get("claims") or problem.get("claimsToAllocate") or []
        self.pools: list[Pool] = []
        self.asks: list[list[list[Ask]]] = []
        self.picks: list[Pick] = []
        self.chosen: dict[tuple[int, int], Ask] = {}
        self._held = Held(problem)

    def run(self) -> list[Pick] | None:
        self.pools = reachable(self.problem, set(self.features))
        self.asks = [self._asks_of(index) for index in range(len(self.claims))]
        if self._request(0, 0):
            return self.picks
        if any(pool.invalid for pool in self.pools):
            raise Fatal("invalid resource pools were encountered")
        return None

    # What can be said before the search.

    def _asks_of(self, index: int) -> list[list[Ask]]:
        demand = self.claims[index]["spec"]["devices"]
        asks: list[list[Ask]] = []
        least = 0
        for request in demand.get("requests", []):
            alternatives = request.get("firstAvailable") or []
            if alternatives and "PrioritizedList" not in self.features:
                raise Fatal("firstAvailable is disabled")
            specs = [(sub["name"], sub) for sub in alternatives] or [(None, request["exactly"])]
            if "ConsumableCapacity" not in self.features and any(
                s.get("capacity") is not None for _, s in specs
            ):
                raise Fatal("capacity requests are disabled")
            asks.append([self._ask(Ask(index, request["name"], name, spec)) for name, spec in specs])
            least += min(ask.count for ask in asks[-1])
            if least > MOST_RESULTS:
                raise Fatal("too many devices")
        for constraint in demand.get("constraints", []):
            if constraint.get("matchAttribute") is None and constraint.get("distinctAttribute") is None:
                raise Fatal("empty constraint")
        return asks

    def _ask(self, ask: Ask) -> Ask:
        spec = ask.spec
        if spec.get("derivedAttributes") and "DerivedAttributes" not in self.features:
            raise Fatal("derived attributes are disabled")
        if any(not selector.get("cel") for selector in spec.get("selectors", [])):
            raise Fatal("unknown kind of selector")
        if (
            "AdminAccess" not in self.features
            and ask.subrequest is None
            and spec.get("adminAccess") is not None
        ):
            raise Fatal("admin access is disabled")
        if self._class(ask) is None:
            raise Fatal("no such class")
        if spec.get("allocationMode") == "ExactCount":
            ask.count = spec.get("count", 0)
        elif spec.get("allocationMode") == "All":
            ask.devices = list(self._all_devices(ask))
            ask.count = len(ask.devices)
        else:
            raise Fatal("unknown allocation mode")
        return ask

    def _all_devices(self, ask: Ask) -> Iterator[Candidate]:
        for pool in self.pools:
            if pool.incomplete or pool.invalid:
                raise Fatal("asks for all devices of a pool that is incomplete or invalid")
            for candidate in pool.devices:
                if not self.selected(ask, candidate):
                    continue
                fractional = "FractionalCapacityRange" in self.features
                if (
                    "ConsumableCapacity" in self.features
                    and fits(ask.spec, candidate.device, [], fractional) is None
                ):
                    continue
                yield candidate

    def _class(self, ask: Ask) -> Json | None:
        name = ask.spec.get("deviceClassName")
        return next(
            (c for c in reversed(self.problem["classes"]) if name and c["metadata"]["name"] == name), None
        )

    # The search.

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise Exhausted

    def _request(self, claim: int, request: int) -> bool:
        self._step()
        if claim == len(self.claims):
            return True
        if request == len(self.asks[claim]):
            try:
                return self._request(claim + 1, 0)
            except TooMany:
                return False
        asks = self.asks[claim][request]
        if asks[0].subrequest is None:
            self.chosen[claim, request] = asks[0]
            return self._fill(request, asks[0], 0, 0)
        hopeless = True
        for ask in asks:
            self.chosen[claim, request] = ask
            try:
                if self._fill(request, ask, 0, 0):
                    return True
                hopeless = False
            except TooMany:
                continue
        if hopeless:
            raise TooMany
        return False

    def _fill(self, request: int, ask: Ask, have: int, start: int) -> bool:
        self._step()
        if ask.all and not ask.devices:
            return False
        if have >= ask.count:
            return self._request(ask.claim, request + 1)
        if ask.count - have > MOST_RESULTS - sum(pick.ask.claim == ask.claim for pick in self.picks):
            raise TooMany
        if ask.all:
            pick = self._pick(ask, ask.devices[have])
            return pick is not None and self._with(pick, request, have + 1, 0)
        candidates = [c for pool in self.pools for c in pool.devices]
        for position in range(start, len(candidates)):
            candidate = candidates[position]
            if self._in_use(ask, candidate) or not self.selected(ask, candidate):
                continue
            if self._room(ask, candidate) is None:
                continue
            pick = self._pick(ask, candidate)
            if pick is not None and self._with(pick, request, have + 1, position + 1):
                self.chosen[ask.claim, request] = ask  # a deeper failure may have left another one here
                return True
        return False

    def _with(self, pick: Pick, request: int, have: int, start: int) -> bool:
        self.picks.append(pick)
        done = False
        try:
            done = self._fill(request, pick.ask, have, start)
        finally:
            if not done:
                self.picks.pop()
        return done

    # Whether a device may join the picks.

    def _pick(self, ask: Ask, candidate: Candidate) -> Pick | None:
        device = candidate.device
        if self._in_use(ask, candidate) or not self.node_can_operate(candidate):
            return None
        consumes = device.get("consumesCounters", [])
        if consumes and "PartitionableDevices" not in self.features:
            return None
        shared = self.is_shared(device)
        charged = bool(consumes) and not (shared and self._has_shares(candidate.id))
        if charged and not (self._groups_agree(candidate) and self._counters_suffice(candidate)):
            return None
        if "DeviceTaints" in self.features and any(
            blocks(taint, ask.spec) for taint in device.get("taints", [])
        ):
            return None
        if not self._constraints_hold(ask, candidate):
            if ask.all:
                raise Fatal("a constraint prevents getting all devices")
            return None
        amounts = self._room(ask, candidate)
        if amounts is None:
            return None
        return Pick(ask, candidate, amounts if shared else None, charged)

    def is_shared(self, device: Json) -> bool:
        return "ConsumableCapacity" in self.features and bool(device.get("allowMultipleAllocations"))

    def _in_use(self, ask: Ask, candidate: Candidate) -> bool:
        holders = [p.ask.claim for p in self.picks if p.candidate.id == candidate.id and p.amounts is None]
        if ask.admin:
            return ask.claim in holders
        return bool(holders) or candidate.id in self._held.devices

    def _has_shares(self, device: DeviceID) -> bool:
        picked = any(pick.candidate.id == device for pick in self.picks)
        return picked or device in self._held.shares or device in self._held.capacity

    def node_can_operate(self, candidate: Candidate) -> bool:
        if not candidate.slice["spec"].get("skipNodeOperations"):
            return True
        declared = self.problem["node"].get("status", {}).get("declaredFeatures", [])
        return "OptionalNodeOperations" in self.features and "DRAOptionalNodeOperations" in declared

    def _room(self, ask: Ask, candidate: Candidate) -> dict[str, Amount] | None:
        if "ConsumableCapacity" not in self.features:
            return {}
        shares = [pick.amounts or {} for pick in self.picks if pick.candidate.id == candidate.id]
        held = [{name: amount.value for name, amount in share.items()} for share in shares]
        held.append(self._held.capacity.get(candidate.id, {}))
        return fits(ask.spec, candidate.device, held, "FractionalCapacityRange" in self.features)

    def selected(self, ask: Ask, candidate: Candidate) -> bool:
        if candidate.device.get("bindingConditions") and "DeviceBindingAndStatus" not in self.features:
            return False
        class_ = self._class(ask) or {"spec": {}}
        for selector in [*class_["spec"].get("selectors", []), *ask.spec.get("selectors", [])]:
            if not self.value(selector["cel"]["expression"], candidate, derived=False):
                return False
        if candidate.slice["spec"].get("perDeviceNodeSelection"):
            return reaches(candidate.device, self.problem["node"])
        return True

    def value(self, expression: str, candidate: Candidate, derived: bool) -> Any:
        key = (expression, candidate.id, derived)
        if key not in self._known:
            try:
                driver = candidate.id[0]
                self._known[key] = self._evaluate(
                    expression, driver, candidate.device, derived, self.features
                )
            except ExpressionError as error:
                raise Fatal(str(error)) from error
        return self._known[key]

    def _constraints_hold(self, ask: Ask, candidate: Candidate) -> bool:
        mine = [(pick.ask, pick.candidate) for pick in self.picks if pick.ask.claim == ask.claim]
        for constraint in self.claims[ask.claim]["spec"]["devices"].get("constraints", []):
            if not applies(constraint, ask.request, ask.subrequest):
                continue
            name = constraint.get("matchAttribute") or constraint["distinctAttribute"]
            values = [
                self.attribute(a, c, name)
                for a, c in [*mine, (ask, candidate)]
                if applies(constraint, a.request, a.subrequest)
            ]
            if not agree(constraint, values, "ListTypeAttributes" in self.features):
                return False
        return True

    def attribute(self, ask: Ask, candidate: Candidate, name: str) -> Json | None:
        derived = {entry["name"]: entry["expression"] for entry in ask.spec.get("derivedAttributes", [])}
        if name in derived:
            value: Json = self.value(derived[name], candidate, derived=True)
            return value
        return own_attribute(candidate.device, candidate.id[0], name)

    def _pool_of(self, candidate: Candidate) -> Pool:
        return next(pool for pool in self.pools if (pool.driver, pool.name) == candidate.id[:2])

    def _drawing(self, pool: Pool) -> list[Json]:
        """Everything that already draws counters from a pool, in use by others first."""
        in_use = [c.device for c in pool.devices + pool.elsewhere if self._held.has(c.id)]
        picked = [
            pick.candidate.device
            for pick in self.picks
            if pick.charged and pick.candidate.id[:2] == (pool.driver, pool.name)
        ]
        return in_use + picked

    def _counters_suffice(self, candidate: Candidate) -> bool:
        pool = self._pool_of(candidate)
        left = dict(pool.counters)
        for device in [*self._drawing(pool), candidate.device]:
            for entry in device.get("consumesCounters", []):
                for counter, amount in entry.get("counters", {}).items():
                    left[entry["counterSet"], counter] -= exact(amount["value"])
        # Every counter of the pool counts, also of sets that this device does not touch.
        return all(amount >= 0 for amount in left.values())

    def _groups_agree(self, candidate: Candidate) -> bool:
        if "CompatibilityGroups" not in self.features:
            return True
        for index, entry in enumerate(candidate.device["consumesCounters"]):
            peers = [
                set(other.get("compatibilityGroups") or [])
                for device in self._drawing(self._pool_of(candidate))
                for other in device.get("consumesCounters", [])
                if other["counterSet"] == entry["counterSet"]
            ]
            peers += [
                set(other.get("compatibilityGroups") or [])
                for other in candidate.device["consumesCounters"][:index]
                if other["counterSet"] == entry["counterSet"]
            ]
            if not compatible(peers, set(entry.get("compatibilityGroups") or [])):
                return False
        return True


class Held:
    """What other claims hold, as the problem lists it."""

    def __init__(self, problem: Json) -> None:
        self.devices = {identity(d) for d in problem.get("allocatedDevices") or []}
        self.shares = {identity(d) for d in problem.get("allocatedSharedDeviceIDs") or []}
        self.capacity: dict[DeviceID, dict[str, Fraction]] = {}
        for device in problem.get("allocatedCapacityDevices") or []:
            consumed = self.capacity.setdefault(identity(device), {})
            for name, amount in (device.get("consumedCapacity") or {}).items():
                consumed[name] = consumed.get(name, Fraction(0)) + exact(amount)

    def has(self, device: DeviceID) -> bool:
        return device in self.devices or device in self.shares or device in self.capacity


def identity(device: Json) -> DeviceID:
    return device["driver"], device["pool"], device["device"]


def features_of(problem: Json) -> frozenset[str]:
    named = problem.get("features")
    return ALL_FEATURES if named is None else frozenset(name for name, on in named.items() if on)


def compatible(peers: list[set[str]], groups: set[str]) -> bool:
    """The first peer decides: without groups it stays among its like; else a common group must remain.

    Peers that do not go together (a driver may change its slices) count as far as they did when they came.
    """
    if not peers:
        return True
    if not peers[0] or not groups:
        return not peers[0] and not groups
    common = set.intersection(*(peer for peer in peers if peer))
    return bool(common & groups)


def blocks(taint: Json, spec: Json) -> bool:
    if taint.get("effect") not in ("NoSchedule", "NoExecute"):
        return False
    return not any(_tolerates(toleration, taint) for toleration in spec.get("tolerations", []))


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key", ""):
        return False
    if toleration.get("operator") in (None, "", "Equal"):
        return bool(toleration.get("value", "") == taint.get("value", ""))
    return bool(toleration["operator"] == "Exists")
