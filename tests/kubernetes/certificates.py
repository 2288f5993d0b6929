"""A certificate authority for one test session: keys on an elliptic curve, certificates for a day, files in a folder."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for servers (loopback names) and for clients (CN is the user, O the groups)."""

    def __init__(self, folder: Path, now: datetime.datetime) -> None:
        self._folder = folder
        self._since, self._until = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=1)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("allotment-test-ca", ())
        self.pair = self._write("ca", self._key, self._sign(self._name, self._key, ca=True))

    def server(self, name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        return self._write(name, key, self._sign(_name(name, ()), key, ExtendedKeyUsageOID.SERVER_AUTH))

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(user, groups), key, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._write(user.replace(":", "-"), key, certificate)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        usage: x509.ObjectIdentifier | None = None,
        *,
        ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._since)
            .not_valid_after(self._until)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if usage == ExtendedKeyUsageOID.SERVER_AUTH:
            builder = builder.add_extension(_alternative_names(), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Pair:
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


def _name(common: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative_names() -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for name in LOOPBACK:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            names.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(names)
