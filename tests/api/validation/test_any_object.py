"""Validation and defaulting answer for every object that decodes, however odd: they never raise and never hang."""

from functools import cache
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allotment.api import pools, resource, semantic
from allotment.api.codec import DecodeError, decode
from allotment.api.defaults import with_defaults
from allotment.api.meta import ApiStruct
from allotment.api.quantity import Quantity
from allotment.api.validation import validate
from tests.api.validation.builders import check, shown
from tests.thoroughness import examples

KINDS = (
    resource.ResourceSlice,
    resource.ResourceClaim,
    resource.ResourceClaimTemplate,
    resource.DeviceClass,
    resource.DeviceTaintRule,
    semantic.NodeResourceSlice,
    semantic.ResourceClass,
    semantic.ResourceClassParameters,
    semantic.ResourceClaimParameters,
    semantic.ResourceClaim,
    semantic.ResourceClaimTemplate,
    pools.ResourcePool,
    pools.ResourcePoolStatusRequest,
)
LEVELS = 8  # deep enough for every field, shallow enough to be quick

texts = st.sampled_from(
    [
        "",
        "a",
        "r0",
        "r0/a",
        "a.example.com/x",
        "A b",
        "*",
        "All",
        "Exists",
        "1.2.3",
        "broken",
        "costly",
        "ä\n",
    ]
)
quantities = st.sampled_from(["0", "1", "-1", "1u", "1500m", "1Ki", "16Ei", "1e100", "3"])


def value_of(field: Any, level: int) -> st.SearchStrategy[Any]:
    """Plain values that a field of this type decodes from."""
    origin, args = get_origin(field), get_args(field)
    if origin is tuple:
        return st.lists(value_of(args[0], level), max_size=2)
    if origin is dict:
        return st.dictionaries(texts, value_of(args[1], level), max_size=2)
    if args and hasattr(field, "__metadata__"):
        return value_of(args[0], level)
    if args:  # an optional field
        return st.one_of([value_of(arg, level) for arg in args if arg is not type(None)])
    if isinstance(field, type) and issubclass(field, ApiStruct):
        return fields_of(field, level - 1)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: st.integers(-2, 3),
        bool: st.booleans(),
        Quantity: quantities,
    }
    return simple.get(field, st.sampled_from([None, 1, "x", {}, {"a": [1]}]))


@cache
def fields_of(kind: type[ApiStruct], level: int) -> st.SearchStrategy[dict[str, Any]]:
    if level <= 0:
        return st.just({})
    fields = {
        field.encode_name: value_of(field.type, level)
        for field in msgspec.structs.fields(kind)
        if field.name not in ("api_version", "kind", "owner_references")
    }
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_object_gets_an_answer(kind: type[ApiStruct], data: st.DataObject) -> None:
    drawn = data.draw(fields_of(kind, LEVELS))
    try:
        obj = decode(kind, drawn)
    except DecodeError:
        return
    complete = with_defaults(obj, now="2026-01-01T00:00:00Z")
    assert with_defaults(complete, now="2026-01-01T00:00:00Z") is complete
    shown(validate(complete, check=check))


def test_kinds_without_rules_are_sound() -> None:
    assert validate(object(), check=check) == []
