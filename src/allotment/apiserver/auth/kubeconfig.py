"""The file with which kubectl and every other client find the server and authenticate."""

from __future__ import annotations

import base64

import yaml


def kubeconfig(
    server_url: str, ca: bytes, cert: bytes, key: bytes, user: str, name: str = "allotment"
) -> str:
    """A self-contained kubeconfig with one cluster, one user and one context, which can be copied anywhere.

    ``ca``, ``cert`` and ``key`` are PEM. The text holds a private key: write it with mode 0600.
    """
    context = f"{user}@{name}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server_url, "certificate-authority-data": _base64(ca)}}
        ],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": _base64(cert), "client-key-data": _base64(key)},
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": name, "user": user}}],
        "current-context": context,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
