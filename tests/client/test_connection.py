"""Kubeconfigs as people have them, and what is said about broken ones."""

import asyncio
import base64
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from allotment.client import connection
from allotment.client.connection import KubeconfigError, in_cluster, load


def certificate_and_key() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = (
        builder.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    return certificate.public_bytes(pem), key.private_bytes(pem, private, serialization.NoEncryption())


def kubeconfig(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def headers(path: Path) -> list[tuple[str, str]]:
    return asyncio.run(load(path).headers())


def test_the_current_context_names_server_and_namespace(tmp_path: Path) -> None:
    found = load(written(tmp_path, kubeconfig()))
    assert (found.server, found.namespace) == ("https://127.0.0.1:6443", "team")


def test_a_token_becomes_a_bearer_header(tmp_path: Path) -> None:
    assert headers(written(tmp_path, kubeconfig({"token": "s3cret"}))) == [("Authorization", "Bearer s3cret")]


def test_a_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    path = written(tmp_path, kubeconfig({"tokenFile": "token"}))
    assert headers(path) == [("Authorization", "Bearer from-file")]


def test_a_refused_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    found = load(written(tmp_path, kubeconfig({"tokenFile": "token"})))

    async def twice() -> list[tuple[str, str]]:
        await found.headers()
        (tmp_path / "token").write_text("new")
        assert await found.headers() == [("Authorization", "Bearer old")]
        found.forget_token()
        return await found.headers()

    assert asyncio.run(twice()) == [("Authorization", "Bearer new")]


def test_impersonation_sends_each_group_in_a_header_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, kubeconfig({"as": "jane", "as-groups": ["a", "b"]}))
    assert headers(path) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    ]


def test_certificates_come_inline_or_from_files(tmp_path: Path) -> None:
    certificate, key = certificate_and_key()
    (tmp_path / "crt").write_bytes(certificate)
    inline = {"client-certificate": "crt", "client-key-data": base64.b64encode(key).decode()}
    authority = {"certificate-authority-data": base64.b64encode(certificate).decode()}
    found = load(written(tmp_path, kubeconfig(inline, authority)))
    assert found.ssl is not None
    assert found.ssl.verify_mode is ssl.CERT_REQUIRED
    assert found.ssl.cert_store_stats()["x509"] == 1


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    certificate, _ = certificate_and_key()
    _, key = certificate_and_key()
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    with pytest.raises(KubeconfigError, match="do not belong together"):
        load(written(tmp_path, kubeconfig(user)))


def test_insecure_connections_check_nothing(tmp_path: Path) -> None:
    found = load(written(tmp_path, kubeconfig(cluster={"insecure-skip-tls-verify": True})))
    assert found.ssl is not None
    assert found.ssl.verify_mode is ssl.CERT_NONE


def test_several_files_are_merged_and_the_first_to_say_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(
        tmp_path, {"current-context": "here", "users": [{"name": "u", "user": {"token": "1"}}]}, "a"
    )
    second = written(tmp_path, kubeconfig({"token": "2"}), "b")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), str(tmp_path / "none"), str(second)]))
    assert asyncio.run(load().headers()) == [("Authorization", "Bearer 1")]


def exec_plugin(folder: Path, script: str, **more: Any) -> Path:
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **more}
    return written(folder, kubeconfig({"exec": spec}))


def test_an_exec_plugin_is_run_once_until_its_token_expires(tmp_path: Path) -> None:
    answer = (
        '{"kind":"ExecCredential","status":{"token":"t-$WHO","expirationTimestamp":"2999-01-01T00:00:00Z"}}'
    )
    path = exec_plugin(
        tmp_path,
        f'echo run >> "{tmp_path}/runs"; cat <<E\n{answer}\nE',
        env=[{"name": "WHO", "value": "jane"}],
    )
    found = load(path)

    async def several() -> list[list[tuple[str, str]]]:
        return list(await asyncio.gather(*(found.headers() for _ in range(5))))

    assert asyncio.run(several()) == [[("Authorization", "Bearer t-jane")]] * 5
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "exit code 3"),
        ("echo hello", "printed no ExecCredential"),
        ('echo \'{"kind":"ExecCredential"}\'', "printed no ExecCredential"),
    ],
)
def test_a_failing_exec_plugin_is_named(tmp_path: Path, script: str, said: str) -> None:
    found = load(exec_plugin(tmp_path, script))
    with pytest.raises(KubeconfigError, match=said):
        asyncio.run(found.headers())


def test_a_missing_exec_plugin_says_how_to_get_it(tmp_path: Path) -> None:
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-program",
        "installHint": "get it",
    }
    with pytest.raises(KubeconfigError, match=r"no-such-program cannot be started .*: get it"):
        headers(written(tmp_path, kubeconfig({"exec": spec})))


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    certificate, _ = certificate_and_key()
    (tmp_path / "ca.crt").write_bytes(certificate)
    (tmp_path / "token").write_text("pod")
    (tmp_path / "namespace").write_text("jobs")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(tmp_path, environment)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "jobs")
    assert asyncio.run(found.headers()) == [("Authorization", "Bearer pod")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a\n- list", "is no kubeconfig"),
        ("a: [", "cannot be read as a kubeconfig"),
        ({**kubeconfig(), "current-context": ""}, "no current-context; choose one of here"),
        ({**kubeconfig(), "current-context": "there"}, "no context 'there'; there are here"),
        ({**kubeconfig(), "clusters": []}, r"contexts\[here\].cluster: no cluster 'c'"),
        (kubeconfig(cluster={"server": "ftp://x"}), "'ftp://x' is no http"),
        (
            kubeconfig(cluster={"certificate-authority-data": "%%%"}),
            "certificate-authority-data is not base64",
        ),
        (kubeconfig({"client-certificate": "missing"}), "client-certificate missing: No such file"),
        (kubeconfig({"auth-provider": {}}), "use an exec plugin"),
        ({**kubeconfig(), "users": [{"name": "u"}]}, "users: an entry has no user"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_said(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(KubeconfigError, match=said):
        load(written(tmp_path, content))


def test_without_any_configuration_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(KubeconfigError, match="allot up"):
        load()


def test_a_kubeconfig_that_the_environment_names_and_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path / "no-service-account")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match=f"{tmp_path / 'none'} does not exist"):
        load()


# --- nothing named ---


def test_without_any_kubeconfig_the_fallback_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own = written(tmp_path, kubeconfig())
    assert load(fallback=own).namespace == "team"
    other = kubeconfig()
    other["contexts"][0]["context"]["namespace"] = "mine"
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    written(tmp_path / "home" / ".kube", other)
    assert load(fallback=own).namespace == "mine", "a person's own kubeconfig comes first"


def test_a_kubeconfig_that_is_named_and_not_there_is_an_error_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = written(tmp_path, kubeconfig())
    with pytest.raises(KubeconfigError, match="does not exist"):
        load(tmp_path / "absent", fallback=own)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(KubeconfigError, match="does not exist"):
        load(fallback=own)


# --- certificates that have expired ---


def test_an_expired_certificate_is_named_with_its_file_and_date(tmp_path: Path) -> None:
    certificate, key = certificate_and_key()
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    path = written(tmp_path, kubeconfig(user))
    mine = load(path).certificate
    assert mine is not None
    now = datetime.now(UTC)
    assert mine.expired(now) == ""
    said = mine.expired(now + timedelta(days=2))
    assert said.startswith(f"the client certificate in {path} expired on {now + timedelta(days=1):%Y-%m-%d}")
