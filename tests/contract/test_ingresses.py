"""Ingresses: what of them is refused, at which field, and what a list of them shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api

SERVICE = {"service": {"name": "web", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": SERVICE}
OTHER = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}}


def rule(host: str = "a.example.com", **change: Any) -> dict[str, Any]:
    return {"rules": [{"host": host, "http": {"paths": [{**PATH, **change}]}}]}


def backend(**change: Any) -> dict[str, Any]:
    return {"defaultBackend": {"service": {**SERVICE["service"], **change}}}


GOOD = {
    "a rule": rule(),
    "all subdomains": rule("*.example.com"),
    "no path, left to the implementation": rule(path="", pathType="ImplementationSpecific"),
    "a backend by the name of its port": backend(port={"name": "http"}),
    "a backend that is no service": {"defaultBackend": OTHER},
    "a rule without paths": {"rules": [{"host": "a.example.com"}]},
    "TLS": {**rule(), "tls": [{"hosts": ["a.example.com", "*.b.example.com"], "secretName": "s"}]},
}
PLACE = "spec.rules[0].http.paths[0]"
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, ["spec"]),
    "no paths": ({"rules": [{"http": {"paths": []}}]}, ["spec.rules[0].http.paths"]),
    "no path type": (rule(pathType=None), [f"{PLACE}.pathType"]),
    "an unknown path type": (rule(pathType="Regex"), [f"{PLACE}.pathType"]),
    "a relative path": (rule(path="a"), [f"{PLACE}.path"]),
    "an empty path": (rule(path=""), [f"{PLACE}.path"]),
    "a path with a way up": (rule(path="/a/../b"), [f"{PLACE}.path"]),
    "a path that ends in a way up": (rule(path="/a/.."), [f"{PLACE}.path"]),
    "an address for a host": (rule("10.0.0.1"), ["spec.rules[0].host"]),
    "a host that is no name": (rule("A_b"), ["spec.rules[0].host"]),
    "a star in the middle": (rule("a.*.com"), ["spec.rules[0].host"]),
    "a star alone": (rule("*"), ["spec.rules[0].host"]),
    "no backend": (rule(backend={}), [f"{PLACE}.backend"]),
    "two backends": (rule(backend={**SERVICE, **OTHER}), [f"{PLACE}.backend"]),
    "no name": (backend(name=""), ["spec.defaultBackend.service.name"]),
    "a bad name": (backend(name="Web"), ["spec.defaultBackend.service.name"]),
    "no port": (backend(port={}), ["spec.defaultBackend"]),
    "two ports": (backend(port={"name": "http", "number": 80}), ["spec.defaultBackend"]),
    "a port too high": (backend(port={"number": 65536}), ["spec.defaultBackend.service.port.number"]),
    "a bad host of TLS": ({**rule(), "tls": [{"hosts": ["A_b"]}]}, ["spec.tls[0].hosts[0]"]),
}


def path(namespace: str) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_what_is_taken(api: Api, namespace: str, spec: dict[str, Any]) -> None:
    made = api.post(path(namespace), {"metadata": {"name": "a"}, "spec": spec}).must(201)
    assert made["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(("spec", "fields"), BAD.values(), ids=BAD)
def test_what_is_refused(api: Api, namespace: str, spec: dict[str, Any], fields: list[str]) -> None:
    reply = api.post(path(namespace), {"metadata": {"name": "a"}, "spec": spec})
    causes = {cause["field"] for cause in reply.must(422)["details"]["causes"]}
    assert sorted(causes) == fields


def test_a_list_shows_the_first_hosts(api: Api, namespace: str) -> None:
    rules = [{"host": f"{name}.example.com"} for name in "abcde"]
    spec = {"ingressClassName": "c", "rules": rules, "tls": [{"hosts": ["a.example.com"]}]}
    api.post(path(namespace), {"metadata": {"name": "a"}, "spec": spec}).must(201)
    table = api.get(path(namespace), headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json
    hosts = "a.example.com,b.example.com,c.example.com + 2 more..."
    assert table["rows"][0]["cells"][:-1] == ["a", "c", hosts, "", "80, 443"]
