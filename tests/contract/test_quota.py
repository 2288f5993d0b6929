"""ResourceQuota: creations beyond a limit are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import claim
from tests.contract.api import Api


def limit(api: Api, namespace: str, **hard: str) -> None:
    """Sets a quota and waits until the server counts by it."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    spelled = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    api.post(path, {"metadata": {"name": "q"}, "spec": {"hard": spelled}}).must(201)
    with api.watch(f"{path}?fieldSelector=metadata.name=q") as events:
        events.until(lambda event: event["object"].get("status", {}).get("hard") == spelled)


def used(api: Api, namespace: str) -> Any:
    return api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/q").must()["status"]["used"]


def test_the_count_of_objects(api: Api, namespace: str) -> None:
    """Of secrets: config maps come by themselves in a new namespace, and may be counted late."""
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    limit(api, namespace, count__secrets="1")
    api.post(secrets, {"metadata": {"name": "a"}}).must(201)
    reply = api.post(secrets, {"metadata": {"name": "b"}})
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        'secrets "b" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1'
    )
    assert used(api, namespace) == {"count/secrets": "1"}


def test_what_goes_makes_room(api: Api, namespace: str, claims: str) -> None:
    limit(api, namespace, **{"count__resourceclaims.resource.k8s.io": "1"})
    api.post(claims, claim("a")).must(201)
    assert api.post(claims, claim("b")).status == 403
    api.delete(f"{claims}/a").must()
    api.eventually(lambda: api.post(claims, claim("b")).status == 201 or None, "room for another claim")


def test_devices_of_a_class(api: Api, namespace: str, claims: str) -> None:
    key = "gpu.example.com.deviceclass.resource.k8s.io/devices"
    limit(api, namespace, **{key: "3"})
    api.post(claims, claim("a", count=2)).must(201)
    reply = api.post(claims, claim("b", count=2))
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        f'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, requested: {key}=2, used: {key}=2, limited: {key}=3'
    )
    api.post(claims, claim("c", count=1)).must(201)


def test_a_dry_run_counts_but_keeps_nothing(api: Api, namespace: str, claims: str) -> None:
    limit(api, namespace, **{"count__resourceclaims.resource.k8s.io": "1"})
    api.post(f"{claims}?dryRun=All", claim("a")).must(201)
    api.post(claims, claim("a")).must(201)
    assert api.post(f"{claims}?dryRun=All", claim("b")).status == 403


@pytest.mark.parametrize("hard", [{"count/configmaps": "-1"}, {"count/configmaps": "1.5"}])
def test_limits_are_whole_and_not_negative(api: Api, namespace: str, hard: dict[str, str]) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    reply = api.post(path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert {cause["field"] for cause in reply.causes} == {"spec.hard[count/configmaps]"}
