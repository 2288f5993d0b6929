"""The plain language: what the conformance cases leave open."""

import pytest

from allotment.cel.errors import CelCompileError, CelCostExceeded, CelRuntimeError
from allotment.cel.plain import DeclarationError, compile_plain, parse_type
from allotment.cel.values import Duration, Optional, Timestamp, UInt, Value

VALUES: list[tuple[str, Value]] = [
    ("1 + 2 * 3", 7),
    ("-7 / 2", -3),
    ("-7 % 3", -1),
    ("2u + 3u", UInt(5)),
    ("[1, 'a', 2.5]", [1, "a", 2.5]),
    ("{'a': 1}.a", 1),
    ("dyn(1) == 1.0 && dyn(1u) == 1", True),
    ("dyn(1) in {1u: 'x'}", True),
    ("dyn(true) in {1: 'x'}", False),
    ("dyn(1) == true", False),
    ("dyn(9007199254740993) == 9007199254740992.0", True),  # compared as doubles
    ("[3, 1, 2].map(x, x * 2)", [6, 2, 4]),
    ("[1, 2, 3].map(x, x > 1, x * 2)", [4, 6]),
    ("[1, 2].filter(x, x > 5)", []),
    ("{1: 'a', 2: 'b'}.transformMap(k, v, v + 'x')", {1: "ax", 2: "bx"}),
    ("['a', 'b'].transformList(i, v, string(i) + v)", ["0a", "1b"]),
    ("[1, 2].exists(x, x / 0 == 1 || x == 2)", True),
    ("[0, 2].all(x, 4 / x == 1)", False),
    ("cel.bind(a, 2, cel.bind(b, a + 1, a * b))", 6),
    ("{'a': {'b': 1}}.?a.?b", Optional(1)),
    ("{'a': 1}.?b.orValue(5)", 5),
    ("[1, ?optional.none(), ?optional.of(2)]", [1, 2]),
    ("optional.of(2).optMap(x, x + 1).value()", 3),
    ("timestamp('1970-01-01T00:00:01.5Z')", Timestamp(1_500_000_000)),
    ("duration('1h') + duration('-30m')", Duration(1800 * 10**9)),
    ("timestamp('2024-02-29T12:00:00Z').getDayOfYear()", 59),
    ("string(timestamp('2024-02-29T12:00:00+02:00'))", "2024-02-29T12:00:00+02:00"),
    ("string(1e21) + string(0.1) + string(123456.0)", "1e+210.1123456"),
    ("double('-inf') < 0.0", True),
    ('\'\\u00e9\' + r\'\\n\' + """a\nb"""', "é\\na\nb"),
    ("b'\\xff\\377é'", b"\xff\xff\xc3\xa9"),
    ("type(1) == int && type(type(1)) == type", True),
    ("'ab'.matches('^a.$')", True),
    ("x || true", True),  # x has no value, and is not needed
]


@pytest.mark.parametrize(("expression", "expected"), VALUES, ids=[case[0] for case in VALUES])
def test_value(expression: str, expected: Value) -> None:
    value = compile_plain(expression, {"x": "bool"}).evaluate({})
    assert value == expected
    assert isinstance(value, type(expected))
    assert type(value) is not bool or type(expected) is bool


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{'a': 1}.b == 1", "no such key: b"),
        ("dyn('a') + 1 == 1", "no such overload"),
        ("{1: 1, 1: 2} == {}", "repeated key"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("x", "no such attribute(s): x"),
        ("[1].exists(i, i / 0 == 1)", "division by zero"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)", "timestamp overflow"),
    ],
)
def test_failure(expression: str, message: str) -> None:
    with pytest.raises(CelRuntimeError) as caught:
        compile_plain(expression, {"x": "bool"}).evaluate({})
    assert message in str(caught.value)


def test_container_resolves_the_longest_name_first() -> None:
    declared = {"a.b.x": "int", "x": "string"}
    bindings = {"a.b.x": 1, "x": "s"}
    assert compile_plain("x", declared, container="a.b.c").evaluate(bindings) == 1
    assert compile_plain(".x", declared, container="a.b.c").evaluate(bindings) == "s"


def test_a_limit_stops_the_evaluation() -> None:
    program = compile_plain("[1, 2, 3].all(x, [1, 2, 3].all(y, x + y > 0))")
    cost = program.measure({}).cost
    assert program.evaluate({}, limit=cost) is True
    with pytest.raises(CelCostExceeded) as stopped:
        program.evaluate({}, limit=cost - 1)
    assert stopped.value.limit == cost - 1
    assert str(stopped.value) == "operation cancelled: actual cost limit exceeded"


def test_unchecked_expressions_find_their_functions_when_they_run() -> None:
    program = compile_plain("size(x) + x.y.size()", check=False)
    assert program.evaluate({"x": {"y": "abc"}}) == 4


def test_macros_can_be_switched_off() -> None:
    with pytest.raises(CelCompileError, match="undeclared reference to 'has'"):
        compile_plain("has({'a': 1}.a)", macros=False)


def test_types_are_read_with_either_brackets() -> None:
    assert parse_type("map<string, list<int>>") == parse_type("map(string,list(int))")
    for text in ("", "list<", "list<int", "nope", "int int", "list<int,int>", "list<" * 100):
        with pytest.raises(DeclarationError):
            parse_type(text)
