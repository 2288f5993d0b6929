"""One rule of a role: the verbs that it allows on resources or paths; and whether a rule covers another.

``*`` stands for every verb, group, resource (subresources too) or path; ``*/scale`` for that subresource of everything;
a path may end in ``*``. A rule with names holds only for requests that name one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from allotment.apiserver.auth.identity import Attributes


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule as data. ``from_json`` takes the stored form, and ignores values that are not lists of strings."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, rule: Mapping[str, Any]) -> Rule:
        return cls(
            _strings(rule.get("verbs")),
            _strings(rule.get("apiGroups")),
            _strings(rule.get("resources")),
            _strings(rule.get("resourceNames")),
            _strings(rule.get("nonResourceURLs")),
        )

    def to_json(self) -> dict[str, list[str]]:
        """The rule in the API's form; empty lists are left out, except verbs."""
        rule = {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            "resourceNames": list(self.names),
            "nonResourceURLs": list(self.paths),
        }
        return {"verbs": list(self.verbs), **{key: value for key, value in rule.items() if value}}

    def holds_for_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule grants this, not considering names."""
        return (
            (verb in self.verbs or "*" in self.verbs)
            and (group in self.groups or "*" in self.groups)
            and self._has_resource(resource, subresource)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if "*" in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def holds_for_path(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or "*" in self.verbs) and any(
            _path_matches(one, path) for one in self.paths
        )

    def allows(self, asked: Attributes) -> bool:
        if not asked.resource:
            return self.holds_for_path(asked.verb, asked.path)
        return (not self.names or asked.name in self.names) and self.holds_for_resource(
            asked.verb, asked.group, asked.resource, asked.subresource
        )

    def atoms(self) -> Iterator[Rule]:
        """The rule split into rules of one verb, group, resource and name each."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield Rule((verb,), (group,), (resource,), (name,) if self.names else ())
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    def __str__(self) -> str:
        """The rule as a refusal to escalate names it."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted_list(values)}" for key, values in parts if values) + "}"


MOST_COMPARED: Final = 100_000
"""Comparisons of one rule with another that a question about rights may take."""
_MADE_READY: Final = 4
"""What it takes to make one rule ready for that, in comparisons."""
_EVERYTHING: Final = Rule(("*",), ("*",), ("*",))


class _Holder:
    """What a rule grants, prepared for comparison with many atoms."""

    def __init__(self, rule: Rule) -> None:
        self._verbs, self._groups, self._resources, self._names = map(
            frozenset, (rule.verbs, rule.groups, rule.resources, rule.names)
        )
        self._paths = frozenset(rule.paths)
        self._beginnings = tuple(path.rstrip("*") for path in rule.paths if path.endswith("*"))

    def contains(self, atom: Rule) -> bool:
        """Whether the rule grants everything that ``atom``, one of ``atoms()``, grants."""
        if not _grants(self._verbs, atom.verbs[0]):
            return False
        if atom.paths:
            return atom.paths[0] in self._paths or atom.paths[0].startswith(self._beginnings)
        return (
            _grants(self._groups, atom.groups[0])
            and self._contains_resource(atom.resources[0])
            and (not self._names or (bool(atom.names) and atom.names[0] in self._names))
        )

    def _contains_resource(self, resource: str) -> bool:
        if _grants(self._resources, resource):
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self._resources


def uncovered(owned: Iterable[Rule], wanted: Iterable[Rule], limit: int = MOST_COMPARED) -> list[Rule]:
    """The atoms of ``wanted`` that no rule of ``owned`` contains.

    Rules multiply out, and each atom is compared with all owned rules. After ``limit`` comparisons, a rule that grants
    everything stands for the rest, so that a role designed to be slow is refused and not evaluated.
    """
    holders: list[_Holder] = []
    missing: list[Rule] = []
    for rule in owned:
        limit -= _MADE_READY
        if limit < 0:
            return [_EVERYTHING]
        holders.append(_Holder(rule))
    for atom in (atom for rule in wanted for atom in rule.atoms()):
        limit -= len(holders) + 1
        if limit < 0:
            return [*missing, _EVERYTHING]
        if not any(holder.contains(atom) for holder in holders):
            missing.append(atom)
    return missing


def compact(atoms: Iterable[Rule]) -> list[Rule]:
    """Joins atoms that differ only in their verb, as refusals list them; paths stay one by one."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    paths: list[Rule] = []
    for atom in atoms:
        if atom.paths:
            paths.append(atom)
        else:
            verbs.setdefault((atom.groups, atom.resources, atom.names), []).extend(atom.verbs)
    return paths + [Rule(tuple(every), *place) for place, every in verbs.items()]


def quoted_list(values: Sequence[str]) -> str:
    """A list of strings as Go prints it: ``["a" "b"]``."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


def _grants(owned: frozenset[str], wanted: str) -> bool:
    return wanted in owned or "*" in owned


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in (path, "*") or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
