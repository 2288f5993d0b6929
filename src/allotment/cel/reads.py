"""The parts of a device that a selector can read: devices that agree on them need only one evaluation.

A read is a tuple: ``("driver",)``, ``("allowMultipleAllocations",)``, ``("attributes", domain, id)`` or
``("capacity", domain, id)``, where None stands for "any". Constant keys give exact reads; a computed key, a
whole map handed to a function or a loop widens to everything below it. Names bound with ``cel.bind`` are
followed. The result is sound rather than tight: an expression that is not understood reads everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from allotment.cel.plan import Const, ExecutionPlan, Fold, Path, PathStep, PlannedCall, PlanNode, children

Read: TypeAlias = tuple[str] | tuple[str, str | None, str | None]
Reads: TypeAlias = frozenset[Read]

_SCALARS = ("driver", "allowMultipleAllocations")
_MAPS = ("attributes", "capacity")
EVERYTHING: Reads = frozenset([*((name,) for name in _SCALARS), *((name, None, None) for name in _MAPS)])


def reads_of(plan: ExecutionPlan) -> Reads:
    """Everything the plan can read of the variable ``device``."""
    device = plan.variables.get("device")
    return frozenset() if device is None else _Reader(device).collect(plan.root)


class _Reader:
    def __init__(self, device: int) -> None:
        self.aliases: dict[int, list[PathStep]] = {device: []}
        """Slots that stand for the device or a part of it, with the steps that lead there."""
        self.reads: set[Read] = set()

    def collect(self, root: PlanNode) -> Reads:
        pending = [root]
        while pending:
            pending.extend(self.visit(pending.pop()))
        return frozenset(self.reads)

    def visit(self, node: PlanNode) -> Iterator[PlanNode]:
        """Notes what the node itself reads and yields the nodes inside it."""
        match node:
            case Path():
                self.path(node.slot, node.steps)
                yield from children(node)
            case PlannedCall():
                yield from self.call(node)
            case Fold():
                yield from self.fold(node)
            case _:
                yield from children(node)

    def path(self, slot: int | None, steps: list[PathStep]) -> None:
        if slot in self.aliases:
            self.note([*self.aliases[slot], *steps])

    def note(self, steps: list[PathStep]) -> None:
        keys = [step.key if step.node is None and type(step.key) is str else None for step in steps[:3]]
        match keys:
            case [str(name), *_] if name in _SCALARS:
                self.reads.add((name,))
            case [str(name), str(domain), str(id_)] if name in _MAPS:
                self.reads.add((name, domain, id_))
            case [str(name), str(domain), *_] if name in _MAPS:
                self.reads.add((name, domain, None))
            case [str(name), *_] if name in _MAPS:
                self.reads.add((name, None, None))
            case _:
                self.reads |= EVERYTHING

    def call(self, node: PlannedCall) -> Iterator[PlanNode]:
        """``"id" in device.attributes["domain"]`` asks about one attribute, ``"domain" in …`` about one domain."""
        if node.function.name == "@in" and isinstance(node.args[0], Const) and isinstance(node.args[1], Path):
            path = node.args[1]
            steps = [*self.aliases[path.slot], *path.steps] if path.slot in self.aliases else []
            key = node.args[0].value
            if 1 <= len(steps) <= 2 and type(key) is str and all(step.node is None for step in steps):
                self.note([*steps, PathStep(node.id, key)])
                return
        yield from node.args

    def fold(self, node: Fold) -> Iterator[PlanNode]:
        """A bound name stands for its value where that is a plain path; its reads happen where it is used."""
        init = node.init
        if node.binds and isinstance(init, Path) and init.slot in self.aliases:
            self.aliases[node.accumulator] = [*self.aliases[init.slot], *init.steps]
            yield from (step.node for step in init.steps if step.node is not None)
            yield node.result
            return
        yield from (node.range, init, node.condition, node.step, node.result)
