"""Chromium without a window, driven over its DevTools protocol: as much of it as tests of a page need."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

PATIENCE = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Absent(Exception):
    """There is no browser here; the message names it and how to get it."""


def find() -> str:
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise Absent("Chromium (apt-get install chromium)")


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self.complaints: list[str] = []
        """What the console shows as errors, and what the page threw."""
        self._reading = asyncio.create_task(self._read())

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        waiter = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        answer = await asyncio.wait_for(waiter, PATIENCE)
        assert "error" not in answer, f"{method}: {answer['error']}"
        found: dict[str, Any] = answer["result"]
        return found

    async def go(self, url: str) -> None:
        await self.command("Page.navigate", url=url)

    async def back(self) -> None:
        """To the page before, which the browser may have kept as it was."""
        history = await self.command("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"] - 1]
        await self.command("Page.navigateToHistoryEntry", entryId=entry["id"])

    async def ask(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = await self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The first value of an expression that is true, looked at with each frame that is drawn."""
        return await self.ask(
            f"""new Promise((found, failed) => {{
                const end = performance.now() + {PATIENCE * 900};
                const look = () => {{
                    let value = null;
                    try {{ value = {expression}; }} catch (error) {{ value = null; }}
                    if (value) found(value);
                    else if (performance.now() > end) failed(new Error("never came true: " + {json.dumps(expression)}));
                    else setTimeout(look, 5);
                }};
                look();
            }})"""
        )

    async def press(self, key: str) -> None:
        codes = {
            "Tab": 9,
            "Enter": 13,
            "ArrowRight": 39,
            "ArrowDown": 40,
            "End": 35,
            "Home": 36,
            "Escape": 27,
        }
        text = {"text": "\r"} if key == "Enter" else {}  # without it nothing is activated
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            pressed = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], **text}
            await self.command("Input.dispatchKeyEvent", type=kind, **pressed)

    async def type(self, text: str) -> None:
        await self.command("Input.insertText", text=text)

    async def point_at(self, selector: str) -> None:
        x, y = await self.ask(
            f"(() => {{ const at = document.querySelector({json.dumps(selector)}); at.scrollIntoView({{block: 'center'}});"
            " const box = at.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        await self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def look(self, width: int, height: int, *, scheme: str = "light", phone: bool = False) -> None:
        """Has the page drawn for a screen of this size and kind."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        await self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    async def picture(self, file: Path) -> None:
        answer = await self.command("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(answer["data"]))

    @asynccontextmanager
    async def covered(self) -> AsyncIterator[None]:
        """Another tab is in front of this one, as long as the block runs."""
        other = await self.command("Target.createTarget", url="about:blank")
        try:
            yield
        finally:
            await self.command("Page.bringToFront")
            await self.command("Target.closeTarget", targetId=other["targetId"])

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                waiter = self._waiting.pop(told["id"])
                if not waiter.done():
                    waiter.set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["params"]["exceptionDetails"])[:500])
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(told["params"]["entry"]["text"])


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Page]:
    """A browser of its own with one empty tab. It takes any server's certificate, as ours are signed by nobody it knows.
    Raises Absent."""
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []  # it refuses to be root with one
    process = await asyncio.create_subprocess_exec(
        *(find(), "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", *sandbox),
        *("--ignore-certificate-errors", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            port = await _port(folder / "DevToolsActivePort", process)
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                tabs = await answer.json()
        url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        async with aiohttp.ClientSession() as session:
            page = Page(await session.ws_connect(url, max_msg_size=0))
            for domain in ("Page", "Runtime", "Log"):
                await page.command(f"{domain}.enable")
            try:
                yield page
            finally:
                await page.close()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> str:
    """Which port it listens on, once it has written that down."""
    while True:
        with suppress(FileNotFoundError):
            if port := file.read_text().partition("\n")[0]:
                return port
        assert process.returncode is None, f"the browser ended with {process.returncode}"
        await asyncio.sleep(0.02)
