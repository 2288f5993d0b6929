"""Asks a real kube-apiserver what it makes of the objects in ``upstream.jsonl``, and writes its answers there.

``python -m tests.apiserver.registry.kinds.record https://127.0.0.1:PORT TOKEN`` with a server that allows everything
and has the feature gates GenericWorkload, DRAWorkloadResourceClaims, TopologyAwareWorkloadScheduling and
PodGroupPreemptionPolicy. A line is one object, the changes made to it one after the other (merge patches, sent as whole
objects), and after each the answer: the object, or the causes of the refusal; also the row that ``kubectl get`` shows.
"""

from __future__ import annotations

import json
import re
import secrets
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from allotment.apiserver.patch.merge_patch import merge_patch

Obj = dict[str, Any]

FILE = Path(__file__).with_name("upstream.jsonl")
NAMESPACE = "recorded"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_TRANSITION = re.compile(r'("last(?:Phase)?TransitionTime": ")[^"]*')
_AGO = re.compile(r"(?<=\()\S+(?= ago\))")
_AGES = ("Age", "Created At", "Last Seen", "First Seen")


def cases() -> list[Obj]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def answer(code: int, reply: Obj) -> Obj:
    """What of a reply is compared: not what differs from run to run, nor the words of messages."""
    if code >= 400:
        causes = (reply.get("details") or {}).get("causes") or ()
        faults = sorted({f"{cause.get('field')}: {cause.get('reason')}" for cause in causes})
        return {"code": code, "reason": reply["reason"], "faults": faults}
    obj = json.loads(json.dumps(reply))
    metadata = obj["metadata"]
    uid = metadata["uid"]
    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        metadata.pop(name, None)
    text = json.dumps(without_nulls(obj)).replace(uid, "UID")
    return {"code": code, "object": json.loads(_TRANSITION.sub(r"\1TIME", text))}


def without_nulls(value: Any) -> Any:
    """Go writes null for some fields that are not there, and leaves others out when they are empty lists."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner not in (None, [])}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def shown(table: Obj, uid: str) -> Obj:
    """The columns of a table, and the cells of its first row but for ages."""
    columns = [
        f"{column['name']}|{column['type']}|{column['format']}|{column['priority']}"
        for column in table["columnDefinitions"]
    ]
    cells = [
        ""
        if name.split("|")[0] in _AGES
        else _AGO.sub("AGO", cell).replace(uid, "UID")
        if isinstance(cell, str)
        else cell
        for name, cell in zip(columns, table["rows"][0]["cells"], strict=True)
    ]
    return {"columns": columns, "cells": cells}


class Server:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._tls = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Obj | None = None, accept: str = "application/json") -> Any:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": accept,
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._tls) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


def record(server: Server) -> None:
    suffix = secrets.token_hex(3)  # a namespace once deleted stays, as no controller empties it
    namespace = f"{NAMESPACE}-{suffix}"
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    server.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    lines = []
    for case in cases():
        text = json.dumps(_recorded(server, json.loads(json.dumps(case).replace(NAMESPACE, namespace))))
        lines.append(text.replace(namespace, NAMESPACE))
    FILE.write_text("\n".join(lines) + "\n")


def _recorded(server: Server, case: Obj) -> Obj:
    obj, api_version = case["object"], case["object"]["apiVersion"]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    namespace = obj["metadata"].get("namespace")
    path = f"{root}/namespaces/{namespace}/{case['plural']}" if namespace else f"{root}/{case['plural']}"
    own = f"{path}/{obj['metadata']['name']}"
    if not namespace:
        server.ask("DELETE", own, {"gracePeriodSeconds": 0})
    code, reply = server.ask("POST", path, obj)
    recorded: Obj = {**case, "created": answer(code, reply)}
    if code >= 400:
        return recorded
    recorded["table"] = _shown(server, own)
    recorded["changes"] = []
    for change in case.get("changes", ()):
        _, current = server.ask("GET", own)
        target = f"{own}/{change['subresource']}" if change["subresource"] else own
        code, reply = server.ask("PUT", target, merge_patch(current, change["patch"]))
        made = {**change, "answer": answer(code, reply)}
        if code < 400 and change["subresource"] == "status":
            made["table"] = _shown(server, own)
        recorded["changes"].append(made)
    return recorded


def _shown(server: Server, path: str) -> Obj:
    _, table = server.ask("GET", f"{path}?includeObject=None", accept=TABLE)
    _, obj = server.ask("GET", path)
    return shown(table, obj["metadata"]["uid"])


if __name__ == "__main__":
    record(Server(*sys.argv[1:]))
