"""Named formats: which texts are fine, and how many faults the others have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.library.format import named, validate
from allotment.cel.library.naming import FORMATS
from allotment.cel.values import OPTIONAL_NONE, Optional

FINE = {
    "dns1123Label": ["a", "0", "a-b", "a" * 63],
    "dns1123LabelPrefix": ["a-", "a", "a--"],
    "dns1123Subdomain": ["a", "a.b-c.0", ".".join(["a" * 63] * 3)],
    "dns1123SubdomainPrefix": ["a.b-"],
    "dns1035Label": ["a0", "a-b"],
    "dns1035LabelPrefix": ["a0-"],
    "qualifiedName": ["MyName", "my.name", "123-abc", "example.com/My_Name", "a" * 63],
    "labelValue": ["", "MyValue", "my_value", "1.2"],
    "uri": ["/a", "http://a", "mailto:x", "*"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
    "byte": ["aGk=", "aA==", "abcd", "+/+/"],
    "date": ["2024-02-29", "0000-02-29", "9999-12-31"],
    "datetime": ["2006-01-02T15:04:05Z", "2006-01-02t15:04:05.5+99:99", "2006-01-02T15:04:05ZTrubbish"],
}
FAULTS = {
    "dns1123Label": {"": 1, "-a": 1, "a-": 1, "A": 1, "a.b": 1, "a" * 64: 1, "A" * 64: 2, "é" * 32: 2},
    "dns1123LabelPrefix": {"-": 1, "-a-": 1},
    "dns1123Subdomain": {"": 1, "a..b": 1, ".a": 1, "a_b": 1, "a" * 254: 1},
    "dns1035Label": {"": 1, "0a": 1, "a-": 1},
    "qualifiedName": {"": 2, "/a": 1, "a/": 2, "a/b/c": 1, "A/b": 1, "-a": 1, "a" * 64: 1, "A/-": 2},
    "labelValue": {"-a": 1, "a" * 64: 1, "a b": 1},
    "uri": {"": 1, "a": 1, "http://a/%": 1},
    "uuid": {"": 1, "123e4567-e89b-12d3-a456-42661417400": 1, "123e4567-e89b-12d3-a456-426614174000\n": 1},
    "byte": {"": 1, "a": 1, "====": 1, "a===": 1, "aGk": 1, "ab=c": 1, "ab-_": 1},
    "date": {
        "2023-02-29": 1,
        "2024-13-01": 1,
        "2024-1-01": 1,
        "2024-01-00": 1,
        "24-01-01": 1,
        "２024-01-01": 1,
    },
    "datetime": {
        "": 1,
        "2006-01-02": 1,
        "2006-01-02T24:00:00Z": 1,
        "2006-01-02T15:04:60Z": 1,
        "2006-01-02T15:04:05": 1,
        "2006-13-02T15:04:05Z": 1,
    },
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FINE.items() for text in texts])
def test_fine(name: str, text: str) -> None:
    assert validate(FORMATS[name], text) is OPTIONAL_NONE


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [(name, text, count) for name, faults in FAULTS.items() for text, count in faults.items()],
)
def test_faults(name: str, text: str, count: int) -> None:
    assert len(validate(FORMATS[name], text).value) == count


def test_formats_are_known_by_name() -> None:
    assert named("uuid") == Optional(FORMATS["uuid"])
    assert named("nonsense") is OPTIONAL_NONE
    assert set(FORMATS) == set(FINE)
    assert FORMATS["uuid"] != FORMATS["date"]


@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=80))
def test_validation_is_total(name: str, text: str) -> None:
    assert all(FORMATS[name].validate(text))
