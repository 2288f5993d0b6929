"""The certificate authority in its folder, and TLS with what it signs."""

from __future__ import annotations

import base64
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from allotment.apiserver.auth.certificates import Authority, CertificateError, Certificates, Credential
from allotment.apiserver.auth.kubeconfig import kubeconfig

NOW = datetime.datetime.now(datetime.UTC)  # TLS compares with the real clock
DAY = datetime.timedelta(days=1)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_the_first_start_makes_everything_and_secrets_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pki"
    Certificates.open(folder, [], NOW)
    assert {file.name: mode(file) for file in folder.iterdir()} == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "server.crt": 0o644,
        "server.key": 0o600,
        "service-account.key": 0o600,
    }
    assert mode(folder) == 0o700


def test_a_later_start_finds_everything_as_it_was(tmp_path: Path) -> None:
    Certificates.open(tmp_path, ["host.example.com"], NOW)
    before = contents(tmp_path)
    Certificates.open(tmp_path, ["host.example.com"], NOW + 100 * DAY)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("names", "later"),
    [(["other.example.com"], 0 * DAY), (["10.1.2.3"], 0 * DAY), ([], 340 * DAY), ([], 500 * DAY)],
    ids=["another name", "another address", "near its end", "past its end"],
)
def test_the_server_certificate_is_renewed_and_the_authority_kept(
    tmp_path: Path, names: list[str], later: datetime.timedelta
) -> None:
    Certificates.open(tmp_path, [], NOW)
    before = contents(tmp_path)
    Certificates.open(tmp_path, names, NOW + later)
    after = contents(tmp_path)
    assert after["ca.crt"] == before["ca.crt"]
    assert after["service-account.key"] == before["service-account.key"]
    assert after["server.crt"] != before["server.crt"]
    assert after["server.key"] != before["server.key"]


def test_a_server_pair_that_a_crash_left_half_written_is_made_again(tmp_path: Path) -> None:
    Certificates.open(tmp_path, [], NOW)
    other = Authority.new(NOW).issue_server(["localhost"], NOW)
    for broken in (b"", b"garbage", other.key):
        (tmp_path / "server.key").write_bytes(broken)
        Certificates.open(tmp_path, [], NOW).server_context()
    (tmp_path / "server.crt").write_bytes(other.certificate)
    Certificates.open(tmp_path, [], NOW).server_context()


def test_a_key_that_others_could_read_is_closed(tmp_path: Path) -> None:
    Certificates.open(tmp_path, [], NOW)
    for name in ("ca.key", "server.key", "service-account.key"):
        (tmp_path / name).chmod(0o644)
    Certificates.open(tmp_path, [], NOW)
    assert {mode(tmp_path / name) for name in ("ca.key", "server.key", "service-account.key")} == {0o600}


def test_an_authority_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    Certificates.open(tmp_path, [], NOW)
    with pytest.raises(CertificateError, match=r"ca\.crt ends at .* issue all kubeconfig files again"):
        Certificates.open(tmp_path, [], NOW + 3640 * DAY)
    (tmp_path / "ca.key").write_bytes(Authority.new(NOW).key)
    with pytest.raises(CertificateError, match=r"ca\.key is not the key of .*ca\.crt"):
        Certificates.open(tmp_path, [], NOW)
    (tmp_path / "ca.key").write_bytes(b"nonsense")
    with pytest.raises(CertificateError, match=r"ca\.key holds no private key"):
        Certificates.open(tmp_path, [], NOW)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CertificateError, match=r"ca\.crt is there without .*ca\.key"):
        Certificates.open(tmp_path, [], NOW)


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("no folder")
    with pytest.raises(CertificateError, match="pki"):
        Certificates.open(tmp_path / "pki", [], NOW)


def test_no_temporary_files_stay(tmp_path: Path) -> None:
    Certificates.open(tmp_path, [], NOW)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_no_certificate_outlives_the_authority() -> None:
    authority = Authority.new(NOW)
    issued = authority.issue_client("anna", [], NOW, lifetime=10_000 * DAY)
    own = x509.load_pem_x509_certificate(authority.certificate)
    assert x509.load_pem_x509_certificate(issued.certificate).not_valid_after_utc <= own.not_valid_after_utc


def test_a_name_that_x509_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="64"):
        Authority.new(NOW).issue_client("a" * 65, [], NOW)


# --- TLS, in memory


def shake(
    server: ssl.SSLContext, trust: bytes, credential: Credential | None, folder: Path, name: str = "localhost"
) -> bytes | None:
    """The certificate that the server sees of a client, after a handshake. Raises ssl.SSLError on either side."""
    client = ssl.create_default_context(cadata=trust.decode())
    if credential is not None:
        pair = folder / "pair.pem"
        pair.write_bytes(credential.certificate + credential.key)
        client.load_cert_chain(pair)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(down, up, server_hostname=name)
    there = server.wrap_bio(up, down, server_side=True)
    open_sides = [here, there]
    for _ in range(20):
        for side in list(open_sides):
            try:
                side.do_handshake()
                open_sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not open_sides
    return there.getpeercert(binary_form=True)


def test_a_client_certificate_of_ours_reaches_the_server(tmp_path: Path) -> None:
    certificates = Certificates.open(tmp_path / "pki", [], NOW)
    credential = certificates.authority.issue_client("anna", ["devs"], NOW)
    seen = shake(certificates.server_context(), certificates.authority.certificate, credential, tmp_path)
    assert seen == ssl.PEM_cert_to_DER_cert(credential.certificate.decode())


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "box.example.com"]
)
def test_the_server_answers_to_its_names_without_a_client_certificate(tmp_path: Path, name: str) -> None:
    certificates = Certificates.open(tmp_path / "pki", ["box.example.com"], NOW)
    trust = certificates.authority.certificate
    assert shake(certificates.server_context(), trust, None, tmp_path, name) is None


def test_the_server_does_not_answer_to_other_names(tmp_path: Path) -> None:
    certificates = Certificates.open(tmp_path / "pki", [], NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(
            certificates.server_context(),
            certificates.authority.certificate,
            None,
            tmp_path,
            "evil.example.com",
        )


WORTHLESS: dict[str, Callable[[Authority], Credential]] = {
    "of another authority": lambda _: Authority.new(NOW).issue_client(
        "system:admin", ["system:masters"], NOW
    ),
    "past its end": lambda ours: ours.issue_client("anna", [], NOW - 400 * DAY),
    "not begun": lambda ours: ours.issue_client("anna", [], NOW + 10 * DAY),
    "the server's own": lambda ours: ours.issue_server(["localhost"], NOW),
}


@pytest.mark.parametrize("told", WORTHLESS)
def test_a_certificate_does_not_get_through_that_is(tmp_path: Path, told: str) -> None:
    certificates = Certificates.open(tmp_path / "pki", [], NOW)
    credential = WORTHLESS[told](certificates.authority)
    with pytest.raises(ssl.SSLError):
        shake(certificates.server_context(), certificates.authority.certificate, credential, tmp_path)


def test_a_client_certificate_cannot_sign_others(tmp_path: Path) -> None:
    """A user's key used as if it were an authority's: the chain ends at a certificate that may not sign."""
    certificates = Certificates.open(tmp_path / "pki", [], NOW)
    user = certificates.authority.issue_client("anna", [], NOW)
    key = serialization.load_pem_private_key(user.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    rogue = Authority(x509.load_pem_x509_certificate(user.certificate), key)
    forged = rogue.issue_client("system:admin", ["system:masters"], NOW)
    chain = Credential(forged.certificate + user.certificate, forged.key)
    with pytest.raises(ssl.SSLError):
        shake(certificates.server_context(), certificates.authority.certificate, chain, tmp_path)


def test_a_kubeconfig_holds_all_that_a_client_needs() -> None:
    text = kubeconfig("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY", "anna")
    config = yaml.safe_load(text)
    assert config["current-context"] == "anna@allotment"
    assert config["contexts"] == [
        {"name": "anna@allotment", "context": {"cluster": "allotment", "user": "anna"}}
    ]
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    decoded = (
        cluster["certificate-authority-data"],
        user["client-certificate-data"],
        user["client-key-data"],
    )
    assert [base64.b64decode(part) for part in decoded] == [b"CA", b"CERT", b"KEY"]
