"""Random objects of the small pod in ``schemas.py``, alike enough to share fields."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.apiserver.patch.values import values

_TEXT = st.sampled_from(["1", "2"])
_MAP = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), _TEXT, min_size=1, max_size=2)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def _elements(key: str, of: st.SearchStrategy[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    element = st.fixed_dictionaries({key: of}, optional=more)
    return st.lists(element, min_size=1, max_size=3, unique_by=lambda each: each[key])


_CONTAINERS = _elements(
    "name",
    st.sampled_from(["x", "y", "z"]),
    image=_TEXT,
    args=st.lists(_TEXT, max_size=2),
    env=_elements("name", st.sampled_from(["E", "F"]), value=_TEXT),
    ports=_elements("containerPort", st.sampled_from([80, 81]), name=_TEXT),
    resources=_optional(limits=_MAP),
)
_SPEC = _optional(
    containers=_CONTAINERS,
    nodeName=_TEXT,
    nodeSelector=_MAP,
    selector=_optional(matchLabels=_MAP),
    tolerations=st.lists(_optional(key=_TEXT), max_size=2),
    opaque=values().filter(lambda value: value not in ({}, [])),
)
_METADATA = _optional(
    labels=_MAP,
    annotations=_MAP,
    finalizers=st.lists(st.sampled_from(["f", "g", "h"]), min_size=1, max_size=3, unique=True),
)


def pods() -> st.SearchStrategy[dict[str, Any]]:
    """Pods without names, or parts of pods: all lists have what identifies their elements."""
    return st.fixed_dictionaries({"metadata": _METADATA, "spec": _SPEC})


def configurations() -> st.SearchStrategy[dict[str, Any]]:
    """The same, as somebody applies them."""
    return pods().map(lambda pod: {"apiVersion": "v1", "kind": "Pod", **pod})
