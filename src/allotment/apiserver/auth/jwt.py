"""Signed JSON web tokens, limited to what service accounts need: compact form, ES256 and RS256.

The algorithm is that of our key, never the one that a token names. So a token with ``alg: none``, or one that wants a
public key to be used as a shared secret, simply has a bad signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

LONGEST_TOKEN = 16 * 1024  # characters; ours have about 1,000


class TokenRefused(Exception):
    """The token is not valid. The message says why, and may be shown to the sender."""


class SigningKey:
    """Signs and verifies. ``id`` is the key's name in tokens."""

    def __init__(self, pem: bytes) -> None:
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError(
                f"cannot sign tokens with a {type(key).__name__}: an EC P-256 or RSA key is needed"
            )
        if isinstance(key, ec.EllipticCurvePrivateKey) and not isinstance(key.curve, ec.SECP256R1):
            raise ValueError(f"cannot sign tokens with a key on {key.curve.name}: P-256 is needed")
        self._key = key
        self.algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
        der = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = _encoded(hashlib.sha256(der).digest())
        header = {"alg": self.algorithm, "kid": self.id}
        self._header = _encoded(msgspec.json.encode(header))

    def sign(self, claims: Mapping[str, Any]) -> str:
        text = f"{self._header}.{_encoded(msgspec.json.encode(claims))}"
        if isinstance(self._key, rsa.RSAPrivateKey):
            signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return f"{text}.{_encoded(signature)}"

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed. The caller must check times and audiences."""
        header, claims, signature = _parts(token)
        if not isinstance(header, dict) or header.get("alg") != self.algorithm:
            raise TokenRefused("invalid bearer token: it is not signed as this server signs")
        try:
            self._check(signature, token.rpartition(".")[0].encode())
        except InvalidSignature:
            raise TokenRefused("invalid bearer token: signature is invalid") from None
        return claims

    def _check(self, signature: bytes, text: bytes) -> None:
        key = self._key.public_key()
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
            return
        if len(signature) != 64:
            raise InvalidSignature
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        key.verify(encode_dss_signature(r, s), text, ec.ECDSA(hashes.SHA256()))


def looks_signed(token: str) -> bool:
    """Whether the text has the form of a JSON web token."""
    return token.count(".") == 2


def _parts(token: str) -> tuple[Any, dict[str, Any], bytes]:
    if len(token) > LONGEST_TOKEN or token.count(".") != 2:
        raise TokenRefused("invalid bearer token")
    header, claims, signature = token.split(".")
    try:
        decoded = (
            msgspec.json.decode(_decoded(header)),
            msgspec.json.decode(_decoded(claims)),
            _decoded(signature),
        )
    except (ValueError, RecursionError, msgspec.DecodeError):
        raise TokenRefused("invalid bearer token") from None
    if not isinstance(decoded[1], dict):
        raise TokenRefused("invalid bearer token")
    return decoded


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    if "=" in text or "+" in text or "/" in text:
        raise ValueError("not base64url")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as exc:
        raise ValueError(str(exc)) from None
