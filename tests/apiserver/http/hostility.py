"""A server in a process, and peers that send it exactly the bytes that a test wants, over TLS."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from allotment.client.connection import load
from tests.corpus import unavailable

PATIENCE = 60.0
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Answer:
    """``status`` 0: the server closed the connection without a word."""

    status: int
    head: str = ""
    body: bytes = b""

    def header(self, name: str) -> str:
        found = re.search(rf"^{name}: (.*?)\r?$", self.head, re.M | re.I)
        return found.group(1) if found else ""


class Peer:
    """One connection."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.socket = connection
        self._rest = b""
        self._asked = ""

    def say(self, data: bytes) -> None:
        """Sends, unless the server has stopped listening."""
        self._asked = data[:200].decode("latin-1")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.socket.sendall(data)

    def answer(self) -> Answer:
        """The next reply that is complete; 100 Continue is passed over."""
        while True:
            head, found = self._until(b"\r\n\r\n")
            if not found:
                return Answer(0)
            status = int(head.split()[1])
            if status != 100:
                break
        text = head.decode("latin-1")
        answer = Answer(status, text)
        if length := answer.header("content-length"):
            answer.body = self._exactly(int(length))
        elif answer.header("transfer-encoding") == "chunked" and "watch" not in self._asked:
            answer.body = b"".join(self._chunks())
        return answer

    def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        self.say(request(method, path, body, headers))
        return self.answer()

    def closed(self) -> bool:
        """Whether the server ends the connection before a test's patience does."""
        try:
            while self._read():
                pass
        except TimeoutError:
            return False
        return True

    def _until(self, mark: bytes) -> tuple[bytes, bool]:
        while mark not in self._rest:
            piece = self._read()
            if not piece:
                return self._rest, False
            self._rest += piece
        found, _, self._rest = self._rest.partition(mark)
        return found, True

    def _chunks(self) -> Iterator[bytes]:
        """Of a reply that the server made as we took it."""
        while size := int(self._until(b"\r\n")[0] or b"0", 16):
            yield self._exactly(size)
            self._exactly(2)
        self._exactly(2)

    def _exactly(self, length: int) -> bytes:
        pieces, size = [self._rest], len(self._rest)
        while size < length and (piece := self._read()):
            pieces.append(piece)
            size += len(piece)
        whole = b"".join(pieces)
        self._rest = whole[length:]
        return whole[:length]

    def _read(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return b""


def request(method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
    if body and "content-type" not in headers.lower():
        headers += "Content-Type: application/json\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


class Target:
    """The server under attack."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        connection = load(folder / "kubeconfig")
        url = urlsplit(connection.server)
        assert connection.ssl is not None
        self.address = (url.hostname or "", url.port or 0)
        self.context = connection.ssl
        self.pid = process.pid
        self._process = process
        self._errors = folder.parent / "errors"
        self.at_first = self.memory()

    @contextlib.contextmanager
    def peer(self, receive_buffer: int = 0, session: ssl.SSLSession | None = None) -> Iterator[Peer]:
        """``session`` is another peer's: who goes on with one shakes hands at half the cost, for either side."""
        with contextlib.ExitStack() as stack:
            raw = socket.socket()
            if receive_buffer:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            raw.settimeout(PATIENCE)
            raw.connect(self.address)
            wrapped = self.context.wrap_socket(raw, server_hostname=self.address[0], session=session)
            yield Peer(stack.enter_context(wrapped))

    def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        with self.peer() as peer:
            return peer.ask(method, path, body, headers)

    def create(self, name: str, size: int) -> None:
        obj = {"metadata": {"name": name}, "data": {"k": "x" * size}}
        assert self.ask("POST", CONFIGMAPS, json.dumps(obj).encode()).status == 201

    def memory(self) -> int:
        """Bytes resident."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            unavailable("/proc, from which resident memory is read")
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)
        assert found
        return int(found.group(1)) * 1024

    def shrinks_below(self, limit: int) -> None:
        """As soon as it has noticed that its peers are gone."""
        deadline = time.monotonic() + PATIENCE
        while (held := self.memory()) > limit:
            assert time.monotonic() < deadline, f"it holds {held} bytes and not at most {limit}"
            assert self.ask("GET", "/readyz").status == 200

    def validate(self) -> None:
        """It lives, answers, and nothing happened to it that nobody expected."""
        assert self._process.poll() is None, "the server has died"
        assert self.ask("GET", "/readyz").status == 200
        errors = self._errors.read_text()
        assert "Traceback" not in errors, errors[-3000:]
