"""The paths of columns, scale and selectors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.registry.custom.jsonpath import LONGEST_PATH, JsonPath, PathError

OBJECT: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "dotted", "x y": "spaced"}},
    "spec": {"parts": [{"id": "p", "n": 1}, {"id": "q", "n": 2}, {"id": "r", "ok": True}], "size": 3},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Fit", "status": "False"}]},
}
FOUND: dict[str, list[Any]] = {
    ".spec.size": [3],
    ".spec.none": [],
    ".spec.size.deeper": [],
    ".metadata.labels.a\\.b/c": ["dotted"],
    ".metadata.labels['a.b/c']": ["dotted"],
    '.metadata.labels["x y"]': ["spaced"],
    ".spec.parts[0].id": ["p"],
    ".spec.parts[-1].id": ["r"],
    ".spec.parts[7]": [],
    ".spec.parts[*].id": ["p", "q", "r"],
    ".spec.parts[0:2].id": ["p", "q"],
    ".spec.parts[::2].id": ["p", "r"],
    ".spec.parts[0,2].id": ["p", "r"],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".status.conditions[?(@.type=='Fit')].status": ["False"],
    ".status.conditions[?(@.type != 'Fit')].status": ["True"],
    ".spec.parts[?(@.n > 1)].id": ["q"],
    ".spec.parts[?(@.n<=2)].id": ["p", "q"],
    ".spec.parts[?(@.ok)].id": ["r"],
    ".spec.parts[?(@.ok==true)].id": ["r"],
    ".spec.parts[?(@.n=='1')].id": [],  # text is no number
    "..id": ["p", "q", "r"],
    ".": [OBJECT],
}


@pytest.mark.parametrize("path", FOUND)
def test_found(path: str) -> None:
    assert JsonPath(path).find(OBJECT) == FOUND[path]


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec['a]", ".a[?(b==1)]", ".a[x]", ".a[?(@.b==c)]", ".a[::0]", ".a b"])  # fmt: skip
def test_refused(path: str) -> None:
    with pytest.raises(PathError):
        JsonPath(path)


def test_the_first_of_nothing_is_none() -> None:
    assert JsonPath(".spec.none").first(OBJECT) is None


def test_a_path_is_bounded_in_length_and_in_work() -> None:
    with pytest.raises(PathError, match="longer than"):
        JsonPath("." + "a" * LONGEST_PATH)
    wide = {"a": [[0] * 100 for _ in range(300)]}
    with pytest.raises(PathError, match="values to look at"):
        JsonPath(".a[*][*]").find(wide)
    deep: Any = 0
    for _ in range(150):
        deep = [deep, deep]
    with pytest.raises(PathError, match="values to look at"):
        JsonPath("..x").find(deep)
    assert JsonPath("..x").first(deep) is None


@given(st.text(alphabet=".[]*'\"?(@)=<>:,-\\ab01 ", max_size=30))
def test_any_text_is_a_path_or_is_refused(text: str) -> None:
    try:
        path = JsonPath(text)
    except PathError:
        return
    path.first(OBJECT)
