"""Paths that are not resources: health, version, metrics, OpenAPI."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping

from allotment.apiserver.http.metrics import ServerMetrics
from allotment.apiserver.http.reply import Response
from allotment.apiserver.http.request import Request

KUBERNETES = (1, 37, 1)
"""The version of Kubernetes whose API we speak."""

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


class Paths:
    """Serves these paths. ``ready`` are the checks of /readyz; ``find_document`` looks up other documents (OpenAPI)."""

    def __init__(
        self,
        metrics: ServerMetrics,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        find_document: Callable[[Request], Awaitable[Response | None]],
    ) -> None:
        self._metrics = metrics
        self._checks = {"/healthz": live, "/livez": live, "/readyz": {**live, **ready}}
        self._find_document = find_document

    async def find(self, request: Request) -> Response | None:
        path = request.path
        for root, checks in self._checks.items():
            if path == root or path == root + "/":
                return _health(root, checks, request)
            if path.startswith(root + "/"):
                return _one_check(path[len(root) + 1 :], checks)
        if path == "/version" or path == "/version/":
            return Response.of(version())
        if path == "/metrics":
            return Response(200, await self._metrics.text(), b"text/plain; version=0.0.4; charset=utf-8")
        return await self._find_document(request)


def version() -> dict[str, str]:
    major, minor, patch = KUBERNETES
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.{patch}+allotment",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _health(root: str, checks: Mapping[str, Check], request: Request) -> Response:
    name = root[1:]
    left_out = {request.query["exclude"]} if "exclude" in request.query else set()
    told, failed = [], False
    for check, ask in checks.items():
        if check in left_out:
            told.append(f"[+]{check} excluded: ok")
            continue
        wrong = ask()
        failed = failed or wrong is not None
        told.append(f"[+]{check} ok" if wrong is None else f"[-]{check} failed: {wrong}")
    if failed:
        return Response.text("\n".join([*told, f"{name} check failed"]) + "\n", 500)
    if request.flag("verbose"):
        return Response.text("\n".join([*told, f"{name} check passed"]) + "\n")
    return Response.text("ok")


def _one_check(name: str, checks: Mapping[str, Check]) -> Response | None:
    check = checks.get(name)
    if check is None:
        return None
    wrong = check()
    return Response.text("ok") if wrong is None else Response.text(f"internal server error: {wrong}\n", 500)
