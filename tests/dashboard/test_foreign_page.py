"""A page of somebody else, in Chromium, tries to write with the client certificate of whoever looks at it.

A headless browser cannot be given a client certificate without its user's key store. So the server takes every connection for
one on which an administrator's certificate was presented, which is what a browser that has one does, whatever page asks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.http.connection import HttpConnection
from allotment.apiserver.server import ApiServer
from tests.apiserver.http.serving import CONFIGMAPS, configmap
from tests.dashboard.browser import Page
from tests.dashboard.test_page import in_browser
from tests.dashboard.world import World

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
BINDING = json.dumps(
    {
        "metadata": {"name": "stolen"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    }
)
FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
SENT = {
    "text": "new Blob([text], {type: 'text/plain'})",
    "nothing said of its type": "new Blob([text])",
    "a form": "new Blob([text], {type: 'application/x-www-form-urlencoded'})",
    "JSON": "new Blob([text], {type: 'application/json'})",
}


@asynccontextmanager
async def elsewhere() -> AsyncIterator[int]:
    """A server of pages that are not ours; its port."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>elsewhere</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def present_an_administrators_certificate(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = server.certificates.authority
    pem = authority.issue_client("admin", ("system:masters",), datetime.now(UTC)).certificate
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    made = HttpConnection.connection_made

    def connection_made(self: HttpConnection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        self.certificate = der

    monkeypatch.setattr(HttpConnection, "connection_made", connection_made)


async def fetched(page: Page, url: str, method: str, body: str, mode: str = "no-cors") -> str:
    """What comes of a fetch: the type of the answer, of which a foreign page sees no more, or that there is none."""
    found = await page.ask(
        f"""(() => {{ const text = {json.dumps(BINDING)};
            return fetch({json.dumps(url)},
                {{method: {json.dumps(method)}, mode: {json.dumps(mode)}, credentials: 'include', body: {body}}})
            .then((answer) => `${{answer.type}} ${{answer.status}}`, (error) => error.name); }})()"""
    )
    return str(found)


async def posted(page: Page, url: str, enctype: str) -> None:
    """Has a form of the page sent, and waits for the answer to be shown in its frame."""
    await page.ask(
        f"""new Promise((done) => {{
            const frame = document.createElement('iframe');
            frame.name = 'target';
            document.body.replaceChildren(frame);
            const form = document.createElement('form');
            Object.assign(form, {{action: {json.dumps(url)}, method: 'post', enctype: {json.dumps(enctype)},
                target: 'target'}});
            const field = document.createElement('input');
            const text = {json.dumps(BINDING[:-1])};
            [field.name, field.value] = [text + ',"x":"', '"}}'];
            form.append(field);
            document.body.append(form);
            frame.addEventListener('load', () => done(true));
            form.submit();
        }})"""
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["another port", "another site"])
def test_a_foreign_page_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    async def steps(made: World, page: Page) -> None:
        present_an_administrators_certificate(made.server, monkeypatch)
        asked: list[int] = []
        answer = made.server.app.answer

        async def noted(request, send=None, **how):  # type: ignore[no-untyped-def]  # it takes what the other takes
            got = await answer(request, send, **how)
            if request.peer is not None and request.method != "GET":
                asked.append(got.status)
            return got

        monkeypatch.setattr(made.server.app, "answer", noted)
        url = f"{made.server.url}{BINDINGS}"
        async with elsewhere() as port:
            await page.go(f"http://{host}:{port}/")
            await page.until("document.title === 'elsewhere'")
            for body in SENT.values():
                assert await fetched(page, url, "POST", body) == "opaque 0"
            assert asked == [403] * len(SENT)
            assert await fetched(page, url, "POST", SENT["JSON"], "cors") == "TypeError"
            assert await fetched(page, url, "DELETE", SENT["JSON"], "cors") == "TypeError"
            asked.clear()
            for enctype in FORMS:
                await posted(page, url, enctype)
            assert asked == [403] * len(FORMS)
        for method, path in (("GET", f"{BINDINGS}/stolen"), ("GET", f"{CONFIGMAPS}/own")):
            assert (await made.as_(ADMINISTRATOR).call(method, path)).status == 404

    in_browser(tmp_path, steps)


def test_our_own_page_may_write_and_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(made: World, page: Page) -> None:
        present_an_administrators_certificate(made.server, monkeypatch)
        await page.go(f"{made.server.url}/ui")
        await page.until("document.querySelectorAll('#map .cell').length === 4")  # nobody had to log in
        own = json.dumps(json.dumps(configmap("own")))
        body = f"new Blob([{own}], {{type: 'application/json'}})"
        assert await fetched(page, CONFIGMAPS, "POST", body, "same-origin") == "basic 201"
        assert (await made.as_(ADMINISTRATOR).call("GET", f"{CONFIGMAPS}/own")).status == 200
        assert not page.complaints

    in_browser(tmp_path, steps)
