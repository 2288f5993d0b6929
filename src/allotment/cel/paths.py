"""Paths as closures: a variable or value, and the steps into it.

The common case, constant keys into maps, is a chain of Python subscriptions; whatever that cannot do (lists,
optionals, a missing key's error message) goes the general way, which performs the steps one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from allotment.cel.access import enter, has, seek
from allotment.cel.code import COST_INDEX, UNSET, Closure, Code, Frame
from allotment.cel.errors import CelNoSuchOverload, CelRuntimeError
from allotment.cel.plan import Path, PathStep
from allotment.cel.recursion import Recursive
from allotment.cel.values import OPTIONAL_NONE, Optional, Value

if TYPE_CHECKING:
    from allotment.cel.compiler import Compiler


def path(compiler: Compiler, node: Path) -> Recursive[Code]:
    """Costs one, one a step, and what its origin and computed keys cost."""
    if node.slot is not None:
        origin, cost = _variable(compiler, node.slot), 1
    else:
        assert node.origin is not None
        code: Code = yield compiler.node(node.origin)
        origin, cost = code.run, code.cost + 1
    if not node.steps:
        return Code(origin, cost)
    if all(step.node is None and not step.optional and not step.test for step in node.steps):
        plain = node.slot is not None and node.slot not in compiler.lazy
        return Code(_subscriptions(origin, node, plain), cost + len(node.steps))
    keys: list[_Key] = []
    for step in node.steps:
        if step.node is None:
            keys.append((None, 1))
        else:
            key: Code = yield compiler.node(step.node)
            keys.append((key.run, 1 + key.cost - isinstance(step.node, Path)))
    walk = _walk(node.steps, keys)
    return Code(lambda frame: walk(frame, origin(frame)), cost + sum(price for _, price in keys))


def _variable(compiler: Compiler, slot: int) -> Closure:
    lazy = compiler.lazy.get(slot)
    if lazy is None:
        return lambda frame: frame[slot]
    compute, cost = lazy.run, lazy.cost

    def read(frame: Frame) -> Value:
        value = frame[slot]
        if value is UNSET:
            value = frame[slot] = compute(frame)
            frame[COST_INDEX] += cost
        return value

    return read


def _subscriptions(origin: Closure, node: Path, plain: bool) -> Closure:
    """Python's own subscription where all keys are text; anything it refuses is done over the general way."""
    steps = node.steps
    walk = _walk(steps, [(None, 1)] * len(steps))
    keys = [step.key for step in steps]
    if not all(type(key) is str for key in keys):
        return lambda frame: walk(frame, origin(frame))
    slot = node.slot
    if plain and len(keys) <= 3:
        assert slot is not None
        return _FAST[len(keys)](slot, keys, walk)

    def get(frame: Frame) -> Value:
        value = start = origin(frame)
        try:
            for key in keys:
                value = value[key]
        except (KeyError, TypeError):
            return walk(frame, start)
        return value

    return get


_Walk = Callable[[Frame, Value], Value]
_Key = tuple[Closure | None, int]
"""What computes the key of a step (None for a constant), and what the step costs with it."""


def _one(slot: int, keys: list[str], walk: _Walk) -> Closure:
    (first,) = keys

    def get(frame: Frame) -> Value:
        try:
            return frame[slot][first]
        except (KeyError, TypeError):
            return walk(frame, frame[slot])

    return get


def _two(slot: int, keys: list[str], walk: _Walk) -> Closure:
    first, second = keys

    def get(frame: Frame) -> Value:
        try:
            return frame[slot][first][second]
        except (KeyError, TypeError):
            return walk(frame, frame[slot])

    return get


def _three(slot: int, keys: list[str], walk: _Walk) -> Closure:
    first, second, third = keys

    def get(frame: Frame) -> Value:
        try:
            return frame[slot][first][second][third]
        except (KeyError, TypeError):
            return walk(frame, frame[slot])

    return get


_FAST = {1: _one, 2: _two, 3: _three}


def _walk(steps: list[PathStep], keys: list[_Key]) -> _Walk:
    """Step by step. Once a step is optional, so is the rest: absence ends the path with ``none``, and the
    steps that were not taken are not charged."""
    unspent = [sum(price for _, price in keys[number:]) for number in range(len(keys))]

    def walk(frame: Frame, value: Value) -> Value:
        optional = type(value) is Optional
        if optional:
            if not value.present:
                frame[COST_INDEX] -= unspent[0]
                return value
            value = value.value
        for number, step in enumerate(steps):
            compute, price = keys[number]
            key = step.key if compute is None else checked_key(compute(frame))
            optional = optional or step.optional
            if optional:
                value, present = seek(value, key, step.strict)
                if not present:
                    # The key was computed, the step not taken.
                    frame[COST_INDEX] -= unspent[number] - price + 1
                    return OPTIONAL_NONE
            elif step.test:
                value = has(value, key, step.strict)
            else:
                value = enter(value, key)
        return Optional(value) if optional else value

    return walk


def checked_key(key: Value) -> Value:
    """Computed keys must be of a type that can be one."""
    if key is None or isinstance(key, list | dict | bytes):
        raise CelRuntimeError("invalid qualifier type")
    if type(key) is Optional:
        raise CelNoSuchOverload
    return key
