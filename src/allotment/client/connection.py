"""Where the server is and how we authenticate: from a kubeconfig, or from the service account of a pod.

``load()`` searches like kubectl: the named file, else the files in ``KUBECONFIG`` (merged; the first file that sets a
value wins), else ``~/.kube/config``, else the service account that Kubernetes mounts into a pod, else the caller's
fallback file. Certificates and keys come from files or inline data. A bearer token comes from the file itself, from
another file that is read again every minute, or from an exec plugin, whose answer is kept until it expires.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import yaml

from allotment.api.timestamps import moment

__all__ = ["Connection", "KubeconfigError", "in_cluster", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_FILE_SECONDS = 60.0
_EXEC_SECONDS = 60.0
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class KubeconfigError(ValueError):
    """The configuration names no usable cluster. The message names the file and the entry, and says what to do."""


@dataclass
class Connection:
    """One server and one identity. ``namespace`` is the default namespace of commands."""

    server: str
    ssl: ssl.SSLContext | None = None
    namespace: str = "default"
    token: BearerToken | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    certificate: ClientCertificate | None = None

    async def headers(self) -> list[tuple[str, str]]:
        """The headers that authenticate each request. A name may occur more than once."""
        headers = list(self.impersonate)
        if self.token is not None and (value := await self.token.value()):
            headers.append(("Authorization", f"Bearer {value}"))
        return headers

    def forget_token(self) -> None:
        """Drops a token that the server did not accept, so that the next request gets a new one."""
        if self.token is not None:
            self.token.forget()

    def expired(self) -> str:
        """A message if the client certificate has expired. Servers then only break the connection."""
        return self.certificate.expired(datetime.now(UTC)) if self.certificate is not None else ""

    def good_until(self) -> datetime | None:
        """When the client certificate expires, if there is one."""
        return self.certificate.until() if self.certificate is not None else None


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Our client certificate, and the kubeconfig that it comes from."""

    pem: bytes
    file: Path

    def until(self) -> datetime | None:
        """When it expires; None if we cannot read it. OpenSSL then reports what is wrong."""
        from cryptography import x509  # rarely needed, and slow enough to delay the start of every command

        try:
            return x509.load_pem_x509_certificate(self.pem).not_valid_after_utc
        except ValueError:
            return None

    def expired(self, now: datetime) -> str:
        """Says which certificate has expired, when, and what to do; empty while it is valid."""
        until = self.until()
        if until is None or now <= until:
            return ""
        return (
            f"the client certificate in {self.file} expired on {until:%Y-%m-%d %H:%M} UTC: get a new kubeconfig "
            "(of an `allot up` server: start it again, or use `allot kubeconfig`)"
        )


class BearerToken:
    """A bearer token that stays the same."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def value(self) -> str:
        return self._value

    def forget(self) -> None:
        """Does nothing: there is no other token."""


class TokenFile(BearerToken):
    """A token in a file that another program renews."""

    def __init__(self, path: Path) -> None:
        super().__init__("")
        self._path = path
        self._read_at: float | None = None

    async def value(self) -> str:
        if self._read_at is None or monotonic() - self._read_at > _TOKEN_FILE_SECONDS:
            self._value, self._read_at = self._path.read_text().strip(), monotonic()
        return self._value

    def forget(self) -> None:
        self._read_at = None


class ExecToken(BearerToken):
    """A token, a client certificate or both, printed by a program. Concurrent requests wait for one run of it."""

    def __init__(self, spec: Mapping[str, Any], file: Path, context: ssl.SSLContext | None) -> None:
        super().__init__("")
        self._spec = spec
        self._file = file
        self._context = context
        self._until: datetime | None = None
        self._known = False
        self._running = asyncio.Lock()

    async def value(self) -> str:
        async with self._running:
            if not self._known or (self._until is not None and datetime.now(UTC) >= self._until):
                status = await run_exec_plugin(self._spec, self._file.parent)
                self._value = str(status.get("token") or "")
                certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
                if self._context is not None and certificate and key:
                    _load_identity(self._context, str(certificate).encode(), str(key).encode(), self._file)
                self._until = moment(status.get("expirationTimestamp"))
                self._known = True
            return self._value

    def forget(self) -> None:
        self._known = False


async def run_exec_plugin(spec: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The status of the ExecCredential that the plugin prints."""
    command = str(spec.get("command") or "")
    if not command:
        raise KubeconfigError("users[].user.exec.command: is required")
    version = spec.get("apiVersion")
    if version not in _EXEC_VERSIONS:
        raise KubeconfigError(
            f"exec plugin {command}: apiVersion {version!r} is not one of {', '.join(_EXEC_VERSIONS)}"
        )
    if "/" in command and not os.path.isabs(command):
        command = str(folder / command)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    environment.update({str(entry["name"]): str(entry["value"]) for entry in spec.get("env") or ()})
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *map(str, spec.get("args") or ()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as exc:
        hint = str(spec.get("installHint") or "install it or put it on the PATH")
        raise KubeconfigError(f"exec plugin {command} cannot be started ({exc.strerror}): {hint}") from exc
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), _EXEC_SECONDS)
    except TimeoutError as exc:
        process.kill()
        await process.wait()
        raise KubeconfigError(f"exec plugin {command} gave no answer within {_EXEC_SECONDS:.0f} s") from exc
    if process.returncode:
        raise KubeconfigError(f"exec plugin {command} failed with exit code {process.returncode}")
    return _exec_status(command, printed)


def _exec_status(command: str, printed: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(printed)
        status = answer["status"]
        if answer["kind"] != "ExecCredential" or not isinstance(status, dict):
            raise ValueError("no status")
    except (ValueError, KeyError, TypeError) as exc:
        raise KubeconfigError(f"exec plugin {command} printed no ExecCredential with a status") from exc
    return status


def load(
    path: Path | str | None = None, context: str | None = None, *, fallback: Path | None = None
) -> Connection:
    """The connection of the named context, else of the current one. Raises :class:`KubeconfigError`.

    ``fallback`` is a kubeconfig to use if nothing else names one.
    """
    files = _files(None if path is None else Path(path))
    if not files:
        unnamed = path is None and not os.environ.get("KUBECONFIG")
        if path is None and (SERVICE_ACCOUNT / "token").exists():
            return in_cluster()
        if unnamed and fallback is not None and fallback.exists():
            return load(fallback, context)
        named = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise KubeconfigError(
            f"{named} does not exist: name a kubeconfig with --kubeconfig or KUBECONFIG, "
            "or start a control plane with `allot up`"
        )
    config = _merged(files)
    name = context or config.current
    if not name:
        raise KubeconfigError(
            f"{files[0]}: no current-context; choose one of {_names(config.contexts)} with --context"
        )
    chosen, _ = config.contexts.get(name, ({}, files[0]))
    if not chosen:
        raise KubeconfigError(f"{files[0]}: no context {name!r}; there are {_names(config.contexts)}")
    if chosen.get("cluster") not in config.clusters:
        raise KubeconfigError(f"{files[0]}: contexts[{name}].cluster: no cluster {chosen.get('cluster')!r}")
    cluster, cluster_file = config.clusters[chosen["cluster"]]
    user, user_file = config.users.get(chosen.get("user") or "", ({}, files[0]))
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{cluster_file}: clusters[{chosen['cluster']}].cluster.server: {server!r} is no http(s) URL"
        )
    secured = server.startswith("https")
    identity = _identity(user, user_file) if secured else None
    secure = _ssl_context(cluster, cluster_file, identity) if secured else None
    return Connection(
        server=server,
        ssl=secure,
        namespace=str(chosen.get("namespace") or "default"),
        token=_token(user, user_file, secure),
        impersonate=_impersonation(user),
        certificate=ClientCertificate(identity[0], user_file) if identity is not None else None,
    )


def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Connection:
    """The connection of a pod, by its service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    namespace = folder / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl=ssl.create_default_context(cafile=str(folder / "ca.crt")),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        token=TokenFile(folder / "token"),
    )


# --- the file ---

_Entries = dict[str, tuple[dict[str, Any], Path]]


@dataclass
class _Config:
    """Merged files. Each entry remembers its file, to which relative paths in it refer."""

    current: str = ""
    clusters: _Entries = field(default_factory=dict)
    users: _Entries = field(default_factory=dict)
    contexts: _Entries = field(default_factory=dict)


def _files(path: Path | None) -> list[Path]:
    if path is not None:
        candidates = [path]
    elif named := os.environ.get("KUBECONFIG"):
        candidates = [Path(part) for part in named.split(os.pathsep) if part]
    else:
        candidates = [Path.home() / ".kube" / "config"]
    return [candidate for candidate in candidates if candidate.exists()]


def _merged(files: list[Path]) -> _Config:
    merged = _Config()
    for file in files:
        content = _read(file)
        merged.current = merged.current or str(content.get("current-context") or "")
        for plural, singular, into in (
            ("clusters", "cluster", merged.clusters),
            ("users", "user", merged.users),
            ("contexts", "context", merged.contexts),
        ):
            for entry in content.get(plural) or ():
                if not isinstance(entry, dict) or not isinstance(entry.get(singular), dict):
                    raise KubeconfigError(f"{file}: {plural}: an entry has no {singular}")
                into.setdefault(str(entry.get("name")), (entry[singular], file))
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise KubeconfigError(f"{file}: cannot be read as a kubeconfig: {exc}") from exc
    if not isinstance(content, dict):
        raise KubeconfigError(f"{file}: is no kubeconfig")
    return content


def _names(entries: _Entries) -> str:
    return ", ".join(sorted(entries)) or "none"


def _token(user: dict[str, Any], file: Path, context: ssl.SSLContext | None) -> BearerToken | None:
    if path := user.get("tokenFile"):
        return TokenFile(file.parent / str(path))
    if value := user.get("token"):
        return BearerToken(str(value))
    if isinstance(user.get("exec"), dict):
        return ExecToken(user["exec"], file, context)
    if "auth-provider" in user:
        raise KubeconfigError(f"{file}: auth-provider is gone from Kubernetes since 1.26; use an exec plugin")
    return None


def _impersonation(user: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    headers = []
    if name := user.get("as"):
        headers.append(("Impersonate-User", str(name)))
    if uid := user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(uid)))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    return tuple(headers)


_Identity = tuple[bytes, bytes, Path]
"""Certificate, key, and the file that names them."""


def _identity(user: dict[str, Any], file: Path) -> _Identity | None:
    certificate, key = _material(user, "client-certificate", file), _material(user, "client-key", file)
    return (certificate, key, file) if certificate and key else None


def _ssl_context(cluster: dict[str, Any], cluster_file: Path, identity: _Identity | None) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        authority = _material(cluster, "certificate-authority", cluster_file)
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if identity is not None:
        _load_identity(context, *identity)
    return context


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes, file: Path) -> None:
    """Loads an identity through a temporary private file, because Python's ssl reads keys only from files."""
    with tempfile.NamedTemporaryFile(prefix="allot-") as pem:
        pem.write(certificate.rstrip() + b"\n" + key)
        pem.flush()
        try:
            context.load_cert_chain(pem.name)
        except ssl.SSLError as exc:
            raise KubeconfigError(
                f"{file}: client certificate and key do not belong together: {exc}"
            ) from exc


def _material(entry: dict[str, Any], name: str, file: Path) -> bytes | None:
    """The content of a certificate or key. Inline data wins over a file name, which is relative to the kubeconfig."""
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except ValueError as exc:
            raise KubeconfigError(f"{file}: {name}-data is not base64") from exc
    if path := entry.get(name):
        try:
            return (file.parent / str(path)).read_bytes()
        except OSError as exc:
            raise KubeconfigError(f"{file}: {name} {path}: {exc.strerror}") from exc
    return None
