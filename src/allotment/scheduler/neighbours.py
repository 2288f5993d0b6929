"""Counts pods by description on each node, for rules about neighbours.

Pods with equal namespace, labels and wishes are one *kind*; a cluster has far fewer kinds than pods. A *question* (pods in these
namespaces that match this selector) is compared with each kind once. From then on its *tally*, a count per node, stays up to date
as pods come and go. *Standing* terms are what pods on nodes ask of their neighbours: required anti-affinity, and wishes that only
score. They are counted per node in the same way. So the cost of a cycle depends on the number of nodes with matching pods, not on
the number of pods.

The counts catch up with the cluster's log only when asked. If no pod has rules about neighbours, they cost nothing. Pods on
unknown nodes do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allotment.api.codec import encode
from allotment.api.selection import Selector, SelectorRequirement, Test
from allotment.scheduler.selector import pods_selected

if TYPE_CHECKING:
    from allotment.api.core import Node, Pod, PodAffinityTerm
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

Counts = dict[str, int]

TALLIES_KEPT = 4096
DOMAINS_KEPT = 64


@dataclass(frozen=True, slots=True)
class MeantPods:
    """Pods in some namespaces (None: all) with some labels (None: no pod is meant)."""

    namespaces: frozenset[str] | None
    labels: Selector | None

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (
            self.labels is not None
            and (self.namespaces is None or namespace in self.namespaces)
            and self.labels.matches(labels)
        )


@dataclass(frozen=True, slots=True)
class Question:
    """How many pods on each node match every part. With ``staying``, pods that are being deleted do not count."""

    parts: tuple[MeantPods, ...]
    staying: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a pod's affinity or anti-affinity, resolved for that pod. Equal terms of different pods are equal."""

    key: str  # label of nodes whose values are the domains
    namespaces: frozenset[str]
    namespace_labels: Selector | None  # and namespaces with such labels
    labels: Selector | None

    def meant(self, namespaces: Mapping[str, Mapping[str, str]]) -> MeantPods:
        """The pods that the term matches, with the namespaces' current labels."""
        chosen = self.namespace_labels
        if chosen is None:
            return MeantPods(self.namespaces, self.labels)
        if not chosen:
            return MeantPods(None, self.labels)
        matching = (name for name, labels in namespaces.items() if chosen.matches(labels))
        return MeantPods(self.namespaces.union(matching), self.labels)

    def means(self, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        if self.labels is None or not self.labels.matches(pod.pod.metadata.labels):
            return False
        return pod.namespace in self.namespaces or (
            self.namespace_labels is not None
            and self.namespace_labels.matches(namespaces.get(pod.namespace, {}))
        )


@dataclass(frozen=True, slots=True)
class NeighbourTerms:
    """What a pod asks of its neighbours: what it requires, and what it prefers (negative weight: avoids)."""

    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    preferred: tuple[tuple[Term, int], ...] = ()


NO_WISHES = NeighbourTerms()


def has_wishes(pod: Pod) -> bool:
    """Whether a pod has any affinity to other pods, or anti-affinity."""
    affinity = pod.spec.affinity
    return affinity is not None and not (affinity.pod_affinity is None and affinity.pod_anti_affinity is None)


def wishes_of(pod: Pod) -> NeighbourTerms:
    """What a pod asks of its neighbours, with its own labels and namespace filled in."""
    if not has_wishes(pod):
        return NO_WISHES
    assert pod.spec.affinity is not None
    near, apart = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    likes = ((each, each.weight) for each in (near.preferred if near else ()))
    dislikes = ((each, -each.weight) for each in (apart.preferred if apart else ()))
    return NeighbourTerms(
        near=tuple(_term(each, pod) for each in (near.required if near else ())),
        apart=tuple(_term(each, pod) for each in (apart.required if apart else ())),
        preferred=tuple((_term(each.pod_affinity_term, pod), weight) for each, weight in (*likes, *dislikes)),
    )


def _term(term: PodAffinityTerm, pod: Pod) -> Term:
    explicit = term.namespaces
    if not explicit and term.namespace_selector is None:
        explicit = (pod.metadata.namespace,)
    more = (
        label_keys(term.match_label_keys, Test.IN, pod),
        label_keys(term.mismatch_label_keys, Test.NOT_IN, pod),
    )
    return Term(
        key=term.topology_key,
        namespaces=frozenset(explicit),
        namespace_labels=pods_selected(term.namespace_selector),
        labels=pods_selected(term.label_selector, (*more[0], *more[1])),
    )


def label_keys(keys: Iterable[str], test: Test, pod: Pod) -> tuple[SelectorRequirement, ...]:
    """Requirements that labels equal the pod's own (or differ). A newer server has already put them into the selector; repeating
    them changes nothing."""
    labels = pod.metadata.labels
    return tuple(SelectorRequirement(key, test, frozenset((labels[key],))) for key in keys if key in labels)


class _TermOnNodes:
    """A term of pods that are on nodes; ``nodes`` counts them."""

    __slots__ = ("nodes", "term", "weight")

    def __init__(self, term: Term, weight: int) -> None:
        self.term = term
        self.weight = weight
        self.nodes: Counts = {}


class _CountedQuestion:
    """A question and its current answer."""

    __slots__ = ("nodes", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.nodes: Counts = {}


class _EqualPods:
    """Pods that no question can tell apart. Each pod of the kind adds to all of ``counts``."""

    __slots__ = ("counts", "labels", "leaving", "namespace", "nodes", "wishes")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace = pod.namespace
        self.labels = pod.pod.metadata.labels
        self.leaving = pod.leaving
        self.wishes = wishes_of(pod.pod)
        self.nodes: Counts = {}
        self.counts: list[_CountedQuestion | _TermOnNodes] = []

    def answers(self, question: Question) -> bool:
        if question.staying and self.leaving:
            return False
        return all(part.matches(self.namespace, self.labels) for part in question.parts)


@dataclass(frozen=True, slots=True)
class Domains:
    """Which value of a label each node of interest has."""

    of: Mapping[str, str]  # node → value
    values: Mapping[str, int]  # every value → 0, to start counting with

    def count(self, nodes: Mapping[str, int]) -> Counts:
        """Counts per node, added up by value."""
        counts, of = dict(self.values), self.of
        for node, number in nodes.items():
            value = of.get(node)
            if value is not None:
                counts[value] += number
        return counts


class Neighbours:
    """The counts of all pods on nodes. Answers are live: the caller may neither change them nor keep them beyond the cycle."""

    def __init__(self, cluster: Cluster) -> None:
        self.wishful: set[str] = set()  # all pods with wishes, on nodes or not; the cluster keeps it
        self._cluster = cluster
        self._read = -1
        self._pods = 0
        self._nodes: dict[str, Node] = {}
        self._seen: dict[str, dict[str, tuple[PodInfo, _EqualPods]]] = {}  # node → pod → as it was counted
        self._kinds: dict[object, _EqualPods] = {}
        self._tallies: dict[Question, _CountedQuestion] = {}
        self._apart: dict[Term, _TermOnNodes] = {}
        self._likes: dict[tuple[Term, int], _TermOnNodes] = {}
        self._domains: dict[object, Domains] = {}

    # --- questions ---

    def tally(self, question: Question) -> Mapping[str, int]:
        """The number of pods of that description per node, without nodes that have none."""
        self.catch_up()
        tally = self._tallies.pop(question, None)
        if tally is None:
            if len(self._tallies) >= TALLIES_KEPT:
                self._drop_tallies()
            tally = _CountedQuestion(question)
            for kind in self._kinds.values():
                if kind.answers(question):
                    kind.counts.append(tally)
                    _add(tally.nodes, kind.nodes)
        self._tallies[question] = tally  # the latest used is last
        return tally.nodes

    def repelling(self, pod: PodInfo) -> list[tuple[str, Mapping[str, int]]]:
        """Required anti-affinity of other pods that matches this pod: the label whose domains count, and the nodes of those
        pods."""
        self.catch_up()
        namespaces = self._cluster.namespaces
        return [
            (each.term.key, each.nodes) for each in self._apart.values() if each.term.means(pod, namespaces)
        ]

    def liking(self, pod: PodInfo) -> list[tuple[str, int, Mapping[str, int]]]:
        """Preferences of other pods that match this pod: the label, the weight, and the nodes of those pods."""
        self.catch_up()
        namespaces = self._cluster.namespaces
        return [
            (each.term.key, each.weight, each.nodes)
            for each in self._likes.values()
            if each.term.means(pod, namespaces)
        ]

    def domains(self, name: object, key: str, interesting: Callable[[Node], bool] | None = None) -> Domains:
        """The domains of a node label among the nodes that have it and are ``interesting``; ``name`` stands for that test
        and must be equal for equal ones. Remembered until nodes change."""
        self.catch_up()
        found = self._domains.get((name, key))
        if found is None:
            if len(self._domains) >= DOMAINS_KEPT:
                self._domains.clear()
            of = {
                node: value
                for node, shown in self._nodes.items()
                if (value := shown.metadata.labels.get(key)) is not None
                and (interesting is None or interesting(shown))
            }
            found = self._domains[name, key] = Domains(of, dict.fromkeys(of.values(), 0))
        return found

    # --- keeping up ---

    def catch_up(self) -> None:
        """Updates the counts by what changed."""
        log = self._cluster.log
        if self._read == log.end:
            return
        names = log.since(self._read) if self._read >= 0 else None
        self._read = log.end
        for name in dict.fromkeys((*self._seen, *self._cluster.nodes) if names is None else names):
            self._recount(name)

    def _recount(self, name: str) -> None:
        info = self._cluster.nodes.get(name)
        node = info.node if info is not None else None
        self._describe(name, node)
        pods = info.pods if info is not None and node is not None else {}
        seen = self._seen.get(name)
        if seen is None:
            if not pods:
                return
            seen = self._seen[name] = {}
        for key in [key for key in seen if key not in pods]:
            self._count(seen.pop(key)[1], name, -1)
        for key, pod in pods.items():
            known = seen.get(key)
            if known is not None and known[0] is pod:
                continue
            kind = self._kind(pod)
            if known is None or known[1] is not kind:
                if known is not None:
                    self._count(known[1], name, -1)
                self._count(kind, name, 1)
            seen[key] = (pod, kind)
        if not seen:
            del self._seen[name]

    def _describe(self, name: str, node: Node | None) -> None:
        before = self._nodes.get(name)
        if node is None:
            if before is not None:
                del self._nodes[name]
                self._domains.clear()
            return
        if node is not before:
            self._nodes[name] = node
            if (
                before is None
                or before.metadata.labels != node.metadata.labels
                or before.spec.taints != node.spec.taints
            ):
                self._domains.clear()

    def _kind(self, pod: PodInfo) -> _EqualPods:
        meta, spec = pod.pod.metadata, pod.pod.spec
        wishes = encode(spec.affinity) if spec.affinity is not None and has_wishes(pod.pod) else b""
        key = (meta.namespace, frozenset(meta.labels.items()), pod.leaving, wishes)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) > 64 + 2 * self._pods:
                self._drop_absent()
            kind = self._kinds[key] = _EqualPods(pod)
            kind.counts.extend(each for each in self._tallies.values() if kind.answers(each.question))
            kind.counts.extend(self._stand(kind.wishes))
        return kind

    def _drop_absent(self) -> None:
        """Forgets kinds and terms that no pod has any more."""
        self._kinds = {key: each for key, each in self._kinds.items() if each.nodes}
        self._apart = {key: each for key, each in self._apart.items() if each.nodes}
        self._likes = {key: each for key, each in self._likes.items() if each.nodes}

    def _stand(self, wishes: NeighbourTerms) -> Iterable[_TermOnNodes]:
        for term in wishes.apart:
            yield self._apart.setdefault(term, _TermOnNodes(term, 1))
        # Kubernetes' hardPodAffinityWeight: a required affinity also scores with weight 1.
        for term, weight in (*((term, 1) for term in wishes.near), *wishes.preferred):
            yield self._likes.setdefault((term, weight), _TermOnNodes(term, weight))

    def _count(self, kind: _EqualPods, node: str, change: int) -> None:
        self._pods += change
        for counts in (kind.nodes, *(each.nodes for each in kind.counts)):
            number = counts.get(node, 0) + change
            if number:
                counts[node] = number
            else:
                del counts[node]

    def _drop_tallies(self) -> None:
        """Forgets the least recently used half."""
        for question in list(self._tallies)[: TALLIES_KEPT // 2]:
            del self._tallies[question]
        kept = set(map(id, self._tallies.values()))
        for kind in self._kinds.values():
            kind.counts = [each for each in kind.counts if isinstance(each, _TermOnNodes) or id(each) in kept]

    def validate(self) -> None:
        """Raises AssertionError where a count differs from a fresh count."""
        self.catch_up()
        fresh = Neighbours(self._cluster)
        for question, tally in self._tallies.items():
            assert fresh.tally(question) == tally.nodes, f"{question} is counted wrong"
        fresh.catch_up()
        assert _present(self._apart) == _present(fresh._apart), "anti-affinity is counted wrong"
        assert _present(self._likes) == _present(fresh._likes), "likes are counted wrong"


def _present(standing: Mapping[Any, _TermOnNodes]) -> dict[Any, Counts]:
    return {key: each.nodes for key, each in standing.items() if each.nodes}


def _add(counts: Counts, more: Mapping[str, int]) -> None:
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number
