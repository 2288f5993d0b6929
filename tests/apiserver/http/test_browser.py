"""Which requests a foreign page may not cause; ``tests/dashboard/test_foreign_page.py`` has a real browser try."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from allotment.api.status import Forbidden
from allotment.apiserver.http.browser import check_page
from tests.apiserver.http.serving import CONFIGMAPS, configmap, serving
from tests.apiserver.http.test_listener import peer

NAMES = {"localhost", "allotment.example"}
OURS, FOREIGN = "https://localhost:6443", "https://evil.example"

# what is asked, the headers besides Host, whether it is let through
CASES: dict[str, tuple[str, str, dict[str, str], bool]] = {
    "a program": ("POST", "localhost:6443", {}, True),
    "a program by another name": ("POST", "anything.example", {}, True),
    "our own page": ("POST", "localhost:6443", {"sec-fetch-site": "same-origin", "origin": OURS}, True),
    "an address typed by a person": ("GET", "localhost:6443", {"sec-fetch-site": "none"}, True),
    "a foreign page": ("POST", "localhost:6443", {"sec-fetch-site": "cross-site", "origin": FOREIGN}, False),
    "a page of another port": (
        "POST",
        "localhost:6443",
        {"sec-fetch-site": "same-site", "origin": "https://localhost:1"},
        False,
    ),
    "a foreign page that reads": ("GET", "localhost:6443", {"sec-fetch-site": "cross-site"}, True),
    "a deletion": ("DELETE", "localhost:6443", {"sec-fetch-site": "cross-site"}, False),
    "a method nobody knows": ("PURGE", "localhost:6443", {"sec-fetch-site": "cross-site"}, False),
    "an old browser": ("POST", "localhost:6443", {"origin": FOREIGN}, False),
    "an old browser on our page": ("POST", "localhost:6443", {"origin": OURS}, True),
    "an old browser on our page, in capitals": (
        "POST",
        "LOCALHOST:6443",
        {"origin": "HTTPS://LocalHost:6443"},
        True,
    ),
    "an old browser on another port": ("POST", "localhost:6443", {"origin": "https://localhost:1"}, False),
    "a page that hides where it is from": ("POST", "localhost:6443", {"origin": "null"}, False),
    "an origin that is none": ("POST", "localhost:6443", {"origin": "https://[::"}, False),
    "an origin that looks like ours": (
        "POST",
        "localhost:6443",
        {"origin": "https://localhost:6443.evil"},
        False,
    ),
    "a proxy of ours": (
        "POST",
        "localhost:6443",
        {"sec-fetch-site": "same-origin", "origin": "http://x:8001"},
        True,
    ),
    "a rebound name": ("POST", "evil.example:6443", {"sec-fetch-site": "same-origin"}, False),
    "a rebound name that reads": ("GET", "evil.example:6443", {"sec-fetch-site": "same-origin"}, False),
    "a rebound name, old browser": ("POST", "evil.example", {"origin": FOREIGN}, False),
    "no host": ("GET", "", {"sec-fetch-site": "none"}, False),
    "a host that is none": ("GET", "[::", {"sec-fetch-site": "none"}, False),
    "another name of ours": ("GET", "Allotment.Example", {"sec-fetch-site": "none"}, True),
    "an address": ("POST", "10.1.2.3:6443", {"sec-fetch-site": "same-origin"}, True),
    "a long address": ("POST", "[::1]:6443", {"sec-fetch-site": "same-origin"}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_pages_may_cause(case: str) -> None:
    method, host, headers, allowed = CASES[case]
    sent = [(b"host", host.encode()), *((name.encode(), value.encode()) for name, value in headers.items())]
    if allowed:
        check_page(method, sent, NAMES)
    else:
        with pytest.raises(Forbidden):
            check_page(method, sent, NAMES)


def test_a_page_cannot_use_the_certificate_of_whoever_looks_at_it(tmp_path: Path) -> None:
    body = json.dumps(configmap("a")).encode()
    foreign = f"Origin: {FOREIGN}\r\nSec-Fetch-Site: cross-site\r\n"

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            status, told = await client.request("POST", CONFIGMAPS, body, foreign)
            assert (status, told["reason"]) == (403, "Forbidden")
            assert told["message"] == (
                f"POST was caused by a page of {FOREIGN} (Sec-Fetch-Site: cross-site): "
                "only pages of this server may write through a browser"
            )
            assert (await client.request("GET", f"{CONFIGMAPS}/a"))[0] == 404
            assert (await client.request("POST", CONFIGMAPS, body))[0] == 201

    asyncio.run(main())


def test_no_answer_is_kept_or_guessed_at(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            for path in (CONFIGMAPS, "/healthz", "/nowhere", "/apis", "/openapi/v3", "/metrics", "/version"):
                await client.say(f"GET {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
                head = (await client.reader.readuntil(b"\r\n\r\n")).lower()
                assert head.count(b"\r\nx-content-type-options: nosniff\r\n") == 1, path
                assert head.count(b"\r\ncache-control: no-store\r\n") == 1, path
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await client.reader.readexactly(length)

    asyncio.run(main())
