"""Whatever comes in, one line of JSON goes out."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allotment.cli.ndjson import stream
from allotment.cli.ndjson.problem_line import SHARE_ID, allocate_line, cel_line
from allotment.cli.ndjson.stream import serve
from tests.command_line import Allot
from tests.problems import random_problem
from tests.thoroughness import examples

Lines = Callable[[str], str]
NODE = {"metadata": {"name": "n1"}}
CLASS = {"metadata": {"name": "gpu"}, "spec": {}}


def slice_of(*devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "nodeName": "n1", "pool": pool, "devices": list(devices)},
    }


def claim_asking(**wish: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **wish}
    return {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def asked(answer_line: Lines, question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(answer_line(json.dumps(question)))
    return answer


def problem(**fields: Any) -> dict[str, Any]:
    return {
        "name": "p",
        "node": NODE,
        "slices": [slice_of({"name": "dev"})],
        "classes": [CLASS],
        "claims": [claim_asking()],
        **fields,
    }


def test_an_allocation_has_results_and_figures() -> None:
    answer = asked(allocate_line, problem())
    assert list(answer) == ["name", "ok", "error", "results", "reasons", "steps", "ns"]
    assert answer["name"] == "p"
    assert answer["ok"] is True
    assert [r["device"] for r in answer["results"][0]["devices"]["results"]] == ["dev"]
    assert answer["reasons"] == []
    assert answer["ns"] > 0


def test_what_does_not_fit_has_reasons_and_no_error() -> None:
    answer = asked(allocate_line, problem(claims=[claim_asking(count=2)]))
    assert (answer["ok"], answer["error"], answer["results"]) == (False, "", [])
    assert answer["reasons"] == ["claim c: request r needs 2, 1 of 1 device fit"]


def test_a_device_in_use_is_not_given_again() -> None:
    held = [{"driver": "d", "pool": "p", "device": "dev"}]
    assert asked(allocate_line, problem(allocatedDevices=held))["ok"] is False


SHARED = {"name": "dev", "allowMultipleAllocations": True, "capacity": {"size": {"value": "10"}}}


@pytest.mark.parametrize(("held", "fits"), [(["4"], True), (["4", "3"], False)])
def test_consumed_capacity_of_several_entries_adds_up(held: list[str], fits: bool) -> None:
    shares = [
        {"driver": "d", "pool": "p", "device": "dev", "consumedCapacity": {"size": size}} for size in held
    ]
    wish = claim_asking(capacity={"requests": {"size": "5"}})
    answer = asked(
        allocate_line, problem(slices=[slice_of(SHARED)], claims=[wish], allocatedCapacityDevices=shares)
    )
    assert answer["ok"] is fits
    if fits:
        (result,) = answer["results"][0]["devices"]["results"]
        assert result["shareID"] == SHARE_ID
        assert result["consumedCapacity"] == {"size": "5"}


def test_a_shared_device_may_be_in_use_without_capacity() -> None:
    held = [{"driver": "d", "pool": "p", "device": "dev"}]
    fields = {"slices": [slice_of(SHARED)], "allocatedSharedDeviceIDs": held}
    assert asked(allocate_line, problem(**fields))["ok"] is True


def test_absent_features_are_all_on_and_given_ones_are_exact() -> None:
    wish = claim_asking(adminAccess=True)
    assert asked(allocate_line, problem(claims=[wish]))["ok"] is True
    assert asked(allocate_line, problem(claims=[wish], features=None))["ok"] is True
    refused = asked(allocate_line, problem(claims=[wish], features={"DeviceTaints": True}))
    assert "admin access" in refused["error"]


def test_the_corpus_spelling_of_claims_is_understood_and_other_fields_are_ignored() -> None:
    given = problem(claims=None, claimsToAllocate=[claim_asking(count=2)], expectResults=[], extra={"a": 1})
    assert asked(allocate_line, given)["ok"] is False


BROKEN = {
    "nothing": ("", "the line is not valid JSON"),
    "half a line": ('{"name": "x", "node": {', "the line is not valid JSON"),
    "a list": ("[]", "the line must be an object"),
    "no node": ('{"name": "x"}', "node: is missing"),
    "a wrong type": ('{"name": "x", "node": 3}', "node: must be an object"),
    "a wrong type far below": (
        '{"name": "x", "node": {}, "claims": [{"spec": {"devices": 4}}]}',
        "claims[0].spec.devices: must be an object",
    ),
    "an unknown feature": (
        '{"name": "x", "node": {}, "features": {"Magic": true}}',
        "unknown feature 'Magic'",
    ),
    "too deep": ('{"name": "x", "node": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}", "nested too deeply"),
    "half a character": ('{"name": "\udc80"}', "not valid UTF-8"),
}


@pytest.mark.parametrize(("line", "error"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("answer_line", [allocate_line, cel_line])
def test_a_broken_line_is_answered(answer_line: Lines, line: str, error: str) -> None:
    answer = json.loads(answer_line(line))
    assert answer["ok"] is False
    assert error in answer["error"] or (
        answer_line is cel_line and "expression: is missing" in answer["error"]
    )


def test_the_name_is_told_even_if_nothing_else_can_be_read() -> None:
    assert asked(allocate_line, {"node": 3, "name": "this one"})["name"] == "this one"
    assert asked(allocate_line, {"node": 3, "name": 7})["name"] == ""


DEVICE = {"driver": "d", "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "8Gi"}}}


def test_an_expression_on_a_device() -> None:
    answer = asked(cel_line, {"name": "q", "expression": 'device.attributes["d"].model == "a"', **DEVICE})
    assert answer["match"] is True
    assert answer["compileError"] == answer["matchError"] == ""
    assert 0 < answer["cost"] <= answer["maxCost"]


def test_an_expression_that_gives_an_attribute() -> None:
    answer = asked(cel_line, {"expression": 'device.attributes["d"].model', "derived": True, **DEVICE})
    assert answer["attribute"] == {"string": "a"}
    assert "match" not in answer


def test_errors_of_compilation_and_evaluation_are_told_apart() -> None:
    compiled = asked(cel_line, {"expression": "device.nope", **DEVICE})
    assert "undefined field 'nope'" in compiled["compileError"]
    assert compiled["maxCost"] == 2**64 - 1
    run = asked(cel_line, {"expression": 'device.attributes["d"].nope == 1', **DEVICE})
    assert run["compileError"] == ""
    assert run["matchError"] == "no such key: nope"


def test_an_unknown_environment_is_refused() -> None:
    assert "envType" in asked(cel_line, {"expression": "true", "envType": "Old"})["error"]


def test_the_plain_language_takes_and_gives_typed_values() -> None:
    question = {
        "name": "q",
        "expression": "[x, 'a', x > 1]",
        "bindings": {"x": ["int", 2]},
        "declarations": {"x": "int"},
    }
    answer = asked(cel_line, question)
    assert answer == {
        "name": "q",
        "compileError": "",
        "value": ["list", [["int", 2], ["string", "a"], ["bool", True]]],
        "error": "",
    }


@pytest.mark.parametrize(
    ("question", "part", "message"),
    [
        ({"expression": "1 +", "bindings": {}}, "compileError", "Syntax error"),
        ({"expression": "1 / 0", "bindings": {}}, "error", "division by zero"),
        (
            {"expression": "x", "declarations": {"x": "int"}, "bindings": {"x": 3}},
            "error",
            "not a typed value",
        ),
        ({"expression": "x", "declarations": {"x": "thing"}}, "error", "thing"),
    ],
)
def test_errors_of_the_plain_language(question: dict[str, Any], part: str, message: str) -> None:
    assert message in asked(cel_line, question)[part]


def sound(answer_line: Lines, line: str) -> None:
    text = answer_line(line)
    assert "\n" not in text
    assert "internal error" not in text
    assert isinstance(json.loads(text), dict)


def json_of(leaves: int) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=leaves,
    )


json_values = json_of(20)
fields = st.sampled_from(
    [
        "name",
        "node",
        "slices",
        "classes",
        "claims",
        "allocatedDevices",
        "allocatedCapacityDevices",
        "features",
        "expression",
        "driver",
        "attributes",
        "capacity",
        "derived",
        "envType",
        "bindings",
        "declarations",
        "metadata",
        "spec",
        "devices",
        "requests",
        "exactly",
        "pool",
        "selectors",
        "value",
    ]
)
almost_problems = st.recursive(
    json_of(3), lambda inner: st.dictionaries(fields, inner | st.lists(inner)), max_leaves=30
)


@given(json_values | almost_problems | st.dictionaries(fields, json_values | almost_problems))
@settings(max_examples=examples(300))
def test_no_json_breaks_the_protocol(value: Any) -> None:
    for answer_line in (allocate_line, cel_line):
        sound(answer_line, json.dumps(value))


@given(st.text())
@example("\ud800")
@example('{"name": "\\ud800"}')
def test_no_text_breaks_the_protocol(text: str) -> None:
    for answer_line in (allocate_line, cel_line):
        sound(answer_line, text)


@given(st.randoms(use_true_random=False), st.data())
def test_a_problem_with_one_value_replaced_does_not_break_the_protocol(
    random: Any, data: st.DataObject
) -> None:
    spoilt = random_problem(random)
    place: Any = spoilt
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(json_values)
    sound(allocate_line, json.dumps(spoilt))


# --- the stream ---


def served(data: bytes) -> list[dict[str, Any]]:
    answers = BytesIO()
    assert serve(allocate_line, BytesIO(data), answers) == 0
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_lines_are_served_one_by_one_past_broken_ones() -> None:
    good = json.dumps(problem()).encode()
    answers = served(b"\n".join([good, b"nonsense", b"\xff\xfe", b"", b" ", good]))  # no newline at the end
    assert [answer["ok"] for answer in answers] == [True, False, False, False, True]


def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    good = json.dumps(problem()).encode() + b"\n"
    monkeypatch.setattr(stream, "MAX_PROBLEM_BYTES", len(good))
    answers = served(b"x" * 3 * len(good) + b"\n" + good)
    assert [answer["ok"] for answer in answers] == [False, True]
    assert "longer than" in answers[0]["error"]


def test_each_answer_is_there_before_the_next_line_is_read() -> None:
    class Watched(BytesIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    out = Watched()

    class Lines(BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            assert out.flushed == out.getvalue().count(b"\n")
            return super().readline(size)

    serve(allocate_line, Lines(b"1\n2\n3\n"), out)
    assert out.flushed == 3


def test_the_command_serves_both_protocols(allot: Allot) -> None:
    ran = allot("allocate", "--ndjson", stdin=json.dumps(problem()) + "\n")
    assert ran.code == 0
    assert json.loads(ran.out)["ok"] is True
    ran = allot("cel", "--ndjson", stdin=json.dumps({"expression": "true"}) + "\n")
    assert json.loads(ran.out)["match"] is True
