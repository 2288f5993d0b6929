"""The rules of one role, found by what they are about, so that a decision does not cost what a role has.

Whoever administers a namespace may write as many rules there as they like and give them to everybody, and every request to the
namespace asks them all. So the rules of a large role stand in lists by verb, by group and by resource; a question looks at the
shortest list only, and its answer is kept with the role. A role that is written again pays for itself alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.apiserver.auth.rule import Rule

Question = tuple[str, str, str, str]
"""Verb, group, resource, subresource."""

_LISTED_RULES: Final = 32
"""The most rules that are faster to go through than to look up."""
_RULE_ANSWERS_REMEMBERED: Final = 1024
"""Answers kept with a role; only those that took some looking."""

_Places = Mapping[str, list[int]]


class Granting(NamedTuple):
    """What a role grants of a question: any name or, apart from that, these."""

    any: bool
    names: frozenset[str]


class RoleRules:
    """Immutable but for what it remembers."""

    __slots__ = ("_answers", "_places", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._answers: dict[Question, Granting] = {}
        self._places: tuple[_Places, _Places, _Places] | None = None
        if len(rules) > _LISTED_RULES:
            verbs, groups, resources = (
                [rule.verbs for rule in rules],
                [rule.groups for rule in rules],
                [rule.resources for rule in rules],
            )
            self._places = _places(verbs), _places(groups), _places(resources)

    def granting(self, question: Question) -> Granting:
        known = self._answers.get(question)
        if known is not None:
            return known
        looked, any_, names = 0, False, set[str]()
        for rule in self._about(question):
            looked += 1
            if not rule.holds_for_resource(*question):
                continue
            if not rule.names:
                any_ = True
                break
            names.update(rule.names)
        answer = Granting(any_, frozenset(names))
        if looked > _LISTED_RULES:
            if len(self._answers) >= _RULE_ANSWERS_REMEMBERED:
                self._answers.clear()
            self._answers[question] = answer
        return answer

    def _about(self, question: Question) -> Iterator[Rule]:
        """The rules that may hold for it, and perhaps others."""
        if self._places is None:
            return iter(self.rules)
        verb, group, resource, subresource = question
        wanted = f"{resource}/{subresource}" if subresource else resource
        everywhere = ("*", f"*/{subresource}") if subresource else ("*",)
        verbs, groups, resources = self._places
        lists = (
            _at(verbs, (verb, "*")),
            _at(groups, (group, "*")),
            _at(resources, (wanted, *everywhere)),
        )
        shortest = min(lists, key=lambda each: sum(map(len, each)))
        return (self.rules[place] for places in shortest for place in places)


def _places(of_rules: Iterable[tuple[str, ...]]) -> _Places:
    """By value the places of the rules that name it."""
    found: dict[str, list[int]] = {}
    for place, values in enumerate(of_rules):
        for value in values:
            found.setdefault(value, []).append(place)
    return found


def _at(places: _Places, values: Iterable[str]) -> list[list[int]]:
    return [places[value] for value in dict.fromkeys(values) if value in places]
