"""Log lines: one an entry, whatever a client made it contain."""

from __future__ import annotations

import logging

import pytest

from allotment.apiserver.http.logs import KeyValue


def line(message: str, **extra: object) -> str:
    record = logging.makeLogRecord({"name": "allotment", "levelname": "WARNING", "msg": message, **extra})
    record.created, record.msecs = 0.0, 5.0
    return KeyValue().format(record)


def test_a_line_has_its_fields_in_order() -> None:
    told = line("request slow", method="GET", seconds=1.25)
    assert told == (
        'time=1970-01-01T00:00:00.005Z level=warning logger=allotment msg="request slow" method=GET seconds=1.25'
    )


@pytest.mark.parametrize("path", ["/a b", '/a"b', "/a\nlevel=error", "/a=b", "", "/ä"])
def test_nothing_that_a_client_sends_looks_like_another_field_or_line(path: str) -> None:
    told = line("request failed", path=path)
    assert "\n" not in told
    assert told.rpartition(" path=")[2].startswith('"')
