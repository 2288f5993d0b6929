"""The files that a browser runs. They hold nothing of the cluster, so anybody may have them: the pages ask who one is.

Pages are a frame, the same for all, around what each has of its own. The policy lets them load and call nothing but this server, and
run no script but its own files.
"""

from __future__ import annotations

from importlib.resources import files

from allotment.apiserver.http.reply import Headers, Response

_PAGES = {"": "fleet", "machines": "machines"}
"""By path, the names of their files."""
_HTML = b"text/html; charset=utf-8"
_TYPES = {
    "dashboard.css": b"text/css; charset=utf-8",
    "session.js": b"text/javascript; charset=utf-8",
    "fleet.js": b"text/javascript; charset=utf-8",
    "machines.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
SAFE: Headers = [
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
"""For all that a browser gets from here, besides what the server says with every answer."""
NOT_KEPT: Headers = [*SAFE, (b"cache-control", b"no-store")]
"""For what only one person may see."""


def page_files() -> dict[str, Response]:
    """By path below the pages' own."""
    folder = files("allotment.dashboard") / "static"
    headers = [*SAFE, (b"cache-control", b"no-cache")]
    found = {
        name: Response(200, (folder / name).read_bytes(), type_, headers) for name, type_ in _TYPES.items()
    }
    frame = (folder / "frame.html").read_text()
    for path, name in _PAGES.items():
        own = (folder / f"{name}.html").read_text()
        text = frame.replace("<!-- name -->", name).replace("<!-- page -->", own)
        found[path] = Response(200, text.encode(), _HTML, headers)
    return found
