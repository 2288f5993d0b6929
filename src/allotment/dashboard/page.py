"""The files that a browser runs. They contain nothing of the cluster, so anybody may read them; the pages themselves ask the
user to log in.

All pages share one frame around their own content. The content security policy lets them load from and call only this server,
and run only its own script files.
"""

from __future__ import annotations

from importlib.resources import files

from allotment.apiserver.http.reply import Headers, Response

_PAGES = {"": "fleet", "machines": "machines"}
"""The file names by path."""
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
"""Headers of every answer for the browser, besides those that the server always sends."""
NOT_KEPT: Headers = [*SAFE, (b"cache-control", b"no-store")]
"""Headers of answers that only one person may see."""


def page_files() -> dict[str, Response]:
    """The files by their path below the pages' own."""
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
