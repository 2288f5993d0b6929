"""Faults in the text: the words that upstream uses, and the place."""

import pytest

from allotment.cel.device import CelCompileError, DeviceFeatures, compile_derived, compile_selector
from allotment.cel.errors import CelCheckError, CelSyntaxError

CASES = [
    # expression, where, what it says
    ("x", (1, 1), "undeclared reference to 'x' (in container '')"),
    ("true &&\n  y", (2, 3), "undeclared reference to 'y'"),
    ("f(1)", (1, 2), "undeclared reference to 'f'"),
    ("device.nope == 1", (1, 7), "undefined field 'nope'"),
    ("1 + 'a' == 2", (1, 3), "found no matching overload for '_+_' applied to '(int, string)'"),
    ("'a'.startsWith(1)", (1, 15), "found no matching overload for 'startsWith' applied to 'string.(int)'"),
    ("1", (1, 1), "must evaluate to bool or the unknown type, not int"),
    ("[1, 'a'].size() == 2", (1, 5), "expected type 'int' but found 'string'"),
    ("{1: 1, 2: 'a'}.size() == 2", (1, 11), "expected type 'int' but found 'string'"),
    ("(1).exists(x, true)", (1, 2), "cannot be range of a comprehension"),
    ("[1].exists(1, true)", (1, 12), "argument must be a simple name"),
    ("has(1)", (1, 5), "invalid argument to has() macro"),
    ("true && 1", (1, 9), "expected type 'bool' but found 'int'"),
    ("has(device.driver.x)", (1, 4), "type 'string' does not support field selection"),
    ("true && has(device.nope)", (1, 12), "undefined field 'nope'"),
    ("int('0x10') == 1", (1, 4), "type conversion error from 'string' to 'int'"),
    ("timestamp('x') == timestamp(1)", (1, 11), "invalid timestamp argument"),
    ("duration('1') == duration('1s')", (1, 10), "invalid duration argument"),
    ("'a'.matches('[')", (1, 13), "invalid matches argument"),
    ("'a'.find('[') == ''", (1, 9), "Illegal regex"),
    ("true ? false", (1, 13), "Syntax error: mismatched input '<EOF>' expecting ':'"),
    ("true true", (1, 6), "Syntax error: extraneous input 'true' expecting <EOF>"),
    ("#", (1, 1), "Syntax error: token recognition error at: '#'"),
    ("if == 1", (1, 1), "reserved identifier: if"),
    ("9223372036854775808 == 1", (1, 1), "invalid int literal"),
    ("'\\ud800' == ''", (1, 1), "invalid unicode code point"),
    ("Device{} == 1", (1, 7), "undeclared reference to 'Device'"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "place", "message"), CASES, ids=[case[0] for case in CASES])
def test_fault(expression: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == place


def test_snippet_points_at_the_place() -> None:
    with pytest.raises(CelCheckError) as caught:
        compile_selector("true && x")
    assert str(caught.value) == (
        "ERROR: <input>:1:9: undeclared reference to 'x' (in container '')\n | true && x\n | ........^"
    )


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(CelCheckError) as caught:
        compile_selector("x && y")
    assert [issue.column for issue in caught.value.issues] == [1, 6]


def test_a_long_line_is_cut_around_the_place() -> None:
    with pytest.raises(CelCheckError) as caught:
        compile_selector("true && " * 500 + "x")
    assert caught.value.column == 4001
    assert len(caught.value.snippet) < 1000


def test_a_refusal_is_remembered() -> None:
    for _ in range(2):
        with pytest.raises(CelSyntaxError):
            compile_selector("((")


def test_constants_that_fail_only_when_they_run() -> None:
    """Kubernetes reads quantities and versions at run time, unlike numbers and times."""
    assert compile_selector('quantity("12x") == quantity("1") || true').matches("d", {}, {}) is True


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("null", "not null_type"),
        ("[device.attributes]", "not list("),
        ("1.5", "not double"),
        ("{}", "not map("),
    ],
)
def test_derived_attributes_are_scalars_or_lists_of_them(expression: str, refusal: str) -> None:
    with pytest.raises(CelCompileError, match="must evaluate to a primitive scalar") as caught:
        compile_derived(expression)
    assert refusal in str(caught.value)


def test_features_decide_what_new_expressions_may_say() -> None:
    none = DeviceFeatures(consumable_capacity=False, list_type_attributes=False)
    listing = 'device.attributes["d"].x.exists(i, i == 1)'
    for expression in ("device.allowMultipleAllocations", listing, 'device.attributes["d"].x.includes(1)'):
        compile_selector(expression, none, "StoredExpressions")
        compile_selector(expression, env_type="NewExpressions")
        with pytest.raises(CelCompileError):
            compile_selector(expression, none, "NewExpressions")


OPERAND = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"

STRAYS = {
    "one before an operand is passed over": ("*1", [(1, "extraneous input '*'")]),
    "what comes after it is looked at, too": ("?!", [(1, "extraneous input '?'"), (3, "extraneous input '<EOF>'")]),
    "with nothing to go on with": ("1 + )", [(5, "mismatched input ')'")]),
    "in the middle": ("[1, , 2]", [(5, "extraneous input ','")]),
}  # fmt: skip


@pytest.mark.parametrize("case", STRAYS)
def test_tokens_that_begin_nothing(case: str) -> None:
    expression, told = STRAYS[case]
    with pytest.raises(CelSyntaxError) as caught:
        compile_selector(expression)
    found = [(issue.column, issue.message) for issue in caught.value.issues]
    assert found == [(column, f"Syntax error: {what} expecting {OPERAND}") for column, what in told]


def test_few_of_many_stray_tokens_are_told() -> None:
    with pytest.raises(CelSyntaxError) as caught:
        compile_selector("*!" * 4000)
    assert len(caught.value.issues) < 40


def test_an_expression_of_the_wrong_type_is_told_without_a_place() -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector("1")
    assert str(caught.value) == "must evaluate to bool or the unknown type, not int"


SEVERAL = {
    "in the order of the text, not in that of the check": (
        "1.0 == 1.x + 0",
        [(5, "found no matching overload for '_==_' applied to '(double, int)'"), (9, "type 'int' does not support field selection")],
    ),
    "a reserved word is no name for a macro either": (
        "[1].all(namespace, true)",
        [(9, "reserved identifier: namespace"), (9, "argument must be a simple name")],
    ),
    "each reserved word": (
        "if == 1 && .for",
        [(1, "reserved identifier: if"), (12, "reserved identifier: for")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SEVERAL)
def test_several_faults(case: str) -> None:
    """As Kubernetes' evaluator tells them."""
    expression, told = SEVERAL[case]
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    assert [(issue.column, issue.message) for issue in caught.value.issues] == told


def test_few_of_many_reserved_words_are_told() -> None:
    with pytest.raises(CelSyntaxError) as caught:
        compile_selector("if + " * 2000 + "1")
    assert len(caught.value.issues) < 40


def test_what_is_not_ascii_has_wide_dots_below() -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector("'日本' == x || '" + "ä" * 3 + "' == ö")
    assert caught.value.issues[0].snippet.splitlines()[1] == " | .．．...........．．．.....＾"
