"""Finds single changes that would make v1alpha2 claims fit, by calling the allocator node by node.

The demands of such a claim are in its parameters, so the changes are made there: one request, one selector or one filter of
the class is left out, or one other claim is released. Each change is tried alone, on the nodes that the caller names,
within a number of questions and as long as ``go_on`` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.outcome import Allocated
from allotment.allocator.phrases import cut, if_released
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.api import semantic
from allotment.usage.changes import ChangeKind
from allotment.usage.remedies import MOST_OFFERED, Remedies, Remedy

if TYPE_CHECKING:
    from allotment.allocator.pool import DeviceID
    from allotment.api.core import Node
    from allotment.api.meta import ApiStruct

MOST_INSTANCE_QUESTIONS = 2_000
STEPS_A_QUESTION = 20_000
_EVERYTHING = "true"

Slices = Sequence[semantic.NodeResourceSlice]
ClassParameters = semantic.ResourceClassParameters
ClaimParameters = semantic.ResourceClaimParameters


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node, what it publishes, and what is in use."""

    node: Node
    slices: Slices
    held: Collection[DeviceID]


@dataclass(frozen=True, slots=True)
class BookSources:
    """The classes and parameters from which a book is made."""

    classes: Sequence[semantic.ResourceClass]
    class_parameters: Sequence[ClassParameters]
    claim_parameters: Sequence[ClaimParameters]

    def book(self, old: ApiStruct | None = None, new: ApiStruct | None = None) -> SemanticBook:
        """The book with one of the parameters rewritten."""
        return SemanticBook(
            self.classes,
            [
                new if each is old and isinstance(new, ClassParameters) else each
                for each in self.class_parameters
            ],
            [
                new if each is old and isinstance(new, ClaimParameters) else each
                for each in self.claim_parameters
            ],
        )


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Parameters before and after a change. ``words`` complete "fits …"."""

    kind: ChangeKind
    claim: str
    request: str
    value: str
    words: str
    old: ApiStruct
    new: ApiStruct


@dataclass(slots=True)
class InstanceSearch:
    """The search for changes. ``rewritten`` maps the words of a remedy to the parameters that it rewrites."""

    claims: Sequence[semantic.ResourceClaim]
    grounds: Sequence[NodeState]
    shelf: BookSources
    go_on: Callable[[], bool] = lambda: True
    rewritten: dict[str, Rewritten] = field(default_factory=dict)
    _left: int = MOST_INSTANCE_QUESTIONS
    _cut: bool = False

    def remedies(self, holders: Mapping[str, Collection[DeviceID]]) -> Remedies:
        """Single changes that help. ``holders`` are the claims whose release may be suggested, with what they hold."""
        found = [*self._changes(), *self._releases(holders)]
        order = list(ChangeKind)
        found.sort(key=lambda each: (order.index(each.kind), each.given_up))
        return Remedies(tuple(found[:MOST_OFFERED]), self._cut or len(found) > MOST_OFFERED)

    def _fits(self, book: SemanticBook, ground: NodeState, without: Collection[DeviceID] = ()) -> bool:
        if self._left <= 0 or not self.go_on():
            self._cut = True
            return False
        self._left -= 1
        held = [each for each in ground.held if each not in without]
        outcome = allocate_semantic(
            ground.node, ground.slices, book, self.claims, held, budget=STEPS_A_QUESTION
        )
        return isinstance(outcome, Allocated)

    def _changes(self) -> Iterator[Remedy]:
        for change in _rewritings(self.claims, self.shelf.book()):
            book = self.shelf.book(change.old, change.new)
            ground = next((each for each in self.grounds if self._fits(book, each)), None)
            if ground is not None:
                self.rewritten[change.words] = change
                node = ground.node.metadata.name
                yield Remedy(change.kind, change.claim, change.request, change.value, change.words, node, 1.0)

    def _releases(self, holders: Mapping[str, Collection[DeviceID]]) -> Iterator[Remedy]:
        book = self.shelf.book()
        for name, devices in sorted(holders.items(), key=lambda each: (len(each[1]), each[0])):
            mine = [each for each in self.grounds if not set(devices).isdisjoint(each.held)]
            ground = next((each for each in mine if self._fits(book, each, devices)), None)
            if ground is not None:
                words = if_released(name)
                yield Remedy(
                    ChangeKind.RELEASE, name, "", name, words, ground.node.metadata.name, float(len(devices))
                )


def _rewritings(claims: Sequence[semantic.ResourceClaim], book: SemanticBook) -> Iterator[Rewritten]:
    """One rewriting for each part of the parameters that can be left out."""
    seen: set[int] = set()
    for terms in book.demand(claims).terms:
        name = terms.claim.metadata.key
        parameters, of_class = terms.claim_parameters, terms.class_parameters
        if parameters.metadata.name and id(parameters) not in seen:
            seen.add(id(parameters))
            yield from _of_claim(name, parameters)
        if of_class is not None and id(of_class) not in seen:
            seen.add(id(of_class))
            yield from _of_class(name, of_class)


def _of_claim(claim: str, parameters: ClaimParameters) -> Iterator[Rewritten]:
    where = f"ResourceClaimParameters {parameters.metadata.key}"
    several = sum(len(_required(each)) for each in parameters.requests)
    for number, request in enumerate(parameters.requests):
        required = _required(request)
        for index, wish in enumerate(required):
            name = wish.name or f"{request.driver_name}[{index}]"
            if several > 1:
                yield Rewritten(
                    ChangeKind.COUNT,
                    claim,
                    name,
                    "",
                    f"without request {name} of {where}",
                    parameters,
                    _with(parameters, number, (*required[:index], *required[index + 1 :])),
                )
            if wish.selector != _EVERYTHING:
                open_ = replace(wish, selector=_EVERYTHING)
                yield Rewritten(
                    ChangeKind.SELECTOR,
                    claim,
                    name,
                    wish.selector,
                    f"without the selector `{cut(wish.selector)}` of request {name} of {where}",
                    parameters,
                    _with(parameters, number, (*required[:index], open_, *required[index + 1 :])),
                )


def _with(
    parameters: ClaimParameters, number: int, kept: tuple[semantic.PartitionableResourceRequest, ...]
) -> ClaimParameters:
    """The parameters with different instances in one of the requests."""
    model = semantic.PartitionableResourceRequests(required=kept)
    requests = list(parameters.requests)
    requests[number] = replace(requests[number], partitionable=model)
    return replace(parameters, requests=tuple(requests))


def _of_class(claim: str, parameters: ClassParameters) -> Iterator[Rewritten]:
    where = f"ResourceClassParameters {parameters.metadata.name}"
    for index, filter in enumerate(parameters.filters):
        selector = filter.partitionable.selector if filter.partitionable is not None else ""
        words = f"without the filter `{cut(selector)}` of {where}"
        kept = (*parameters.filters[:index], *parameters.filters[index + 1 :])
        yield Rewritten(
            ChangeKind.SELECTOR, claim, "", selector, words, parameters, replace(parameters, filters=kept)
        )


def _required(request: semantic.ResourceRequest) -> tuple[semantic.PartitionableResourceRequest, ...]:
    return request.partitionable.required if request.partitionable is not None else ()
