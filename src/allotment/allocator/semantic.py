"""Claims with KEP-4381 semantic parameters (v1alpha2) as a demand on the one search, and its answers as resource handles.

A claim names a class and parameters. Each ``required`` entry of the parameters is a request for one instance, which
must come from the entry's driver, pass all filters that the class's parameters have for that driver, and pass the
entry's own selector. ``partition`` supplies the instances; search, strategies, outcomes and reasons are those of v1.

The search's results are v1 allocations (pool: the node; device: the instance's id), so that one ledger counts both
models. ``semantic_results`` writes them as v1alpha2 has them, and ``instances.held_ids`` reads those back.

Where the KEP is silent we decided:

* A class without ``semanticParameters: true`` has its claims allocated by its driver's controller: an error here.
* A claim without parameters asks for one instance of the class's driver, whatever passes the filters, and can be
  shared. The KEP does not say; this is our choice.
* A reference to our own kind names the object; any other finds the one that was ``generatedFrom`` it. None or
  several is an error. Parameters of claims are in the claim's namespace, those of classes in none.
* A key that an instance lacks is a plain "no". Other failures of an expression are errors, as in v1.
* A claim gets at most 32 instances, as in v1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from allotment.allocator.allocate import solve
from allotment.allocator.errors import AllocationError, ClaimError
from allotment.allocator.features import ALL
from allotment.allocator.held import Held, Holdings
from allotment.allocator.nodeselector import selects
from allotment.allocator.outcome import InvalidInput
from allotment.allocator.pool import DeviceID, PooledDevice
from allotment.allocator.request import Ask, Book, Demand, RequestDemand
from allotment.allocator.search import DEFAULT_BUDGET, Answer, Search
from allotment.allocator.selector import Criterion, ReadPart
from allotment.allocator.semantic_pools import Instance, TypedMaps, partition_pools
from allotment.allocator.site import Site
from allotment.allocator.strategy import FIRST_FIT, in_order
from allotment.api import resource, semantic
from allotment.cel.errors import CelCompileError, CelNoSuchKey, CelRuntimeError
from allotment.cel.semantic import compile_semantic

if TYPE_CHECKING:
    from allotment.allocator.outcome import Allocated, Outcome
    from allotment.api.core import Node

GROUPS = ("resource.k8s.io", "allotment.dev")
"""The groups of our own parameter kinds: the second on a cluster whose API server does not know them."""

_ANSWERS_REMEMBERED = 65536  # answers per expression
_TESTS_KEPT = 10_000


# --- tests of an instance ---


class InstanceTest:
    """An expression over the typed maps, answered once per distinct projection. Raises CelCompileError."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._program = compile_semantic(expression)
        reads = sorted(self._program.reads, key=repr)
        self.parts = [ReadPart(read, _reader(*read)) for read in reads]
        self._keys = [(map, name) for map, name in reads if name is not None]
        self._answers: dict[Hashable, bool | str] = {}

    def ask(self, device: PooledDevice) -> bool | str:
        if not isinstance(device, Instance):
            return False
        key = tuple([part.of(device) for part in self.parts])
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _ANSWERS_REMEMBERED:
                self._answers.clear()
            answer = self._answers[key] = self._evaluate(device.maps)
        return answer

    def read_by(self, device: PooledDevice) -> str:
        if not isinstance(device, Instance):
            return "not an instance of the partitionable model"
        maps = device.maps
        have = [f"{name}={maps[map][name]}" for map, name in self._keys if name in maps[map]]
        lack = [f"lacks {map}.{name}" for map, name in self._keys if name not in maps[map]]
        return ", ".join(have + lack)

    def _evaluate(self, maps: TypedMaps) -> bool | str:
        try:
            return self._program.matches(maps)
        except CelNoSuchKey:
            return False
        except CelRuntimeError as exc:
            return f"CEL runtime error: {exc}"


def _reader(map: str, name: str | None) -> Callable[[PooledDevice], Hashable]:
    """Looks one attribute up, or for no name a whole map."""

    def read(device: PooledDevice) -> Hashable:
        if not isinstance(device, Instance):
            return None
        values = device.maps[map]
        if name is not None:
            return _frozen(values.get(name))
        return frozenset((key, _frozen(value)) for key, value in values.items())

    return read


def _frozen(value: Any) -> Hashable:
    frozen: Hashable = tuple(value) if isinstance(value, list) else value  # lists hold scalars only
    return frozen


class OfDriver:
    """The test that the instance belongs to the driver that the request names."""

    def __init__(self, driver: str) -> None:
        self.expression = f'driver == "{driver}"'
        self.parts = (ReadPart("driver", lambda device: device.id.driver),)
        self._driver = driver

    def ask(self, device: PooledDevice) -> bool:
        return device.id.driver == self._driver

    def read_by(self, device: PooledDevice) -> str:
        return f"driver={device.id.driver}"


class _Unsuited:
    """The test that nothing passes: nothing on this node is for claims of the class."""

    def __init__(self, class_name: str, node_name: str) -> None:
        self.expression = f"suitableNodes of class {class_name}"
        self.parts: Sequence[ReadPart] = ()
        self._node_name = node_name

    def ask(self, device: PooledDevice) -> bool:
        return False

    def read_by(self, device: PooledDevice) -> str:
        return f"they leave out node {self._node_name}"


# --- claims as a demand ---


@dataclass(frozen=True, slots=True, eq=False)
class SemanticTerms:
    """A claim with all that it refers to, as it was when it was read."""

    claim: semantic.ResourceClaim
    resource_class: semantic.ResourceClass
    class_parameters: semantic.ResourceClassParameters | None
    claim_parameters: semantic.ResourceClaimParameters

    @property
    def name(self) -> str:
        return f"claim {self.claim.metadata.key}"


@dataclass(slots=True, eq=False)
class SemanticDemand(Demand):
    """A demand that remembers the v1alpha2 claims; ``claims`` has v1 claims in their place, with the names only."""

    terms: tuple[SemanticTerms, ...] = ()

    def on(self, node: Node) -> Demand:
        """The demand as it is on this node: where a class is not for it, nothing suits the class's claims.

        Raises AllocationError for a broken node selector.
        """
        unsuited: dict[int, _Unsuited] = {}
        for number, terms in enumerate(self.terms):
            suitable = terms.resource_class.suitable_nodes
            if suitable is not None and not selects(suitable, node):
                unsuited[number] = _Unsuited(terms.resource_class.metadata.name, node.metadata.name)
        if not unsuited:
            return self
        requests = []
        for request in self.requests:
            test = unsuited.get(request.claim)
            if test is not None:
                (ask,) = request.asks
                ask = replace(ask, tests=(test, *ask.tests), places=(test.expression, *ask.places))
                request = replace(request, asks=(ask,))
            requests.append(request)
        return replace(self, requests=tuple(requests), shapes=_shapes(requests))


def _shapes(requests: Iterable[RequestDemand]) -> tuple[Ask, ...]:
    """One ask of each shape; tells every ask its own."""
    shapes: list[Ask] = []
    numbers: dict[tuple[Criterion, ...], int] = {}
    for request in requests:
        for ask in request.asks:
            ask.shape = numbers.setdefault(ask.tests, len(shapes))
            if ask.shape == len(shapes):
                shapes.append(ask)
    return tuple(shapes)


class SemanticBook:
    """Classes and parameters, and the tests compiled from their expressions.

    As with v1's Book, it pays to keep one for many claims: equal expressions share one test, which caches its answers.
    """

    def __init__(
        self,
        classes: Iterable[semantic.ResourceClass],
        class_parameters: Iterable[semantic.ResourceClassParameters] = (),
        claim_parameters: Iterable[semantic.ResourceClaimParameters] = (),
    ) -> None:
        self._classes = {found.metadata.name: found for found in classes}
        self._class_parameters = _ParametersByName(class_parameters)
        self._claim_parameters = _ParametersByName(claim_parameters)
        self._tests: dict[tuple[str, str], Criterion] = {}

    def demand(self, claims: Sequence[semantic.ResourceClaim]) -> SemanticDemand:
        """The demand of the claims. Never raises: an invalid claim yields a demand with a fault."""
        terms: list[SemanticTerms] = []
        requests: list[RequestDemand] = []
        fault = None
        try:
            for number, claim in enumerate(claims):
                terms.append(self._terms(claim))
                requests += self._requests(number, terms[-1])
        except ClaimError as exc:
            fault = exc
        stand_ins = tuple(resource.ResourceClaim(metadata=claim.metadata) for claim in claims)
        return SemanticDemand(
            stand_ins, tuple(requests), ((),) * len(claims), _shapes(requests), fault, tuple(terms)
        )

    def _terms(self, claim: semantic.ResourceClaim) -> SemanticTerms:
        owner = f"claim {claim.metadata.key}"
        name = claim.spec.resource_class_name
        found = self._classes.get(name)
        if found is None:
            raise ClaimError(f"{owner}: there is no ResourceClass {name!r}; see spec.resourceClassName")
        if not found.semantic_parameters:
            raise ClaimError(
                f"{owner}: class {name} does not set semanticParameters, so the controller of driver "
                f"{found.driver_name} allocates its claims"
            )
        class_ref, claim_ref = found.parameters_ref, claim.spec.parameters_ref
        return SemanticTerms(
            claim,
            found,
            None if class_ref is None else self._class_parameters.find(class_ref, "", f"class {name}"),
            _any_one(found.driver_name)
            if claim_ref is None
            else self._claim_parameters.find(claim_ref, claim.metadata.namespace, owner),
        )

    def _requests(self, number: int, terms: SemanticTerms) -> Iterator[RequestDemand]:
        parameters = terms.claim_parameters
        where = _place(parameters) if parameters.metadata.name else f"{terms.name} without parameters"
        for request in parameters.requests:
            driver = request.driver_name
            if request.partitionable is None:
                raise ClaimError(f"{where}: the request to driver {driver!r} has no model that we know")
            of_driver = self._test("driver", driver, OfDriver, where)
            filters = self._filters(terms, driver)
            for index, wish in enumerate(request.partitionable.required):
                name = wish.name or f"{driver}[{index}]"
                place = f"{where}, request {name}"
                test = self._test("selector", wish.selector, InstanceTest, place)
                ask = Ask(
                    name=name,
                    names=frozenset({name}),
                    class_name=terms.resource_class.metadata.name,
                    tests=(of_driver, *(test for _, test in filters), test),
                    places=(place, *(place for place, _ in filters), place),
                )
                yield RequestDemand(name, number, (ask,), alternatives=False)

    def _filters(self, terms: SemanticTerms, driver: str) -> list[tuple[str, Criterion]]:
        """The class's tests for instances of a driver, and where each is written."""
        found = []
        parameters = terms.class_parameters
        for index, filter in enumerate(parameters.filters if parameters is not None else ()):
            if filter.driver_name == driver and parameters is not None:
                place = f"{_place(parameters)}, filter #{index}"
                if filter.partitionable is None:
                    raise ClaimError(f"{place}: has no model that we know")
                selector = filter.partitionable.selector
                found.append((place, self._test("selector", selector, InstanceTest, place)))
        return found

    def _test(self, kind: str, text: str, make: Callable[[str], Criterion], place: str) -> Criterion:
        test = self._tests.get((kind, text))
        if test is None:
            if len(self._tests) >= _TESTS_KEPT:
                self._tests.clear()
            try:
                test = self._tests[kind, text] = make(text)
            except CelCompileError as exc:
                raise ClaimError(f"{place}: the selector does not compile: {exc}") from exc
        return test


def _any_one(driver: str) -> semantic.ResourceClaimParameters:
    """The demand of a claim without parameters."""
    anything = semantic.PartitionableResourceRequest(selector="true")
    wish = semantic.PartitionableResourceRequests(required=(anything,))
    return semantic.ResourceClaimParameters(
        shareable=True, requests=(semantic.ResourceRequest(driver_name=driver, partitionable=wish),)
    )


# --- parameters, by name and by what they were generated from ---

_Parameters = TypeVar("_Parameters", semantic.ResourceClassParameters, semantic.ResourceClaimParameters)
_Reference = semantic.ResourceClassParametersReference | semantic.ResourceClaimParametersReference


def _place(parameters: semantic.ResourceClassParameters | semantic.ResourceClaimParameters) -> str:
    return f"{parameters.kind} {parameters.metadata.key}"


def _namespace(reference: _Reference) -> str:
    """Of a vendor's object that class parameters stem from; claims and their parameters share one."""
    if isinstance(reference, semantic.ResourceClassParametersReference):
        return reference.namespace or ""
    return ""


class _ParametersByName(Generic[_Parameters]):
    """Parameters of one kind. Those of classes are in no namespace, whatever their metadata says."""

    def __init__(self, objects: Iterable[_Parameters]) -> None:
        self._named: dict[tuple[str, str], _Parameters] = {}
        self._generated: dict[tuple[str, str, str, str, str], list[_Parameters]] = {}
        for each in objects:
            cluster_wide = isinstance(each, semantic.ResourceClassParameters)
            namespace = "" if cluster_wide else each.metadata.namespace
            self._named[namespace, each.metadata.name] = each
            if each.generated_from is not None:
                self._generated.setdefault(_origin(each.generated_from, namespace), []).append(each)

    def find(self, reference: _Reference, namespace: str, owner: str) -> _Parameters:
        """The parameters that a class or a claim refers to. Raises ClaimError."""
        kind = (
            "ResourceClassParameters"
            if isinstance(reference, semantic.ResourceClassParametersReference)
            else "ResourceClaimParameters"
        )
        if reference.kind == kind and reference.api_group in GROUPS:
            named = self._named.get((namespace, reference.name))
            if named is None:
                where = f"{namespace}/{reference.name}" if namespace else reference.name
                raise ClaimError(f"{owner}: there is no {kind} {where}; see parametersRef")
            return named
        found = [
            each
            for each in self._generated.get(_origin(reference, namespace), ())
            if not (
                reference.uid and each.generated_from and each.generated_from.uid not in (None, reference.uid)
            )
        ]
        if len(found) == 1:
            return found[0]
        source = f"{reference.kind}.{reference.api_group or 'core'} {reference.name}"
        if not found:
            raise ClaimError(
                f"{owner}: no {kind} was generated from {source}; the driver's controller does that"
            )
        names = ", ".join(sorted(each.metadata.name for each in found))
        raise ClaimError(f"{owner}: several {kind} were generated from {source}: {names}; keep one")


def _origin(reference: _Reference, namespace: str) -> tuple[str, str, str, str, str]:
    return reference.api_group or "", reference.kind, reference.name, namespace, _namespace(reference)


# --- allocation, and what is written into claims ---


def allocate_semantic(
    node: Node,
    slices: Iterable[semantic.NodeResourceSlice],
    book: SemanticBook,
    claims: Sequence[semantic.ResourceClaim],
    held: Collection[DeviceID] = (),
    *,
    holdings: Holdings | None = None,
    strategy: str = FIRST_FIT,
    budget: int = DEFAULT_BUDGET,
    run: Callable[[Search], Answer] = Search.run,
) -> Outcome:
    """Chooses instances for all claims, or for none.

    ``held`` are the ids in use, published or not: see ``semantic_holdings.held_ids``. ``holdings`` may add details, such as
    the holders. Pass the result on to ``semantic_results``.
    """
    demand = book.demand(claims)
    try:
        here = demand.on(node) if demand.fault is None else demand
    except AllocationError as exc:
        return InvalidInput(node.metadata.name, exc)

    def find_site() -> Site:
        pools = partition_pools(node.metadata.name, slices, held)
        return Site(node, pools, in_order(pools), ALL)

    return solve(
        node,
        find_site,
        here,
        Held(held) if holdings is None else holdings,
        Book({}, ALL),
        strategy=strategy,
        budget=budget,
        run=run,
    )


def semantic_results(demand: SemanticDemand, allocated: Allocated) -> list[semantic.AllocationResult]:
    """One result per claim, as v1alpha2 writes them: a handle for each driver that instances came from."""
    return [
        _semantic_result(terms, allocated.node, result)
        for terms, result in zip(demand.terms, allocated.results, strict=True)
    ]


def _semantic_result(
    terms: SemanticTerms, node_name: str, allocation: resource.AllocationResult
) -> semantic.AllocationResult:
    instances: dict[str, list[semantic.AllocatedResourceInstance]] = {}
    for given in allocation.devices.results:
        instances.setdefault(given.driver, []).append(semantic.AllocatedResourceInstance(id=given.device))
    of_class = terms.class_parameters
    handles = tuple(
        semantic.ResourceHandle(
            driver_name=driver,
            semantic_data=semantic.SemanticResourceHandle(
                vendor_class_parameters=of_class.vendor_parameters if of_class is not None else None,
                vendor_claim_parameters=terms.claim_parameters.vendor_parameters,
                node_name=node_name,
                partitionable=semantic.PartitionableAllocationResult(instances=tuple(mine)),
            ),
        )
        for driver, mine in instances.items()
    )
    return semantic.AllocationResult(
        resource_handles=handles,
        available_on_nodes=allocation.node_selector,
        shareable=terms.claim_parameters.shareable,
    )
