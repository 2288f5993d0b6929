"""NodePools' ``minValues``: a machine is planned only if enough others would also work.

A requirement of a pool with ``minValues`` says that a plan must not depend on few values of a label: the pool's machines that
could take the same pods must have at least so many values. If one is then out of stock, the next plan has others. As in
Karpenter (policy Strict), a pool that cannot leave so many open does not serve the pods; labels whose value is not certain
yet count with all possible values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Machine


@dataclass(frozen=True, slots=True)
class MinValuesRule:
    """How many values of a label must stay open."""

    key: str
    least: int


class Flexibility:
    """The rules of all pools. Machines are given by number."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._rules: dict[str, tuple[MinValuesRule, ...]] = {}
        self._numbers: dict[str, list[int]] = {}
        for number, machine in enumerate(machines):
            if machine.pool is not None:
                self._numbers.setdefault(machine.source, []).append(number)
                tests = machine.pool.spec.template.spec.requirements
                self._rules[machine.source] = tuple(
                    MinValuesRule(each.key, each.min_values) for each in tests if each.min_values
                )

    def missed(self, machine: int, suits: Callable[[int], bool]) -> MinValuesRule | None:
        """The first rule of a machine's pool that fails if these are the machines that would also work."""
        source = self._machines[machine].source
        rules = self._rules.get(source, ())
        seen: dict[MinValuesRule, set[str]] = {rule: set() for rule in rules}
        for number in self._numbers[source] if rules else ():
            short = [rule for rule in rules if len(seen[rule]) < rule.least]
            if not short:
                return None
            more = any(self._values(number, rule.key) - seen[rule] for rule in short)
            if more and suits(number):
                for rule in short:
                    seen[rule] |= self._values(number, rule.key)
        return next((rule for rule in rules if len(seen[rule]) < rule.least), None)

    def _values(self, machine: int, key: str) -> frozenset[str]:
        each = self._machines[machine]
        if key in each.labels:
            return frozenset((each.labels[key],))
        possible = each.possible.get(key)
        return possible.listed if possible is not None and not possible.others else frozenset()
