"""Is an answer valid, whichever devices it chose?

Reads only the problem and the results: every promise is looked up and every sum is made anew, request by request and
then over all claims together. It says nothing about order (which device was to be taken first) and cannot tell
whether a "no" is right.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from tests.bruteforce.capacity import allowed, taken
from tests.bruteforce.constraint import agree, applies
from tests.bruteforce.pools import Candidate, DeviceID, Fatal, Json, Pool, reachable
from tests.bruteforce.quantity import exact
from tests.bruteforce.results import TooManyTerms, configs, node_selector
from tests.bruteforce.search import MOST_RESULTS, Ask, Evaluate, Held, Search, blocks, compatible, features_of


def check_answer(problem: Json, results: list[Json], evaluate: Evaluate | None = None) -> list[str]:
    """What is wrong with the results, empty if nothing is. Without ``evaluate``, expressions are taken as true."""
    try:
        return list(Checker(problem, results, evaluate).complaints())
    except (Fatal, TooManyTerms) as error:
        return [f"the problem should have ended in an error: {error}"]


class Checker:
    def __init__(self, problem: Json, results: list[Json], evaluate: Evaluate | None) -> None:
        self.problem = problem
        self.results = results
        self.features = features_of(problem)
        self.claims: list[Json] = problem.get("claims") or problem.get("claimsToAllocate") or []
        self.pools = reachable(problem, set(self.features))
        self.usable = {c.id: c for pool in self.pools for c in pool.devices}
        self.held = Held(problem)
        self.evaluates = evaluate is not None
        # Selectors and attributes are looked up as the search does it; nothing else of it is used.
        self.lookup = Search(problem, evaluate or (lambda *_: True), 0)

    def complaints(self) -> Iterator[str]:
        if len(self.results) != len(self.claims):
            yield f"{len(self.results)} results for {len(self.claims)} claims"
            return
        placed: list[tuple[Ask, Candidate, Json]] = []
        for index, (claim, result) in enumerate(zip(self.claims, self.results, strict=True)):
            where = f"claim {claim['metadata']['name']}"
            devices = result["devices"].get("results", [])
            unknown = [d for d in devices if (d["driver"], d["pool"], d["device"]) not in self.usable]
            if unknown:
                yield f"{where}: not usable on this node: {unknown}"
                return
            asks = self._chosen(index, claim, devices)
            if isinstance(asks, str):
                yield f"{where}: {asks}"
                return
            mine = [
                (asks[d["request"]], self.usable[d["driver"], d["pool"], d["device"]], d) for d in devices
            ]
            placed += mine
            for complaint in self._claim(claim, result, list(asks.values()), mine):
                yield f"{where}: {complaint}"
        yield from self._double_use(placed)
        yield from self._shared_capacity(placed)
        for pool in self.pools:
            yield from self._counters(pool, placed)

    def _chosen(self, index: int, claim: Json, devices: list[Json]) -> dict[str, Ask] | str:
        """Which request or subrequest each name in the results stands for, or what is wrong with the names."""
        used = Counter(device["request"] for device in devices)
        asks: dict[str, Ask] = {}
        for request in claim["spec"]["devices"].get("requests", []):
            subrequests = [
                Ask(index, request["name"], s["name"], s) for s in request.get("firstAvailable") or []
            ]
            options = subrequests or [Ask(index, request["name"], None, request["exactly"])]
            chosen = [ask for ask in options if ask.name in used]
            if not chosen:
                chosen = [ask for ask in options if not ask.all and ask.spec.get("count", 0) <= 0][:1]
            if len({ask.name for ask in chosen}) != 1:
                return f"request {request['name']}: {len(chosen)} of its alternatives were taken"
            # Of subrequests of one name, the first that wants as many devices.
            fitting = [ask for ask in chosen if ask.spec.get("count") == used[ask.name]]
            asks[chosen[0].name] = (fitting or chosen)[0]
        strange = set(used) - set(asks)
        return f"no such requests: {sorted(strange)}" if strange else asks

    def _claim(
        self, claim: Json, result: Json, asks: list[Ask], mine: list[tuple[Ask, Candidate, Json]]
    ) -> Iterator[str]:
        if len(mine) > MOST_RESULTS:
            yield f"{len(mine)} results"
        for ask in asks:
            yield from self._amount(ask, [c for a, c, _ in mine if a is ask])
        for ask, candidate, written in mine:
            for complaint in self._device(ask, candidate, written):
                yield f"request {ask.name}, device {'/'.join(candidate.id)}: {complaint}"
        for constraint in claim["spec"]["devices"].get("constraints", []):
            yield from self._constraint(constraint, mine)
        selector = node_selector([(c.slice, c.device) for _, c, _ in mine], self.problem["node"])
        if result.get("nodeSelector") != selector:
            yield f"nodeSelector {result.get('nodeSelector')} should be {selector}"
        expected = configs(self.problem, claim, asks)
        if result["devices"].get("config", []) != expected:
            yield f"config {result['devices'].get('config')} should be {expected}"

    def _amount(self, ask: Ask, got: list[Candidate]) -> Iterator[str]:
        if not ask.all:
            if len(got) != max(0, ask.spec.get("count", 0)):
                yield f"request {ask.name}: {len(got)} devices instead of {ask.spec.get('count')}"
            if len({c.id for c in got}) < len(got):
                yield f"request {ask.name}: a device twice"
            return
        if any(pool.incomplete or pool.invalid for pool in self.pools):
            yield f"request {ask.name}: all devices, but some pool is incomplete or invalid"
        if self.evaluates:
            wanted = {
                c.id
                for c in self.usable.values()
                if self.lookup.selected(ask, c) and self._large_enough(ask, c)
            }
            if {c.id for c in got} != wanted:
                yield f"request {ask.name}: all devices should be {sorted(wanted)}"

    def _large_enough(self, ask: Ask, candidate: Candidate) -> bool:
        return "ConsumableCapacity" not in self.features or self._fits(ask, candidate, {})

    def _fits(self, ask: Ask, candidate: Candidate, in_use: dict[str, Fraction]) -> bool:
        fractional = "FractionalCapacityRange" in self.features
        amounts = taken(ask.spec, candidate.device, fractional)
        return amounts is not None and all(
            allowed(amounts[name], capacity.get("requestPolicy"), fractional)
            and amounts[name].value + in_use.get(name, 0) <= exact(capacity["value"])
            for name, capacity in (candidate.device.get("capacity") or {}).items()
        )

    def _device(self, ask: Ask, candidate: Candidate, written: Json) -> Iterator[str]:
        device, spec = candidate.device, candidate.slice["spec"]
        if self.evaluates and not self.lookup.selected(ask, candidate):
            yield "a selector is false"
        if "DeviceTaints" in self.features and any(blocks(t, ask.spec) for t in device.get("taints", [])):
            yield "a taint is not tolerated"
        if device.get("consumesCounters") and "PartitionableDevices" not in self.features:
            yield "it consumes counters, which are switched off"
        if not self.lookup.node_can_operate(candidate):
            yield "the node cannot skip its node operations"
        if not ask.admin and candidate.id in self.held.devices:
            yield "it is in use"
        if "ConsumableCapacity" in self.features:
            in_use = self.held.capacity.get(candidate.id, {})
            if not self._fits(ask, candidate, in_use):
                yield "its capacity does not suffice"
        shared = self.lookup.is_shared(device)
        binding = device if "DeviceBindingAndStatus" in self.features else {}
        expected = {
            "adminAccess": ask.admin or None,
            "tolerations": ask.spec.get("tolerations") or None,
            "skipNodeOperations": spec.get("skipNodeOperations") or None,
            "bindingConditions": binding.get("bindingConditions") or None,
            "bindingFailureConditions": binding.get("bindingFailureConditions") or None,
        }
        for field, value in expected.items():
            if written.get(field) != value:
                yield f"{field} is {written.get(field)} instead of {value}"
        if ("shareID" in written) != shared:
            yield "shareID is for shared devices, and for all of them"
        amounts = taken(ask.spec, device, "FractionalCapacityRange" in self.features) if shared else None
        consumed = {name: exact(amount) for name, amount in written.get("consumedCapacity", {}).items()}
        if consumed != {name: amount.value for name, amount in (amounts or {}).items()}:
            yield f"consumedCapacity is {written.get('consumedCapacity')}"

    def _constraint(self, constraint: Json, mine: list[tuple[Ask, Candidate, Json]]) -> Iterator[str]:
        name = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
        affected = [(a, c) for a, c, _ in mine if applies(constraint, a.request, a.subrequest)]
        derives = any(d["name"] == name for a, _ in affected for d in a.spec.get("derivedAttributes", []))
        if not name or not affected or (derives and not self.evaluates):
            return
        values = [self.lookup.attribute(a, c, name) for a, c in affected]
        if not agree(constraint, values, "ListTypeAttributes" in self.features):
            yield f"constraint {constraint} does not hold"

    def _double_use(self, placed: list[tuple[Ask, Candidate, Json]]) -> Iterator[str]:
        owners = Counter(c.id for a, c, _ in placed if not a.admin and not self.lookup.is_shared(c.device))
        for device, count in owners.items():
            if count > 1:
                yield f"device {'/'.join(device)} is given away {count} times"

    def _shared_capacity(self, placed: list[tuple[Ask, Candidate, Json]]) -> Iterator[str]:
        totals: dict[tuple[DeviceID, str], Fraction] = {}
        for _, candidate, written in placed:
            for name, amount in written.get("consumedCapacity", {}).items():
                in_use = self.held.capacity.get(candidate.id, {}).get(name, Fraction(0))
                totals[candidate.id, name] = totals.get((candidate.id, name), in_use) + exact(amount)
        for (device, name), total in totals.items():
            capacity = (self.usable[device].device.get("capacity") or {}).get(name)
            if capacity is not None and total > exact(capacity["value"]):
                yield f"device {'/'.join(device)}: its {name} is overdrawn"

    def _counters(self, pool: Pool, placed: list[tuple[Ask, Candidate, Json]]) -> Iterator[str]:
        """Each device draws its counters once per use of the whole, a shared one once altogether."""
        if "PartitionableDevices" not in self.features:
            return
        drawing = [c for c in pool.devices + pool.elsewhere if self.held.has(c.id)]
        new: list[Candidate] = []
        shared = set(self.held.shares) | set(self.held.capacity)
        for _, candidate, _ in placed:
            mine = candidate.id[:2] == (pool.driver, pool.name) and candidate.device.get("consumesCounters")
            if mine and not (self.lookup.is_shared(candidate.device) and candidate.id in shared):
                new.append(candidate)
                shared.add(candidate.id)
        left = dict(pool.counters)
        groups: dict[str, list[set[str]]] = {}
        for number, candidate in enumerate(drawing + new):
            for entry in candidate.device.get("consumesCounters", []):
                for counter, amount in entry.get("counters", {}).items():
                    left[entry["counterSet"], counter] -= exact(amount["value"])
                peers = groups.setdefault(entry["counterSet"], [])
                theirs = set(entry.get("compatibilityGroups") or [])
                if number >= len(drawing) and not compatible(peers, theirs):
                    yield f"device {'/'.join(candidate.id)}: not compatible with others of {entry['counterSet']}"
                peers.append(theirs)
        if new and any(amount < 0 for amount in left.values()):
            yield f"pool {pool.driver}/{pool.name}: counters are overdrawn"
