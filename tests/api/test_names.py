"""Names: what each kind of name accepts, at its edges."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api import names

CASES: dict[Callable[[str], str | None], tuple[list[str], list[str]]] = {
    names.dns_label_problem: (
        ["a", "0", "a-b", "a" * 63],
        ["", "A", "-a", "a-", "a.b", "a_b", "a" * 64, "ä", "a\n"],
    ),
    names.dns_subdomain_problem: (
        ["a", "a.b-c.d", "a" * 253],
        ["", ".", "a.", ".a", "a..b", "A.b", "a_b", "a/b", "a" * 254],
    ),
    names.driver_problem: (["gpu.example.com", "GPU.Example.com", "a" * 63], ["", "a_b", "a" * 64, "\u212a"]),
    names.identifier_problem: (["a", "_a1", "A" * 32], ["", "1a", "a-b", "a" * 33]),
    names.qualified_name_problem: (["a", "x.y/a"], ["", "/a", "x/", "x/y/z", "a-b", "x/a-b", "_/a"]),
    names.label_key_problem: (
        ["a", "A_b.c-d", "x.y/A", "a" * 63],
        ["", "a b", "-a", "a/", "/a", "X/a", "a/b/c", "a" * 64],
    ),
    names.label_value_problem: (["", "a", "A_b"], ["a b", "-a", "a" * 64]),
    names.word_problem: (["UUID", "runtimeVersion", "a.b"], ["", "a b", "a:", "a" * 254]),
    names.uuid_problem: (
        ["01234567-89ab-cdef-0123-456789abcdef"],
        ["", "01234567-89AB-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef"],
    ),
    names.extended_resource_problem: (
        ["example.com/gpu"],
        ["", "gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.a.com/b", "a.com/b c"],
    ),
}


@pytest.mark.parametrize("problem_of", CASES, ids=lambda function: function.__name__)
def test_edges(problem_of: Callable[[str], str | None]) -> None:
    sound, broken = CASES[problem_of]
    assert [text for text in sound if problem_of(text) is not None] == []
    assert [text for text in broken if problem_of(text) is None] == []


@given(st.text(max_size=300))
def test_every_text_has_a_short_answer(text: str) -> None:
    for problem_of in CASES:
        problem = problem_of(text)
        assert problem is None or 0 < len(problem) < 600


def test_resources_of_the_node() -> None:
    assert all(map(names.is_node_allocatable, ["cpu", "memory", "hugepages-2Mi"]))
    assert not any(map(names.is_node_allocatable, ["example.com/gpu", "ephemeral-storage", "pods"]))
