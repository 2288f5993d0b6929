"""What is served, as clients find out: per group, aggregated, and the server's version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def resources(api: Api, path: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in api.get(path).must()["resources"]}


def test_the_core_versions(api: Api) -> None:
    told = api.get("/api").must()
    assert (told["kind"], told["versions"]) == ("APIVersions", ["v1"])


def test_the_groups(api: Api) -> None:
    told = api.get("/apis").must()
    assert told["kind"] == "APIGroupList"
    groups = {group["name"]: group for group in told["groups"]}
    assert set(groups) >= {
        "apps",
        "batch",
        "policy",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "rbac.authorization.k8s.io",
        "coordination.k8s.io",
        "scheduling.k8s.io",
        "resource.k8s.io",
        "apiextensions.k8s.io",
    }
    assert groups["resource.k8s.io"]["preferredVersion"] == {
        "groupVersion": "resource.k8s.io/v1",
        "version": "v1",
    }


def test_one_group(api: Api) -> None:
    told = api.get("/apis/resource.k8s.io").must()
    assert (told["kind"], told["name"]) == ("APIGroup", "resource.k8s.io")
    assert told["versions"][0] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}
    assert [each["version"] for each in told["versions"]][:3] == ["v1", "v1beta2", "v1beta1"]


def test_a_version_of_a_group(api: Api) -> None:
    path = "/apis/resource.k8s.io/v1"
    told = api.get(path).must()
    assert (told["kind"], told["groupVersion"]) == ("APIResourceList", "resource.k8s.io/v1")
    found = resources(api, path)
    assert set(found) == {
        "deviceclasses",
        "devicetaintrules",
        "devicetaintrules/status",
        "resourceclaims",
        "resourceclaims/status",
        "resourceclaimtemplates",
        "resourceslices",
    }
    claims = found["resourceclaims"]
    assert (claims["kind"], claims["singularName"], claims["namespaced"]) == (
        "ResourceClaim",
        "resourceclaim",
        True,
    )
    assert claims["verbs"] == ALL
    assert found["resourceclaims/status"]["verbs"] == ["get", "patch", "update"]
    assert found["resourceslices"]["namespaced"] is False


NAMES = {
    "pods": ("Pod", ["po"], ["all"]),
    "nodes": ("Node", ["no"], None),
    "namespaces": ("Namespace", ["ns"], None),
    "configmaps": ("ConfigMap", ["cm"], None),
    "secrets": ("Secret", None, None),
    "serviceaccounts": ("ServiceAccount", ["sa"], None),
    "events": ("Event", ["ev"], None),
    "resourcequotas": ("ResourceQuota", ["quota"], None),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_core_kinds(api: Api, name: str) -> None:
    kind, short, categories = NAMES[name]
    found = resources(api, "/api/v1")[name]
    assert (found["kind"], found.get("shortNames"), found.get("categories")) == (kind, short, categories)


@pytest.mark.parametrize(
    ("path", "name", "short"),
    [
        ("/apis/apps/v1", "deployments", ["deploy"]),
        ("/apis/apps/v1", "replicasets", ["rs"]),
        ("/apis/networking.k8s.io/v1", "ingresses", ["ing"]),
        ("/apis/policy/v1", "poddisruptionbudgets", ["pdb"]),
        ("/apis/scheduling.k8s.io/v1", "priorityclasses", ["pc"]),
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", ["crd", "crds"]),
    ],
)
def test_short_names_in_groups(api: Api, path: str, name: str, short: list[str]) -> None:
    assert resources(api, path)[name]["shortNames"] == short


def test_subresources_with_a_kind_of_their_own(api: Api) -> None:
    core = resources(api, "/api/v1")
    assert (core["pods/binding"]["kind"], core["pods/binding"]["verbs"]) == ("Binding", ["create"])
    assert [core["pods/eviction"][key] for key in ("group", "version", "kind")] == [
        "policy",
        "v1",
        "Eviction",
    ]
    token = core["serviceaccounts/token"]
    assert [token[key] for key in ("group", "version", "kind")] == [
        "authentication.k8s.io",
        "v1",
        "TokenRequest",
    ]
    scale = resources(api, "/apis/apps/v1")["deployments/scale"]
    assert [scale[key] for key in ("group", "version", "kind")] == ["autoscaling", "v1", "Scale"]


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_everything_at_once(api: Api, path: str) -> None:
    reply = api.get(path, headers={"Accept": f"{AGGREGATED},application/json"})
    told = reply.must(200)
    assert reply.header("content-type") == AGGREGATED
    assert (told["kind"], told["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    for group in told["items"]:
        for version in group["versions"]:
            assert version["resources"], (
                f"{group['metadata']}/{version['version']} would defeat kubectl's cache"
            )
            assert version["freshness"] == "Current"


def test_a_kind_in_aggregated_form(api: Api) -> None:
    told = api.get("/apis", headers={"Accept": AGGREGATED}).must()
    (group,) = [each for each in told["items"] if each["metadata"]["name"] == "resource.k8s.io"]
    assert group["versions"][0]["version"] == "v1"
    (claims,) = [each for each in group["versions"][0]["resources"] if each["resource"] == "resourceclaims"]
    assert claims["responseKind"]["kind"] == "ResourceClaim"
    assert (claims["scope"], claims["singularResource"], claims["verbs"]) == (
        "Namespaced",
        "resourceclaim",
        ALL,
    )
    (status,) = claims["subresources"]
    assert (status["subresource"], status["verbs"]) == ("status", ["get", "patch", "update"])


def test_the_version(api: Api) -> None:
    told = api.get("/version").must()
    assert (told["major"], told["minor"]) == ("1", "37")
    assert told["gitVersion"].startswith("v1.37.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(api: Api, path: str) -> None:
    reply = api.get(path)
    assert (reply.status, reply.body) == (200, b"ok")
