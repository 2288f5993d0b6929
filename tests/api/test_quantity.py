"""Quantities: Kubernetes' recorded answers, its surprises by name, and arithmetic laws on random input."""

import copy
import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.quantity import MAX_TEXT, Format, Quantity, QuantityError
from tests.corpus import corpus


def parsed(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def answers(case: dict[str, Any]) -> dict[str, Any]:
    """Our answer to a corpus case, with the keys that the case has."""
    a = parsed(case["a"])
    if a is None:
        return {"error": True}
    got: dict[str, Any] = {"canonical": str(a), "value": a.value()}
    if "b" in case:
        b = Quantity.parse(case["b"])
        got |= {"cmp": (a > b) - (a < b), "add": str(a + b), "sub": str(a - b)}
    return got


def test_the_recorded_answers_of_kubernetes() -> None:
    cases = [case for case in corpus("values.json") if case["kind"] == "quantity"]
    wrong = {
        str(case): got
        for case in cases
        if (got := answers(case)) != {k: v for k, v in case.items() if k not in ("kind", "a", "b")}
    }
    assert len(cases) > 900
    assert not wrong


CANONICAL = {
    "plain": ("5", "5"),
    "zero loses its suffix": ("0Mi", "0"),
    "binary stays binary": ("1.5Gi", "1536Mi"),
    "binary below 1024 is written in decimal": ("0.5Ki", "512"),
    "a fraction takes the next smaller suffix": ("1.5", "1500m"),
    "trailing thousands take a larger suffix": ("12000", "12k"),
    "text that needs no tidying is kept, plus sign and all": ("+5", "+5"),
    "an exponent is kept as it was written": ("80E+6", "80E+6"),
    "an exponent is made a multiple of three": ("1e4", "10e3"),
    "less than a billionth is rounded up": ("0.0000000001", "1n"),
    "and away from zero if negative": ("-0.0000000001", "-1n"),
    "an exponent far below is one billionth": ("1e-2000000000", "1e-9"),
    "binary is capped": ("16Ei", "9223372036854775807"),
    "decimal is not": ("16000000E", "16"),  # Kubernetes has no suffix for 10**24 and drops it
    "the empty number is zero": ("k", "0"),
    "so is a lone sign": ("-", "0"),
    "and a lone point": (".", "0"),
    "an exponent keeps 32 bits": ("5e4294967299", "5e4294967299"),
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.values(), ids=CANONICAL.keys())
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


REFUSED = {
    "nothing": "",
    "space": " 1",
    "unknown suffix": "5K",
    "two points": "1..2",
    "bytes": "16MiB",
    "hexadecimal": "0x10",
    "other digits": "١",
    "underscore": "1_000",
    "exponent without number": "1e",
    "exponent beyond 64 bits": "1e99999999999999999999",
    "newline at the end": "1\n",
    "no digit before a large binary suffix": "Pi",
    "too long": "1" * (MAX_TEXT + 1),
    "too large": "1e999999999",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_quantity_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert len(str(caught.value)) < 250


VALUES = {
    "whole": ("5Gi", 5 * 2**30),
    "a fraction is rounded up": ("1100m", 2),
    "away from zero if held as an integer": ("-1100m", -2),
    "towards zero if held as a wide decimal": ("-1.1000000000000000000", 0),
    "the cap": ("100Ei", 2**63 - 1),
    "overflow of a wide decimal wraps": ("-9223372036854775808E+6", 0),
    "overflow of an integer is zero": ("100E", 0),
}


@pytest.mark.parametrize(("text", "value"), VALUES.values(), ids=VALUES.keys())
def test_value(text: str, value: int) -> None:
    assert Quantity.parse(text).value() == value


@pytest.mark.parametrize("text", ["0e2000000000", "0e-2000000000", "0.00000000000000000000e-2000000000"])
def test_zero_with_an_absurd_exponent_is_plain_zero(text: str) -> None:
    zero, one = Quantity.parse(text), Quantity.parse("1")
    assert (zero.value(), zero.milli_value(), zero.approximate_float(), str(zero)) == (0, 0, 0.0, "0")
    assert ((zero + one).value(), (one - zero).value(), str(zero - one)) == (1, 1, "-1")


def test_milli_value() -> None:
    assert Quantity.parse("1.5").milli_value() == 1500
    assert Quantity.parse("1u").milli_value() == 1


def test_a_sum_is_written_in_the_format_of_the_left_side() -> None:
    assert (Quantity.parse("1Ki") + Quantity.parse("1k")).format is Format.BINARY_SI
    assert str(Quantity.parse("1Gi") + Quantity.parse("1024Mi")) == "2Gi"
    assert str(Quantity.parse("1k") + Quantity.parse("1Ki")) == "2024"
    assert str(Quantity.parse("1e3") + Quantity.parse("9k")) == "10e3"


def test_a_sum_with_zero_on_the_left_is_written_in_the_format_of_the_right() -> None:
    assert str(Quantity.parse("0") + Quantity.parse("2Gi")) == "2Gi"
    assert str(Quantity.parse("0") - Quantity.parse("2Gi")) == "-2Gi"


def test_equality_and_hash_go_by_the_number() -> None:
    same = [Quantity.parse(text) for text in ("1Ki", "1024", "1024000m", "1.024k", "1024e0")]
    assert len(set(same)) == 1
    assert Quantity.parse("1Ki") != Quantity.parse("1k")
    assert Quantity.parse("1") != 1


def test_numbers_of_json_and_yaml() -> None:
    assert str(Quantity.from_json(5)) == "5"
    assert str(Quantity.from_json(2**70)) == "1180591620717411303424"
    assert str(Quantity.from_json(1.5)) == "1500m"
    assert str(Quantity.from_json(" 5Gi\n")) == "5Gi"
    refused: list[object] = [True, None, [], 10**2000, float("nan"), float("inf")]
    for wrong in refused:
        with pytest.raises(QuantityError):
            Quantity.from_json(wrong)


def test_conversions() -> None:
    assert Quantity.parse("5k").as_int64() == 5000
    assert Quantity.parse("1000m").as_int64() is None
    assert Quantity.parse("100E").as_int64() is None
    assert Quantity.parse("1.5").approximate_float() == 1.5
    assert Quantity.parse("1e1000").approximate_float() == float("inf")
    assert Quantity.of(2**30, Format.BINARY_SI) == Quantity.parse("1Gi")
    assert str(Quantity.of(2**30, Format.BINARY_SI)) == "1Gi"


def test_copies_and_pickles_are_the_same_amount_and_text() -> None:
    quantity = Quantity.parse("+5Ki")
    for twin in (copy.copy(quantity), copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):
        assert (twin, str(twin), twin.format) == (quantity, "+5Ki", Format.BINARY_SI)
    assert repr(quantity) == "Quantity('+5Ki')"


numbers = st.tuples(
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**24),
    st.sampled_from(["", ".5", ".125", ".000000001", ".0000000001"]),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "e3", "E-3", "e0"]),
).map(lambda parts: "".join(map(str, parts)))
quantities = numbers.map(Quantity.parse)


@given(quantities, quantities, quantities)
def test_sums_are_exact(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert (-a).nanos == -a.nanos
    assert (a - b).sign == (a > b) - (a < b)
    assert Fraction((a + b).nanos) == Fraction(a.nanos) + Fraction(b.nanos)


@given(quantities)
def test_canonical_text_reads_as_the_same_amount(a: Quantity) -> None:
    if abs(a.nanos) < 10**27:  # beyond that a decimal suffix is missing
        assert Quantity.parse(str(a)) == a


@given(st.text(max_size=40) | st.text("0123456789.+-eEinumkKMGTP", max_size=60))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    quantity = parsed(text)
    assert quantity is None or isinstance(str(quantity), str)
