"""A file of tokens that never expire, in kube-apiserver's form: ``token,user,uid`` and optionally ``"group1,group2"``.

Tokens are stored and looked up by their digest, so that the time of a look-up reveals nothing about them.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

from allotment.apiserver.auth.identity import Identity


class TokenFileError(Exception):
    """The file cannot be used; the message names the line and the reason."""


def read_token_file(path: Path) -> dict[bytes, Identity]:
    """The user of each token, by the token's SHA-256 digest."""
    identities: dict[bytes, Identity] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if row:
                    digest, identity = _line(row, f"{path}, line {number}")
                    identities[digest] = identity
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise TokenFileError(f"cannot read the token file {path}: {exc}") from exc
    return identities


def _line(row: list[str], where: str) -> tuple[bytes, Identity]:
    if len(row) < 3:
        raise TokenFileError(f"{where}: needs a token, a user name and a uid, separated by commas")
    token, user, uid = (column.strip() for column in row[:3])
    if not token or not user:
        raise TokenFileError(f"{where}: the {'user name' if token else 'token'} is empty")
    groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
    return digest_of(token), Identity(user, tuple(dict.fromkeys((*groups, "system:authenticated"))), uid)


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
