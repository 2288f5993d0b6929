"""Random objects of a schema, for property tests."""

from base64 import b64encode
from typing import Any

from hypothesis import strategies as st

from allotment.api.schema.schema import Schema

_TIMES = ("2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
_MICRO_TIMES = ("2026-01-02T03:04:05.000600Z", "2026-12-31T23:59:59.999999Z")
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "number": st.integers(-5, 5) | st.floats(-5, 5),
    "int-or-string": st.integers(0, 9) | st.sampled_from(["50%", ""]),
    "quantity": st.sampled_from(["0", "1", "100m", "2Gi", "3k"]),
    "any": ANY_JSON,
}


@st.composite
def values(draw: st.DrawFn, schema: Schema, depth: int = 8) -> Any:
    """A value that fits, in canonical form."""
    if schema.type == "time":
        return draw(st.sampled_from(_MICRO_TIMES if schema.name.endswith("MicroTime") else _TIMES))
    if schema.format == "byte":
        return b64encode(draw(st.binary(max_size=5))).decode()
    if schema.type in _SCALARS:
        return draw(_SCALARS[schema.type])
    if depth == 0:
        return [] if schema.type == "array" else {}
    if schema.items is not None:
        return draw(st.lists(values(schema.items, depth - 1), max_size=2))
    if schema.additional is not None:
        return draw(st.dictionaries(st.text(max_size=3), values(schema.additional, depth - 1), max_size=2))
    names = (
        draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=4, unique=True))
        if schema.properties
        else []
    )
    return {name: draw(values(schema.properties[name], depth - 1)) for name in names}


@st.composite
def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """The value with something in it replaced, added or repeated at random."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(spoiled(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(spoiled(value[0])), *value[1:]]
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(st.text(max_size=5)): draw(ANY_JSON)}
    return draw(ANY_JSON)
