"""The tree stays easy to walk: small folders, names that mean one thing, and no passage that stands twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from allotment.scheduler.config.configuration import PLUGINS
from allotment.scheduler.plugins.dynamic_resources import DynamicResources
from tests.checkout import CHECKOUT

SOURCE = CHECKOUT / "src" / "allotment"
TESTS = CHECKOUT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in MODULES}

MOST_MODULES = 40
"""Of one folder, its ``__init__`` included."""
BUILDERS = {"pod", "node", "claim", "slice_", "device_class"}
BUILDER_MODULES = {
    "allocator/build.py",  # typed objects for the allocator
    "allocator/trees.py",  # the same of KEP-4381 semantic parameters
    "api/validation/builders.py",  # objects that are slightly wrong
    "builders/plain.py",
    "builders/typed.py",
    "controllers/machines/world.py",  # claims for machines
    "controllers/simulation/simulated.py",
    "problems/inventory.py",  # random ones
    "scheduler/storage.py",  # claims for volumes, and pods that use them
}
"""Elsewhere a test may fill in what matters to it, under a name that says what that is."""
REPEATED_LINES = 10
"""A passage of so many lines must not stand twice."""

# Kubernetes gives these names to two things each: to types of both of its versions of claims, or to a type and a plugin.
NAMES_OF_KUBERNETES = {
    "AllocationResult",
    "DynamicResources",
    "NodeAffinity",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceRequirements",
}


def test_no_folder_has_too_many_modules() -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in MODULES:
        counts[path.parent] += 1
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_a_bound_has_one_value_wherever_its_name_stands() -> None:
    values: dict[str, dict[float, str]] = defaultdict(dict)
    for module, tree in TREES.items():
        for name, value in _numbers(tree):
            values[name].setdefault(value, module)
    assert {name: places for name, places in values.items() if len(places) > 1} == {}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    twice = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in NAMES_OF_KUBERNETES} == {}
    assert twice.keys() >= NAMES_OF_KUBERNETES, "an exception that is no longer needed"


def test_modules_of_one_folder_do_not_differ_by_a_plural() -> None:
    names = {(path.parent, path.stem) for path in MODULES}
    assert [f"{folder}/{name}" for folder, name in names if (folder, f"{name}s") in names] == []


def test_no_passage_stands_twice() -> None:
    """Without blank lines, comments, imports, and lines of mere punctuation."""
    seen: dict[tuple[str, ...], str] = {}
    repeated = []
    for path in MODULES:
        lines = [
            (number, text)
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if _counts(text := " ".join(line.split()))
        ]
        for start in range(len(lines) - REPEATED_LINES + 1):
            passage = lines[start : start + REPEATED_LINES]
            here = f"{path.relative_to(SOURCE)}:{passage[0][0]}"
            there = seen.setdefault(tuple(text for _, text in passage), here)
            if there != here:
                repeated.append(f"{here} is {there}")
    assert repeated == []


def test_no_part_of_the_scheduler_knows_a_plugin_by_its_name() -> None:
    """Only configurations name plugins, and each plugin itself."""
    names = {
        f"{module}: {node.value}"
        for module, tree in TREES.items()
        if module.startswith("scheduler/")
        and not module.startswith(("scheduler/config/", "scheduler/plugins/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PLUGINS
    }
    assert names == {f"scheduler/devices/pod_wants.py: {DynamicResources.name}"}, (
        "where that plugin's parts have the name"
    )


def test_objects_for_tests_are_built_in_few_places() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in BUILDERS
    }
    assert found == BUILDER_MODULES


def _counts(text: str) -> bool:
    return any(map(str.isalnum, text)) and not text.startswith(("#", "import ", "from "))


def _numbers(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """The constants of a module that are numbers, computed ones included."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
                pairs = [*zip(targets, values, strict=True)]
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            number = _number(value)
            if isinstance(target, ast.Name) and target.id.isupper() and number is not None:
                yield target.id, number


def _number(value: ast.expr) -> float | None:
    try:
        found = eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {"float": float}})
    except Exception:  # it needs something that is not written here
        return None
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None
