"""The server's own certificate authority, and the certificates it signs.

The first start fills a folder with ``ca.crt``/``ca.key``, ``server.crt``/``server.key`` and ``service-account.key``.
Later starts read them and renew the server's certificate when it is about to expire or needs another name. The authority
is never renewed automatically, as every kubeconfig contains it: if it has expired, the server says so.

Keys are EC P-256: made in under a millisecond, verified by every TLS client. Client certificates carry the user in CN
and the groups in O, as Kubernetes reads them. There is no revocation; certificates expire.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from allotment.apiserver.auth.keyfile import PUBLIC, private_folder, restrict, write_whole

SERVICE_ACCOUNT_KEY = "service-account.key"
"""The file that a server creates in the folder at its first start."""

AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
LIFETIME = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(
    minutes=5
)  # so that a client whose clock is a little behind accepts a new certificate

SERVER_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""Names in every server certificate, besides the host's own name and addresses."""


class CertificateError(Exception):
    """The folder of certificates cannot be used; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates with the key it holds. ``certificate`` is what clients must trust, PEM."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._x509 = certificate
        self._key = key
        self._key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def new(cls, now: datetime.datetime, name: str = "allotment") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = _key_usage(signs_certificates=True)
        certificate = (
            _builder(subject, subject, key.public_key(), now, AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def key(self) -> bytes:
        return _key_pem(self._key)

    def issue_server(self, names: Iterable[str], now: datetime.datetime) -> Credential:
        """A certificate for the server, valid for these host names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in sorted(set(names))])
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, "allotment-apiserver")]
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives, now, LIFETIME)

    def issue_client(
        self,
        user: str,
        groups: Sequence[str],
        now: datetime.datetime,
        lifetime: datetime.timedelta = LIFETIME,
    ) -> Credential:
        """A client certificate for ``user`` with ``groups``. ValueError if X.509 cannot hold a name."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None, now, lifetime)

    def _issue(
        self,
        subject: list[x509.NameAttribute[str]],
        purpose: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
        now: datetime.datetime,
        lifetime: datetime.timedelta,
    ) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        # no certificate outlives its authority
        lifetime = min(lifetime, self._x509.not_valid_after_utc - now)
        builder = (
            _builder(x509.Name(subject), self._x509.subject, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(self._key_id, critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credential(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of the folder, with which the server starts."""

    folder: Path
    authority: Authority
    service_account_key: bytes  # PEM, private

    @classmethod
    def open(cls, folder: Path, names: Iterable[str], now: datetime.datetime) -> Certificates:
        """Reads the folder and creates missing files. ``names`` are host names and addresses besides SERVER_NAMES."""
        try:
            private_folder(folder)
            authority = open_authority(folder, now)
            _server(folder, authority, {*SERVER_NAMES, *names}, now)
            key = _service_account_key(folder / SERVICE_ACCOUNT_KEY)
        except OSError as exc:
            raise CertificateError(
                f"cannot use {exc.filename or folder} for certificates: {exc.strerror}"
            ) from exc
        return cls(folder, authority, key)

    def server_context(self) -> ssl.SSLContext:
        """TLS settings of the server: a client may present a certificate, which our authority must have signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        context.set_alpn_protocols(["http/1.1"])
        return context


def open_authority(folder: Path, now: datetime.datetime) -> Authority:
    """The folder's authority, created if there is none. Raises :class:`CertificateError`."""
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if not key_file.exists():
        if certificate_file.exists():
            raise CertificateError(
                f"{certificate_file} is there without {key_file}; restore the key or remove both"
            )
        authority = Authority.new(now)
        write_whole(certificate_file, authority.certificate, PUBLIC)
        write_whole(key_file, authority.key)  # written last: from then on the authority exists
        return authority
    restrict(key_file)
    if not certificate_file.exists():
        raise CertificateError(f"{key_file} is there without {certificate_file}; restore it or remove both")
    certificate, key = _read_certificate(certificate_file), _read_key(key_file)
    if certificate.public_key() != key.public_key():
        raise CertificateError(
            f"{key_file} is not the key of {certificate_file}; restore the pair or remove both"
        )
    if certificate.not_valid_after_utc - RENEW_BEFORE < now:
        raise CertificateError(
            f"{certificate_file} ends at {certificate.not_valid_after_utc:%Y-%m-%d}: remove the folder {folder} and "
            "issue all kubeconfig files again"
        )
    return Authority(certificate, key)


def _server(folder: Path, authority: Authority, names: set[str], now: datetime.datetime) -> None:
    certificate_file, key_file = folder / "server.crt", folder / "server.key"
    if certificate_file.exists() and key_file.exists():
        restrict(key_file)
        if _still_good(certificate_file, key_file, authority, names, now):
            return
    credential = authority.issue_server(names, now)
    write_whole(key_file, credential.key)
    write_whole(certificate_file, credential.certificate, PUBLIC)


def _still_good(
    certificate_file: Path, key_file: Path, authority: Authority, names: set[str], now: datetime.datetime
) -> bool:
    """Whether the stored pair can be used. A pair that is unreadable or half replaced after a crash is created again."""
    try:
        certificate, key = _read_certificate(certificate_file), _read_key(key_file)
        certificate.verify_directly_issued_by(authority._x509)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (CertificateError, InvalidSignature, x509.ExtensionNotFound, ValueError, TypeError):
        return False
    return (
        certificate.public_key() == key.public_key()
        and {_general_name(name) for name in names} == set(alternatives)
        and certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEW_BEFORE
    )


def _service_account_key(path: Path) -> bytes:
    if not path.exists():
        write_whole(path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    restrict(path)
    return path.read_bytes()


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as exc:
        raise CertificateError(f"{path} holds no certificate: {exc}") from exc


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as exc:
        raise CertificateError(f"{path} holds no private key: {exc}") from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path} holds a {type(key).__name__}, an EC key is needed")
    return key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
