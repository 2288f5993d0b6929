"""Shapes of claims, in v1's form or in KEP-4381's early one, and how many more of each fit into what the caller sees.

Who does not see all claims does not know all that is taken, so then a number is an upper bound, unless the published counts
show that nothing is hidden. The allocator may stop early, so a number may also be a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from allotment.allocator.semantic import SemanticBook
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.insight.claim_facts import wishes
from allotment.insight.errors import BadInput, NoAnswer
from allotment.insight.manifest_cluster import gather, name_of
from allotment.insight.manifest_files import read_objects
from allotment.insight.snapshot import made_up_nodes
from allotment.insight.usage_document import pool_id_document
from allotment.usage.remaining import Fits, Remaining, remaining
from allotment.usage.semantic_remaining import remaining_instances

if TYPE_CHECKING:
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.usage_document import Document
    from allotment.usage.allocation import AnyClaim

Parameters = TypeVar(
    "Parameters",
    bound=semantic.ResourceClass | semantic.ResourceClassParameters | semantic.ResourceClaimParameters,
)
_WORDS = {"exact": "{}", "atLeast": "at least {}", "atMost": "at most {}", "estimate": "about {}"}


@dataclass(frozen=True, slots=True)
class Early:
    """What claims in KEP-4381's early form refer to."""

    classes: Sequence[semantic.ResourceClass] = ()
    class_parameters: Sequence[semantic.ResourceClassParameters] = ()
    claim_parameters: Sequence[semantic.ResourceClaimParameters] = ()

    def book(self, seen: Snapshot) -> SemanticBook:
        """Together with what is seen. What came with a claim takes the place of what is."""
        return SemanticBook(
            _one_each(seen.of(semantic.ResourceClass), self.classes),
            _one_each(seen.of(semantic.ResourceClassParameters), self.class_parameters),
            _one_each(seen.of(semantic.ResourceClaimParameters), self.claim_parameters),
        )


def _one_each(seen: Sequence[Parameters], given: Sequence[Parameters]) -> Iterable[Parameters]:
    return {name_of(each.metadata): each for each in (*seen, *given)}.values()


@dataclass(frozen=True, slots=True)
class Shapes:
    """What to ask about, by name, and classes and parameters that came with it."""

    claims: Mapping[str, AnyClaim]
    classes: Sequence[DeviceClass]
    early: Early = field(default_factory=Early)


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one shape."""

    name: str
    claim: AnyClaim
    remaining: Remaining
    all_seen: bool  # whether all that is taken is known

    def bound(self, fits: Fits) -> str:
        """What a number is worth. That nothing fits is sure also without knowing what else is taken."""
        if self.all_seen or not fits.number:
            return "exact" if fits.exact else "atLeast"
        return "atMost" if fits.exact else "estimate"

    def words(self, fits: Fits) -> str:
        return _WORDS[self.bound(fits)].format(fits.number)


def read_shapes(files: Iterable[str]) -> Shapes:
    """The claims and templates in files, checked as a server would. Raises BadInput."""
    from allotment.cel.expression_check import check_expression

    cluster = gather(read_objects(files), check_expression)
    found: dict[str, AnyClaim] = {}
    for name, claim in cluster.claims.items():
        found[f"claim {'/'.join(name)}"] = claim
    for name, template in cluster.templates.items():
        meta = ObjectMeta(name=name[1], namespace=name[0])
        if isinstance(template, ResourceClaimTemplate):
            claim = ResourceClaim(metadata=meta, spec=template.spec.spec)
        else:
            claim = semantic.ResourceClaim(metadata=meta, spec=template.spec.spec)
        found[f"template {'/'.join(name)}"] = claim
    if not found:
        raise BadInput(["there is no ResourceClaim or ResourceClaimTemplate to fit"], "give one with -f FILE")
    early = Early(cluster.resource_classes, cluster.class_parameters, cluster.claim_parameters)
    return Shapes(found, cluster.classes, early)


def how_many(shapes: Shapes, seen: Snapshot) -> list[Fit]:
    """Asks about each by itself. Notes what was assumed. Raises NoAnswer without slices or classes to ask about."""
    nodes = _nodes(seen)
    all_seen = seen.namespaces is None or seen.usage.cluster().hidden == 0
    return [
        Fit(name, claim, _more(claim, shapes, seen, nodes), all_seen) for name, claim in shapes.claims.items()
    ]


def _more(claim: AnyClaim, shapes: Shapes, seen: Snapshot, nodes: Sequence[Node]) -> Remaining:
    if not isinstance(claim, ResourceClaim):
        return _more_instances(claim, shapes, seen, nodes)
    if not seen.sees(ResourceSlice):
        raise NoAnswer(
            "you may not list resourceslices", "ask for that right: devices cannot be counted without it"
        )
    if not seen.sees(DeviceClass) and not shapes.classes:
        raise NoAnswer("you may not list deviceclasses", "give the classes that the claims name with -f too")
    classes = {each.metadata.name: each for each in (*seen.of(DeviceClass), *shapes.classes)}
    return remaining(
        claim,
        nodes=nodes,
        slices=seen.of(ResourceSlice),
        classes=classes.values(),
        claims=seen.claims,
        rules=seen.of(DeviceTaintRule),
    )


def _more_instances(
    claim: semantic.ResourceClaim, shapes: Shapes, seen: Snapshot, nodes: Sequence[Node]
) -> Remaining:
    trees = seen.of(semantic.NodeResourceSlice)
    if not seen.sees(semantic.NodeResourceSlice):
        raise NoAnswer(
            f"claim {'/'.join(name_of(claim.metadata))} is of v1alpha2, and no noderesourceslices can be read",
            "the server may not have them; else ask for the right to list them",
        )
    known = {node.metadata.name for node in nodes}
    if not seen.sees(Node):
        names = {tree.spec.node_name for tree in trees}
        nodes = [*nodes, *(Node(metadata=ObjectMeta(name=name)) for name in sorted(names - known))]
    return remaining_instances(
        claim, nodes=nodes, trees=trees, book=shapes.early.book(seen), claims=seen.claims
    )


def _nodes(seen: Snapshot) -> list[Node]:
    if not seen.sees(Node):
        nodes = made_up_nodes(seen.of(ResourceSlice))
        seen.notes.append(f"no nodes are seen: {len(nodes)} are taken from the slices, without labels")
        return nodes
    nodes = [node for node in seen.of(Node) if not node.spec.unschedulable]
    cordoned = len(seen.of(Node)) - len(nodes)
    if not seen.of(Node):
        seen.notes.append("there are no nodes, so nothing fits anywhere")
    if cordoned:
        seen.notes.append(f"cordoned nodes are left out: {cordoned}")
    return nodes


# --- for people ---


# --- for programs ---


def fit_document(fit: Fit) -> Document:
    """``bound`` says what a number is worth: exact, atLeast, atMost or estimate."""
    found = fit.remaining
    return {
        "claim": fit.name,
        "requests": wishes(fit.claim),
        "cluster": _document(fit, found.cluster),
        "nodes": [{"node": name, **_document(fit, fits)} for name, fits in found.nodes.items()],
        "pools": [{**pool_id_document(id), **_document(fit, fits)} for id, fits in found.pools.items()],
    }


def _document(fit: Fit, fits: Fits) -> Document:
    return {
        "moreFit": fits.number,
        "bound": fit.bound(fits),
        **({"why": fits.words} if fits.words else {}),
    }
