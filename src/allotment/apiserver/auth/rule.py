"""One rule of a role: which verbs on which resources or paths; and when a rule contains another.

``*`` stands for every verb, group, resource (subresources too) or path; ``*/scale`` for that subresource of everything;
a path may end in ``*``. A rule with names holds only for requests that name one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allotment.apiserver.auth.identity import Attributes


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule as data. ``from_json`` takes what the API stores, and ignores what is not a list of strings."""

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
        """As the API has it; lists that are empty are left out, but for verbs."""
        rule = {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            "resourceNames": list(self.names),
            "nonResourceURLs": list(self.paths),
        }
        return {"verbs": list(self.verbs), **{key: value for key, value in rule.items() if value}}

    def holds_for_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether it grants this, names aside."""
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
        """The same as rules of one verb, group, resource and name each."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield Rule((verb,), (group,), (resource,), (name,) if self.names else ())
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    def contains(self, atom: Rule) -> bool:
        """Whether everything that ``atom``, one of ``atoms()``, grants is granted by this rule."""
        if not _all_in(atom.verbs, self.verbs):
            return False
        if atom.paths:
            return "*" in self.paths or all(
                any(_path_matches(one, path) for one in self.paths) for path in atom.paths
            )
        return (
            _all_in(atom.groups, self.groups)
            and all(self._contains_resource(resource) for resource in atom.resources)
            and (not self.names or (bool(atom.names) and set(atom.names) <= set(self.names)))
        )

    def _contains_resource(self, resource: str) -> bool:
        if "*" in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def __str__(self) -> str:
        """As a refusal to escalate names it."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted_list(values)}" for key, values in parts if values) + "}"


def uncovered(owned: Iterable[Rule], wanted: Iterable[Rule], limit: int = 10_000) -> list[Rule]:
    """The atoms of ``wanted`` that no rule of ``owned`` contains.

    Rules of others multiply out: past ``limit`` atoms the rest is not looked at and a rule granting everything stands
    for it, so that a role made to be slow is refused, not evaluated.
    """
    holders = tuple(owned)
    missing: list[Rule] = []
    for count, atom in enumerate(atom for rule in wanted for atom in rule.atoms()):
        if count >= limit:
            return [*missing, Rule(("*",), ("*",), ("*",))]
        if not any(rule.contains(atom) for rule in holders):
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
    """As Go prints a list of strings: ``["a" "b"]``."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


def _all_in(wanted: tuple[str, ...], owned: tuple[str, ...]) -> bool:
    return "*" in owned or all(value in owned for value in wanted)


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in (path, "*") or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
