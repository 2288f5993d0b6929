"""Shapes of claims, as v1 claims or with KEP-4381 semantic parameters (v1alpha2), and how many more of each fit into what the
caller sees.

A caller who does not see all claims does not know everything that is in use. Then the number is an upper bound, unless the
published counts show that nothing is hidden. The allocator may stop early, so the number may also be a lower bound.
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
class SemanticObjects:
    """The objects to which claims with KEP-4381 semantic parameters refer."""

    classes: Sequence[semantic.ResourceClass] = ()
    class_parameters: Sequence[semantic.ResourceClassParameters] = ()
    claim_parameters: Sequence[semantic.ResourceClaimParameters] = ()

    def book(self, snapshot: Snapshot) -> SemanticBook:
        """Merges these with the objects that the caller sees. Those that came with a claim take precedence."""
        return SemanticBook(
            _one_each(snapshot.of(semantic.ResourceClass), self.classes),
            _one_each(snapshot.of(semantic.ResourceClassParameters), self.class_parameters),
            _one_each(snapshot.of(semantic.ResourceClaimParameters), self.claim_parameters),
        )


def _one_each(seen: Sequence[Parameters], given: Sequence[Parameters]) -> Iterable[Parameters]:
    return {name_of(each.metadata): each for each in (*seen, *given)}.values()


@dataclass(frozen=True, slots=True)
class ShapesToTry:
    """The shapes to try, by name, and the classes and parameters that came with them."""

    claims: Mapping[str, AnyClaim]
    classes: Sequence[DeviceClass]
    early: SemanticObjects = field(default_factory=SemanticObjects)


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one shape."""

    name: str
    claim: AnyClaim
    remaining: Remaining
    all_seen: bool  # whether everything that is in use is known

    def bound(self, fits: Fits) -> str:
        """How exact a number is. "None fits" is certain even if not everything in use is known."""
        if self.all_seen or not fits.number:
            return "exact" if fits.exact else "atLeast"
        return "atMost" if fits.exact else "estimate"

    def words(self, fits: Fits) -> str:
        return _WORDS[self.bound(fits)].format(fits.number)


def read_shapes(files: Iterable[str]) -> ShapesToTry:
    """The claims and templates in files, checked as a server would check them. Raises BadInput."""
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
        raise BadInput(
            ["the files contain no ResourceClaim or ResourceClaimTemplate"], "give one with -f FILE"
        )
    early = SemanticObjects(cluster.resource_classes, cluster.class_parameters, cluster.claim_parameters)
    return ShapesToTry(found, cluster.classes, early)


def how_many(shapes: ShapesToTry, snapshot: Snapshot) -> list[Fit]:
    """Tries each shape by itself. Notes the assumptions. Raises NoAnswer if the caller can see no slices or no classes."""
    nodes = _nodes(snapshot)
    all_seen = snapshot.namespaces is None or snapshot.usage.cluster().hidden == 0
    return [
        Fit(name, claim, _more(claim, shapes, snapshot, nodes), all_seen)
        for name, claim in shapes.claims.items()
    ]


def _more(claim: AnyClaim, shapes: ShapesToTry, snapshot: Snapshot, nodes: Sequence[Node]) -> Remaining:
    if not isinstance(claim, ResourceClaim):
        return _more_instances(claim, shapes, snapshot, nodes)
    if not snapshot.sees(ResourceSlice):
        raise NoAnswer(
            "you may not list resourceslices", "ask for that right: without it, devices cannot be counted"
        )
    if not snapshot.sees(DeviceClass) and not shapes.classes:
        raise NoAnswer(
            "you may not list deviceclasses", "also give the classes that the claims name, with -f"
        )
    classes = {each.metadata.name: each for each in (*snapshot.of(DeviceClass), *shapes.classes)}
    return remaining(
        claim,
        nodes=nodes,
        slices=snapshot.of(ResourceSlice),
        classes=classes.values(),
        claims=snapshot.claims,
        rules=snapshot.of(DeviceTaintRule),
    )


def _more_instances(
    claim: semantic.ResourceClaim, shapes: ShapesToTry, snapshot: Snapshot, nodes: Sequence[Node]
) -> Remaining:
    trees = snapshot.of(semantic.NodeResourceSlice)
    if not snapshot.sees(semantic.NodeResourceSlice):
        raise NoAnswer(
            f"claim {'/'.join(name_of(claim.metadata))} is a v1alpha2 claim, but no noderesourceslices can be read",
            "either the server does not have that kind, or you need the right to list it",
        )
    known = {node.metadata.name for node in nodes}
    if not snapshot.sees(Node):
        names = {tree.spec.node_name for tree in trees}
        nodes = [*nodes, *(Node(metadata=ObjectMeta(name=name)) for name in sorted(names - known))]
    return remaining_instances(
        claim, nodes=nodes, trees=trees, book=shapes.early.book(snapshot), claims=snapshot.claims
    )


def _nodes(snapshot: Snapshot) -> list[Node]:
    if not snapshot.sees(Node):
        nodes = made_up_nodes(snapshot.of(ResourceSlice))
        snapshot.notes.append(
            f"you may see no nodes: {len(nodes)} are made up from the slices, without labels"
        )
        return nodes
    nodes = [node for node in snapshot.of(Node) if not node.spec.unschedulable]
    cordoned = len(snapshot.of(Node)) - len(nodes)
    if not snapshot.of(Node):
        snapshot.notes.append("there are no nodes, so nothing fits anywhere")
    if cordoned:
        snapshot.notes.append(f"cordoned nodes are left out: {cordoned}")
    return nodes


# --- for people ---


# --- for programs ---


def fit_document(fit: Fit) -> Document:
    """``bound`` says how exact the number is: exact, atLeast, atMost or estimate."""
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
