"""What a parser tells of the bytes that it is fed, however they are cut, out of memory that is used again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http import limits
from allotment.apiserver.http.parser import Head, Parser

GET = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Name: Value\r\n\r\n"
POST = b"POST /d HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"
CHUNKS = (
    b"PUT /e HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\nX-Late: no\r\n\r\n"
)
OLD = b"GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"

HEARD: dict[bytes, tuple[Head, bytes]] = {
    GET: (
        Head("GET", b"/a?b=c", [(b"host", b"x"), (b"x-name", b"Value")], True, True, False),
        b"",
    ),
    POST: (
        Head("POST", b"/d", [(b"content-length", b"5"), (b"expect", b"100-continue")], True, True, True),
        b"hello",
    ),
    CHUNKS: (Head("PUT", b"/e", [(b"transfer-encoding", b"chunked")], True, True, False), b"abcde"),
    OLD: (Head("GET", b"/f", [(b"connection", b"keep-alive")], False, False, False), b""),
}


class Ears:
    """Writes down what it is told, and in which order."""

    def __init__(self) -> None:
        self.whole: list[tuple[Head, bytes]] = []
        self._head: Head | None = None
        self._body = b""
        self._begun = False

    def request_begins(self) -> None:
        assert not self._begun
        self._begun = True

    def head_arrived(self, head: Head) -> None:
        assert self._begun
        assert self._head is None
        self._head = head

    def body_arrived(self, body: bytes) -> None:
        assert self._head is not None
        self._body += body

    def request_ends(self) -> None:
        assert self._head is not None
        self.whole.append((self._head, self._body))
        self._head, self._body, self._begun = None, b"", False


@given(st.lists(st.sampled_from([GET, POST, CHUNKS])), st.booleans(), st.lists(st.integers(0, 400)))
def test_requests_are_heard_however_they_are_cut_from_memory_that_is_used_again(
    said: list[bytes], old: bool, cuts: list[int]
) -> None:
    said = [*said, OLD] if old else said
    text = b"".join(said)
    ends = sorted({*(cut for cut in cuts if cut < len(text)), len(text)})
    ears, memory = Ears(), bytearray(len(text))
    parser, start = Parser(ears), 0
    for end in ends:
        memory[: end - start] = text[start:end]
        assert parser.feed(memoryview(memory)[: end - start]) is None
        memory[:] = b"\xff" * len(memory)
        start = end
    assert ears.whole == [HEARD[each] for each in said]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET /" + b"a" * limits.MAX_HEADERS + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (limits.MAX_HEADER_COUNT + 1) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 2 * limits.MAX_HEADERS, 431),  # no end in sight
    ],
    ids=["compressed", "a version", "a body behind", "no request", "a URL", "a number", "a header"],
)
def test_what_is_wrong_is_told_and_nobody_hears_a_request(said: bytes, code: int) -> None:
    ears = Ears()
    parser = Parser(ears)
    pieces = [said[start : start + 10_000] for start in range(0, len(said), 10_000)]
    wrong = next(filter(None, map(parser.feed, pieces)))
    assert wrong.code == code
    assert ears.whole == []
