"""dryRun=All goes the whole way and stores nothing."""

from __future__ import annotations

from tests.builders.plain import claim, configmap
from tests.contract.api import Api


def test_create(api: Api, configmaps: str) -> None:
    made = api.post(f"{configmaps}?dryRun=All", configmap("a", k="v")).must(201)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert api.get(f"{configmaps}/a").status == 404


def test_create_is_validated_and_defaulted(api: Api, claims: str) -> None:
    made = api.post(f"{claims}?dryRun=All", claim("a")).must(201)
    assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert api.post(f"{claims}?dryRun=All", claim("a", "Bad Name")).status == 422


def test_create_of_what_exists(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    assert api.post(f"{configmaps}?dryRun=All", configmap("a")).status == 409


def test_update(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="1")).must(201)
    told = api.put(f"{configmaps}/a?dryRun=All", configmap("a", k="2")).must(200)
    assert told["data"] == {"k": "2"}
    assert told["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert api.get(f"{configmaps}/a").must() == made


def test_delete(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    assert api.delete(f"{configmaps}/a?dryRun=All").must(200)["status"] == "Success"
    assert api.delete(f"{configmaps}/a", {"dryRun": ["All"]}).must(200)["status"] == "Success"
    assert api.get(f"{configmaps}/a").must() == made


def test_anything_else_is_refused(api: Api, configmaps: str) -> None:
    reply = api.post(f"{configmaps}?dryRun=Some", configmap("a"))
    assert (reply.status, reply.message) == (
        422,
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    )


def test_a_field_manager_that_is_too_long(api: Api, configmaps: str) -> None:
    reply = api.post(f"{configmaps}?fieldManager={'x' * 200}", configmap("a"))
    assert (reply.status, reply.message) == (
        422,
        'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
    )
