"""The named formats of strings; what is right and wrong was asked of the real server."""

from __future__ import annotations

import pytest

from allotment.apiserver.registry.custom.formats import duration_nanoseconds, format_check, supported

CASES: dict[str, tuple[list[str], list[str]]] = {
    "date-time": (
        ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01T00:00:00.123+01:00"],
        ["2020-01-01", "2020-13-01T00:00:00Z", "2020-01-01T25:00:00Z", "x", ""],
    ),
    "date": (["2020-02-28"], ["2020-02-30", "2020-2-1", "20200101"]),
    "duration": (["1h", "1h30m", "3 days", "1.5h", "-1s", "0", "2 weeks", "1d"], ["x", "", "5"]),
    "ipv4": (["1.2.3.4", "010.0.0.1"], ["1.2.3", "::1", "1.2.3.256"]),
    "ipv6": (["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0"]),
    "cidr": (["1.2.3.0/24", "1.2.3.4/24", "::/0"], ["1.2.3.4", "1.2.3.4/33"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], ["x"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "email": (["a@b.c", "a@b", "Joe <a@b.c>"], ["a", "a b@c.d", "@b.c"]),
    "hostname": (["a.bc", "example.com", "1", "a-b.example"], ["a_b", "-a", "a" * 64, "a.b", ""]),
    "uri": (["http://a/b", "/a/b", "a:b", "mailto:x"], ["a", "", "http://a b/"]),
    "byte": (["YQ=="], ["YQ", "", "****"]),
    "mac": (["01:23:45:67:89:ab", "0123.4567.89ab"], ["xx", "01:23:45:67:89"]),
    "hexcolor": (["#fff", "ffffff"], ["fffff"]),
    "rgbcolor": (["rgb(1,2,3)"], ["rgb(1,2,300)"]),
    "isbn": (["0321751043", "978-0321751041"], ["1", "0321751044"]),
    "creditcard": (["4111-1111-1111-1111"], ["4111-1111-1111-1112", "1"]),
    "ssn": (["111-11-1111"], ["1"]),
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["x"]),
    "k8s-short-name": (["a-b"], ["a.b", "A", "a" * 64]),
    "k8s-long-name": (["a.b"], ["A", "a..b"]),
    "password": (["", "anything"], []),
}


@pytest.mark.parametrize("name", CASES)
def test_format(name: str) -> None:
    check = format_check(name)
    assert check is not None
    right, wrong = CASES[name]
    assert [text for text in right if not check(text)] == []
    assert [text for text in wrong if check(text)] == []


@pytest.mark.parametrize(
    ("type_", "name", "means"),
    [
        ("string", "date-time", True),
        ("string", "frob", False),
        ("integer", "int32", True),
        ("integer", "date", False),
        ("number", "double", True),
        ("object", "date", False),
    ],
)
def test_which_formats_mean_anything(type_: str, name: str, means: bool) -> None:
    assert supported(type_, name) is means


def test_a_format_that_is_not_known_has_no_check() -> None:
    assert format_check("frob") is None


def test_durations_are_read_to_the_nanosecond() -> None:
    assert duration_nanoseconds("1h0m0.5s") == 3600 * 10**9 + 5 * 10**8
    assert duration_nanoseconds("2 days") == 2 * 86400 * 10**9
    assert duration_nanoseconds("9" * 30 + "h") is None
    assert duration_nanoseconds("1s" * 1000) is None
