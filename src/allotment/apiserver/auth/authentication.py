"""Who sent a request: identified by a client certificate that TLS has verified, else by a bearer token, else nobody.

As upstream, an invalid credential does no harm beside a valid one: a request with a good certificate and a bad token
belongs to the certificate's user. A bad token alone is refused with 401, never treated as anonymous.

Certificates and tokens are parsed once and cached, within bounds, by their bytes or digest. A cached one is still checked
against the clock at every use, and a service account's token against the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from allotment.api.status import Unauthorized
from allotment.apiserver.auth.identity import ANONYMOUS, Identity
from allotment.apiserver.auth.jwt import LONGEST_TOKEN, TokenRefused, looks_signed
from allotment.apiserver.auth.service_account import AccountToken, ServiceAccountTokens
from allotment.apiserver.auth.token_file import digest_of

Headers = Iterable[tuple[bytes, bytes]]
"""Headers in ASGI's form: names in lower case."""

_CREDENTIALS_REMEMBERED = 4096
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class Authentication:
    """Identifies the sender of a request. ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        accounts: ServiceAccountTokens,
        clock: Callable[[], float],
        tokens: Mapping[bytes, Identity] | None = None,
    ) -> None:
        self.accounts = accounts
        self._clock = clock
        self._static = dict(tokens or {})
        self._certificates: dict[bytes, tuple[Identity | None, float, float]] = {}
        self._verified: dict[bytes, AccountToken] = {}

    def identify(self, headers: Headers, peer_certificate_der: bytes | None) -> Identity:
        """The sender, or ANONYMOUS if there are no credentials. Raises Unauthorized for an invalid token."""
        if peer_certificate_der:
            identity = self.of_certificate(peer_certificate_der)
            if identity is not None:
                return identity
        token = bearer_token(headers)
        if token is None:
            return ANONYMOUS
        try:
            return self.of_token(token)[0]
        except TokenRefused:
            raise Unauthorized("Unauthorized") from None

    def of_certificate(self, der: bytes) -> Identity | None:
        """The user in a certificate that TLS has verified; None if it names none, or is not valid now."""
        known = self._certificates.get(der)
        if known is None:
            if len(self._certificates) >= _CREDENTIALS_REMEMBERED:
                self._certificates.clear()
            known = self._certificates[der] = _read_certificate(der)
        identity, begin, end = known
        return identity if begin <= self._clock() <= end else None

    def of_token(self, token: str, audiences: Sequence[str] = ()) -> tuple[Identity, tuple[str, ...]]:
        """The user of a token, and those of ``audiences`` (by default the server's) that it is for. Raises TokenRefused."""
        audiences = audiences or self.accounts.audiences
        digest = digest_of(token)
        static = self._static.get(digest)
        if static is not None:
            return static, tuple(audiences)
        verified = self._verified.get(digest)
        if verified is None:
            if len(token) > LONGEST_TOKEN or not looks_signed(token):
                raise TokenRefused("invalid bearer token")
            verified = self.accounts.verify(token)
            if len(self._verified) >= _CREDENTIALS_REMEMBERED:
                self._verified.clear()
            self._verified[digest] = verified
        return verified.identity, self.accounts.check(verified, audiences, self._clock())


def bearer_token(headers: Headers) -> str | None:
    """The token after ``Authorization: Bearer``; None for another scheme or no header."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").strip().partition(" ")
            token = rest.partition(" ")[0]
            return token if scheme.lower() == "bearer" and token else None
    return None


def _read_certificate(der: bytes) -> tuple[Identity | None, float, float]:
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = [
            str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ]
    except ValueError:
        return None, 0, 0
    if not names or not names[-1]:
        return None, 0, 0
    identity = Identity(
        names[-1],
        tuple(dict.fromkeys((*groups, "system:authenticated"))),
        extra={_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return identity, begin.timestamp(), end.timestamp()
