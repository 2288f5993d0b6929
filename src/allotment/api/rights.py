"""How this package writes down what somebody may do: one line for each group of verbs and resources.

    verbs: groups: resources [: names]        get,list,watch: core: pods,nodes
    verbs: paths                              get: /healthz,/livez

Commas separate entries. ``core`` is the empty API group. ``ours`` stands for the kinds that Kubernetes does not have:
they are in ``resource.k8s.io`` on the embedded server and in ``allotment.dev`` on any other cluster. ``@NAMESPACE`` in
place of names limits a line to one namespace.

A component states its rights beside its code, in these lines. Three readers expand them: the roles of the embedded
server, the manifests for other clusters and the check that a component makes when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

READ: Final = "get,list,watch"
CORE: Final = "core"
OURS: Final = "ours"
NATIVE_GROUP, CUSTOM_GROUP = "resource.k8s.io", "allotment.dev"
READING: Final = frozenset(READ.split(","))


@dataclass(frozen=True, slots=True)
class Grant:
    """One line: a policy rule of RBAC, in one namespace or, without one, in all."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    namespace: str = ""

    @property
    def line(self) -> str:
        """As it is written; ``ours`` is expanded."""
        names = f"@{self.namespace}" if self.namespace else ",".join(self.names)
        groups = ",".join(group or CORE for group in self.groups)
        columns = [",".join(self.verbs), groups, ",".join(self.resources or self.paths), names]
        return ": ".join(column for column in columns if column)


def grant(line: str, ours: Sequence[str] = (NATIVE_GROUP, CUSTOM_GROUP)) -> Grant:
    """Reads a line. ``ours`` are the groups in which the kinds that Kubernetes does not have may be."""
    verbs, *rest = (tuple(column.split(",")) for column in line.split(": "))
    if len(rest) == 1:
        return Grant(verbs, paths=rest[0])
    groups = tuple(
        found for word in rest[0] for found in (ours if word == OURS else ("" if word == CORE else word,))
    )
    made = Grant(verbs, groups, rest[1])
    if len(rest) < 3:
        return made
    [*_, last] = rest[2]
    return replace(made, namespace=last[1:]) if last.startswith("@") else replace(made, names=rest[2])


def reads(lines: Iterable[str]) -> tuple[str, ...]:
    """Of each line what it grants to read."""
    found = []
    for line in lines:
        verbs, _, rest = line.partition(": ")
        if kept := [verb for verb in verbs.split(",") if verb in READING]:
            found.append(f"{','.join(kept)}: {rest}")
    return tuple(found)


def gathered(grants: Iterable[Grant]) -> list[Grant]:
    """The same rights in few, sorted lines: those on one thing together, then the things with the same verbs."""
    verbs: dict[tuple[str, str, tuple[str, ...], str], set[str]] = {}
    for each in grants:
        for group in each.groups:
            for resource in each.resources:
                verbs.setdefault((group, resource, each.names, each.namespace), set()).update(each.verbs)
    resources: dict[tuple[str, tuple[str, ...], str, tuple[str, ...]], list[str]] = {}
    for (group, resource, names, namespace), found in sorted(verbs.items()):
        resources.setdefault((group, names, namespace, _sorted(found)), []).append(resource)
    groups: dict[tuple[tuple[str, ...], tuple[str, ...], str, tuple[str, ...]], list[str]] = {}
    for (group, names, namespace, may), things in resources.items():
        groups.setdefault((tuple(things), names, namespace, may), []).append(group)
    return [
        Grant(may, tuple(where), things, names, namespace=namespace)
        for (things, names, namespace, may), where in groups.items()
    ]


_ORDER = (*READ.split(","), "create", "delete", "deletecollection", "patch", "update")


def _sorted(verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        sorted(verbs, key=lambda verb: (_ORDER.index(verb) if verb in _ORDER else len(_ORDER), verb))
    )
