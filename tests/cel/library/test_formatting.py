"""``format`` in both dialects. The pinned answers were recorded from Kubernetes 1.37, oddities included."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.ast import Expr, Factory, FunctionCall, Ident, ListExpr, Literal, MapExpr
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.formatting import NEWEST, PINNED, faults, format_text
from allotment.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    UINT,
    Type,
    list_of,
    map_of,
    object_type,
)
from allotment.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, make_map

INF = math.inf
HOUR = Duration(6347 * 10**9)
MOMENT = Timestamp(1675467080 * 10**9)

PINNED_ANSWERS: dict[str, tuple[str, list[Value], str]] = {
    "nothing to do": ("no substitution", [], "no substitution"),
    "percent signs": ("%%%s%%", ["text"], "%text%"),
    "arguments left over": ("%s", ["a", "b"], "a"),
    "not ascii": ("é%s", ["ü"], "éü"),
    "fixed": ("%f", [1.5], "1.500000"),
    "fixed groups thousands": ("%.3f", [12345678.5], "12,345,678.500"),
    "fixed rounds to even": ("%.0f", [2.5], "2"),
    "fixed rounds the exact number": ("%.2f", [1.005], "1.00"),
    "fixed grows a group": ("%.3f", [999.9999], "1,000.000"),
    "fixed of minus zero": ("%f", [-0.0], "0.000000"),
    "fixed of almost minus zero": ("%.3f", [-0.0001], "-0.000"),
    "fixed of a string that means a number": ("%f", ["NaN"], "NaN"),
    "fixed of infinity": ("%f", [INF], "∞"),
    "fixed of minus infinity": ("%.2f", ["-Infinity"], "-∞"),
    "the least precision wraps at 256": ("%.300f", [1.5], "1.5" + "0" * 43),
    "the most does not": ("%.257f", [0.1], "0.1000000000000000055511151231257827021181583404541015625"),
    "the most wraps at 65536": ("%.65539f", [0.1], "0.100"),
    "beyond 32768 there is no most": ("%.32769f", [0.1], "0.1"),
    "no decimals at all": ("%.256f", [12345.0], "12,345"),
    "scientific": ("%e", [12345678.5], "1.234568×10⁰⁷"),
    "scientific ignores the precision": ("%.2e", [12345678.5], "1.234568×10⁰⁷"),
    "scientific takes it for a width": ("%.20e", [12345678.5], "       1.234568×10⁰⁷"),
    "scientific of a small number": ("%e", [5e-324], "4.940656×10⁻³²⁴"),
    "scientific rounds up an exponent": ("%e", [9.9999999], "1.000000×10⁰¹"),
    "scientific of infinity": ("%e", [-INF], "    -∞"),
    "scientific of NaN": ("%e", [math.nan], "   NaN"),
    "string of a double": ("%s", [1e100], "1e+100"),
    "string of a million": ("%s", [1e6], "1e+06"),
    "string of bytes": ("%s", [b"abc"], "abc"),
    "string of null": ("%s", [None], "null"),
    "string of a type": ("%s", [TypeValue("int")], "int"),
    "string of a duration": ("%s", [HOUR], "6347s"),
    "string of a moment": ("%s", [MOMENT], "2023-02-03T23:31:20Z"),
    "precision of a string means nothing": ("%.3s", ["abcdef"], "abcdef"),
    "list of doubles": ("%s", [[1.5, 2.0]], "[1.500000, 2.000000]"),
    "list of special doubles": ("%s", [[math.nan, INF, -INF]], '["NaN", "+Inf", "-Inf"]'),
    "list of a string is quoted": ("%s", [['a\n"b\u2028é\u0001']], '["a\\n\\"b\\u2028é\\x01"]'),
    "list of bytes": ("%s", [[b"abc"]], '[b"abc"]'),
    "list of a duration and a moment": (
        "%s",
        [[HOUR, MOMENT]],
        '[duration("6347s"), timestamp("2023-02-03T23:31:20Z")]',
    ),
    "map sorts its keys": ("%s", [make_map([("b", 1), ("a", 2)])], '{"a":2, "b":1}'),
    "map of bools": ("%s", [make_map([(True, None), (False, [])])], "{false:[], true:null}"),
    "hex of text": ("%x", ["Hello"], "48656c6c6f"),
    "hex of bytes": ("%X", [b"\xab"], "AB"),
    "hex of a negative": ("%x", [-5], "-5"),
    "hex of a uint": ("%X", [UInt(255)], "FF"),
    "binary": ("%b", [-5], "-101"),
    "binary of a bool": ("%b", [True], "1"),
    "octal": ("%o", [-8], "-10"),
    "decimal": ("%d", [UInt(7)], "7"),
}


@pytest.mark.parametrize(("text", "args", "answer"), PINNED_ANSWERS.values(), ids=PINNED_ANSWERS.keys())
def test_pinned_dialect(text: str, args: list[Value], answer: str) -> None:
    assert format_text(text, args, PINNED) == answer


NEWEST_ANSWERS: dict[str, tuple[str, list[Value], str]] = {
    "fixed does not group": ("%.3f", [12345678.5], "12345678.500"),
    "fixed of an int": ("%f", [3], "3.000000"),
    "fixed of infinity": ("%f", [-INF], "-Infinity"),
    "scientific": ("%.6e", [1052.032911275], "1.052033e+03"),
    "scientific of a uint": ("%e", [UInt(3)], "3.000000e+00"),
    "decimal of a double": ("%d", [1.5], "1.5"),
    "decimal of NaN": ("%d", [math.nan], "NaN"),
    "string of a large double": ("%s", [1.7e21], "1700000000000000000000"),
    "string of a small double": ("%s", [1e-7], "0.0000001"),
    "nothing is quoted": (
        "%s",
        [["abc", 3.14, None, [9], MOMENT]],
        "[abc, 3.14, null, [9], 2023-02-03T23:31:20Z]",
    ),
    "map": ("%s", [make_map([(1, "v"), (True, math.nan)])], "{1: v, true: NaN}"),
}


@pytest.mark.parametrize(("text", "args", "answer"), NEWEST_ANSWERS.values(), ids=NEWEST_ANSWERS.keys())
def test_newest_dialect(text: str, args: list[Value], answer: str) -> None:
    assert format_text(text, args, NEWEST) == answer


ERRORS: dict[str, tuple[str, list[Value], str]] = {
    "too few arguments": ("%d %d %d", [0, 1], "index 2 out of range"),
    "binary of a string": (
        "%b",
        ["abc"],
        "only integers and bools can be formatted as binary, was given string",
    ),
    "decimal of a duration": ("%d", [HOUR], "was given google.protobuf.Duration"),
    "octal of a string": ("%o", ["a"], "octal clause can only be used on integers, was given string"),
    "scientific of null": ("%e", [None], "was given null_type"),
    "hex of null": ("%X", [None], "was given null_type"),
    "string of an optional": ("%s", [Optional(1)], "was given optional_type"),
    "an optional in a list": ("%s", [[Optional(1)]], "was given optional_type"),
    "bytes that are no text": ("%s", [b"\xff"], "invalid UTF-8"),
    "unknown clause": ("%c", [1], 'unrecognized formatting clause "c"'),
    "nothing behind the percent sign": ("%", [1], "unexpected end of string"),
    "nothing behind the dot": ("%.", [1], "bad precision"),
    "nothing behind the precision": ("%.3", [1], "could not find end of precision specifier"),
    "no precision": ("%.f", [1.0], "bad precision"),
    "a precision beyond 64 bits": ("%.99999999999999999999f", [1.0], "bad precision"),
}


@pytest.mark.parametrize(("text", "args", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_in_both_dialects(text: str, args: list[Value], message: str) -> None:
    for dialect in (PINNED, NEWEST):
        with pytest.raises(CelRuntimeError, match=message):
            format_text(text, args, dialect)


def test_only_the_pinned_dialect_refuses_an_int_under_f() -> None:
    with pytest.raises(
        CelRuntimeError, match="fixed-point clause can only be used on doubles, was given int"
    ):
        format_text("%f", [1], PINNED)


def test_the_newest_dialect_bounds_the_precision() -> None:
    with pytest.raises(CelRuntimeError, match="exceeds the maximum"):
        format_text("%.101f", [1.0], NEWEST)


def test_a_small_value_that_is_a_huge_tree_ends_in_an_error() -> None:
    tree: Value = ["xxxxxxxxxx"]
    for _ in range(60):
        tree = [tree, tree]
    for dialect in (PINNED, NEWEST):
        with pytest.raises(CelRuntimeError, match="more than"):
            format_text("%s", [tree], dialect)


def test_a_deep_value_ends_in_an_error() -> None:
    deep: Value = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(CelRuntimeError, match="nested deeper"):
        format_text("%s", [deep], PINNED)


def test_a_text_that_would_not_fit_ends_in_an_error() -> None:
    with pytest.raises(CelRuntimeError, match="exceeds the limit"):
        format_text("%s" * 20, ["x" * 1_000_000] * 20, PINNED)


@given(st.text(), st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.none())))
def test_any_format_gives_a_text_or_a_plain_error(text: str, args: list[Value]) -> None:
    for dialect in (PINNED, NEWEST):
        with contextlib.suppress(CelRuntimeError):
            assert isinstance(format_text(text, args, dialect), str)


@given(st.text().map(lambda text: text.replace("%", "%%")))
def test_a_text_without_clauses_is_itself(text: str) -> None:
    assert format_text(text, [], PINNED) == text.replace("%%", "%")


def literal_call(text: str, *args: Expr) -> FunctionCall:
    make = Factory()
    return make.member_call(make.literal(text), "format", make.list(*args))


MAKE = Factory(next_id=100)
FAULTS: dict[str, tuple[str, list[Expr], str]] = {
    "fine": (
        "%s %d %f %.2e %b %o %x",
        [MAKE.literal(v) for v in ("a", 1, 1.5, "NaN", True, UInt(1), b"a")],
        "",
    ),
    "dyn may be anything": ("%d", [MAKE.ident("dyn")], ""),
    "lists and maps of anything": ("%s", [MAKE.list(MAKE.literal(1), MAKE.map())], ""),
    "too few": ("%s %s", [MAKE.literal(1)], "index 1 out of range"),
    "too many": (
        "%s",
        [MAKE.literal(1)] * 2,
        "too many arguments supplied to string.format (expected 1, got 2)",
    ),
    "wrong type": (
        "%d",
        [MAKE.literal(1.5)],
        "error during formatting: decimal clause can only be used on integers, was given double",
    ),
    "an object": ("%s", [MAKE.ident("kubernetes.Quantity")], "was given kubernetes.Quantity"),
    "an object inside a list": (
        "%s",
        [MAKE.list(MAKE.ident("kubernetes.Quantity"))],
        "was given kubernetes.Quantity",
    ),
    "malformed": ("%c", [MAKE.literal(1)], "unrecognized formatting clause"),
}


def static_type(expr: Expr) -> Type:
    match expr:
        case Literal():
            return {str: STRING, int: INT, float: DOUBLE, bool: BOOL, UInt: UINT, bytes: BYTES}[
                type(expr.value)
            ]
        case ListExpr():
            return list_of(DYN)
        case MapExpr():
            return map_of(DYN, DYN)
        case Ident(name="dyn"):
            return DYN
    return object_type("kubernetes.Quantity")


@pytest.mark.parametrize(("text", "args", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_literal_calls_are_judged_before_they_run(text: str, args: list[Expr], message: str) -> None:
    found = list(faults(literal_call(text, *args), static_type, PINNED))
    assert [message in said for _, said in found] == ([True] if message else [])


def test_a_fault_is_placed_at_the_argument() -> None:
    inner = MAKE.ident("kubernetes.Quantity")
    assert [place for place, _ in faults(literal_call("%s", MAKE.list(inner)), static_type, PINNED)] == [
        inner
    ]


def test_calls_with_a_computed_format_have_no_faults_yet() -> None:
    make = Factory()
    call = make.member_call(make.ident("text"), "format", make.list())
    assert list(faults(call, static_type, PINNED)) == []
