"""create, apply, patch, edit, label, annotate, replace, delete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders.plain import claim, configmap, deployment, pod
from tests.kubectl.command import Kubectl


def test_create_from_flags(kubectl: Kubectl) -> None:
    """Typed commands: recent kubectls send protobuf."""
    assert kubectl("create", "configmap", "a", "--from-literal=k=v") == "configmap/a created\n"
    assert kubectl("create", "secret", "generic", "s", "--from-literal=k=v") == "secret/s created\n"
    assert kubectl("create", "serviceaccount", "x") == "serviceaccount/x created\n"
    assert (
        kubectl("create", "deployment", "d", "--image=i:1", "--replicas=2") == "deployment.apps/d created\n"
    )
    assert kubectl("create", "role", "r", "--verb=get", "--resource=pods").endswith("/r created\n")
    assert kubectl("create", "rolebinding", "b", "--role=r", "--user=u").endswith("/b created\n")
    assert kubectl("create", "quota", "q", "--hard=count/pods=5") == "resourcequota/q created\n"
    assert kubectl.json("get", "secret", "s")["data"] == {"k": "dg=="}
    assert kubectl.json("get", "deployment", "d")["spec"]["replicas"] == 2
    assert kubectl.json("get", "role", "r")["rules"][0]["verbs"] == ["get"]


def test_create_a_list(kubectl: Kubectl) -> None:
    """kubectl asks for OpenAPI 2 then, which has nothing to say on our server."""
    many = {"apiVersion": "v1", "kind": "List", "items": [configmap("a"), claim("c")]}
    created = "configmap/a created\nresourceclaim.resource.k8s.io/c created\n"
    assert kubectl("create", "-f", "-", stdin=many) == created
    listed = kubectl.json("get", "cm/a", "resourceclaims/c")
    assert [item["kind"] for item in listed["items"]] == ["ConfigMap", "ResourceClaim"]


def test_create_what_exists(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a"))
    told = kubectl("create", "-f", "-", stdin=configmap("a"), code=1)
    assert (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists'
        in told
    )


def test_create_with_a_typo_is_refused(kubectl: Kubectl) -> None:
    told = kubectl("create", "-f", "-", stdin={**configmap("a"), "dta": {}}, code=1)
    assert 'strict decoding error: unknown field "dta"' in told
    told = kubectl("create", "--validate=warn", "-f", "-", stdin={**configmap("a"), "dta": {}})
    assert told == 'Warning: unknown field "dta"\nconfigmap/a created\n'


def test_create_what_is_invalid(kubectl: Kubectl) -> None:
    told = kubectl("create", "-f", "-", stdin=claim("a", "Bad Name"), code=1)
    assert told.startswith(
        'The ResourceClaim "a" is invalid: spec.devices.requests[0].exactly.deviceClassName: Invalid value: "Bad Name": '
    )


@pytest.mark.parametrize("how", ["server", "client"])
def test_a_dry_run(kubectl: Kubectl, how: str) -> None:
    assert kubectl("create", f"--dry-run={how}", "-f", "-", stdin=configmap("a")).startswith(
        "configmap/a created ("
    )
    kubectl("get", "cm", "a", code=1)


def test_apply_twice_and_then_a_change(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=configmap("a", k="1", l="1")) == "configmap/a created\n"
    assert kubectl("apply", "-f", "-", stdin=configmap("a", k="1", l="1")) == "configmap/a unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=configmap("a", k="2")) == "configmap/a configured\n"
    assert kubectl.json("get", "cm", "a")["data"] == {"k": "2"}


def test_apply_of_claims_and_deployments(kubectl: Kubectl) -> None:
    sent = claim("a")
    assert kubectl("apply", "-f", "-", stdin=sent) == "resourceclaim.resource.k8s.io/a created\n"
    before = kubectl.json("get", "resourceclaim", "a")
    kubectl(
        "apply", "-f", "-", stdin=sent
    )  # kubectl sends a patch: requests are one value to it, and have defaults now
    assert kubectl.json("get", "resourceclaim", "a") == before
    sent["metadata"]["labels"] = {"x": "y"}
    assert kubectl("apply", "-f", "-", stdin=sent) == "resourceclaim.resource.k8s.io/a configured\n"
    kubectl("apply", "-f", "-", stdin=deployment("d", 1))
    assert kubectl("apply", "-f", "-", stdin=deployment("d", 3)) == "deployment.apps/d configured\n"
    assert kubectl.json("get", "deployment", "d")["spec"]["replicas"] == 3


def test_apply_prunes_what_is_no_longer_named(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        kubectl("apply", "-f", "-", stdin=labelled(name))
    told = kubectl("apply", "--prune", "-l", "of=us", "-f", "-", stdin=labelled("a"))
    assert "configmap/b pruned" in told
    assert kubectl("get", "cm", "-l", "of=us", "-o", "name") == "configmap/a\n"


def labelled(name: str) -> dict[str, Any]:
    sent = configmap(name)
    sent["metadata"]["labels"] = {"of": "us"}
    return sent


def test_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=configmap("a", k="1"))
    told = kubectl("diff", "-f", "-", stdin=configmap("a", k="2"), code=1)
    assert '-  k: "1"' in told
    assert '+  k: "2"' in told


def test_apply_on_the_servers_side_with_a_conflict(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, stdin=configmap("a", k="1")) == "configmap/a serverside-applied\n"
    assert kubectl(*apply, stdin=configmap("a", k="1")) == "configmap/a serverside-applied\n"
    other = ("--field-manager=other",)
    told = kubectl(*apply, *other, stdin=configmap("a", k="2"), code=1)
    assert 'error: Apply failed with 1 conflict: conflict with "kubectl": .data.k' in told
    kubectl(*apply, *other, "--force-conflicts", stdin=configmap("a", k="2"))
    assert kubectl.json("get", "cm", "a")["data"] == {"k": "2"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", {"data": {"k": None, "n": "1"}}),
        ("strategic", {"data": {"k": None, "n": "1"}}),
        ("json", [{"op": "remove", "path": "/data/k"}, {"op": "add", "path": "/data/n", "value": "1"}]),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: object) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", k="v"))
    assert kubectl("patch", "cm", "a", f"--type={kind}", "-p", json.dumps(patch)) == "configmap/a patched\n"
    assert kubectl.json("get", "cm", "a")["data"] == {"n": "1"}
    told = kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"n":"1"}}')
    assert told == "configmap/a patched (no change)\n"


def test_patch_status(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    kubectl(
        "patch", "pod", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}'
    )
    assert kubectl.json("get", "pod", "a")["status"]["phase"] == "Running"


def test_set_image_and_scale(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=deployment("d"))
    assert kubectl("set", "image", "deployment/d", "main=i:2") == "deployment.apps/d image updated\n"
    assert kubectl("scale", "deployment/d", "--replicas=4") == "deployment.apps/d scaled\n"
    spec = kubectl.json("get", "deployment", "d")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (4, "i:2")


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a"))
    assert kubectl("label", "cm", "a", "x=1") == "configmap/a labeled\n"
    told = kubectl("label", "cm", "a", "x=2", code=1)
    assert "'x' already has a value (1), and --overwrite is false" in told
    kubectl("label", "cm", "a", "x=2", "--overwrite")
    kubectl("annotate", "cm", "a", "y=z")
    meta = kubectl.json("get", "cm", "a")["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"x": "2"}, {"y": "z"})
    assert kubectl("label", "cm", "a", "x-") == "configmap/a unlabeled\n"


def test_replace_and_its_conflict(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", k="1"))
    stale = kubectl.json("get", "cm", "a")
    assert kubectl("replace", "-f", "-", stdin=configmap("a", k="2")) == "configmap/a replaced\n"
    told = kubectl("replace", "-f", "-", stdin={**stale, "data": {"k": "3"}}, code=1)
    assert "Error from server (Conflict)" in told
    assert (
        "the object has been modified; please apply your changes to the latest version and try again" in told
    )


def test_delete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[configmap("a", {"x": "1"}), configmap("b", {"x": "1"}), claim("c")])
    assert kubectl("delete", "resourceclaim", "c").startswith('resourceclaim.resource.k8s.io "c" deleted')
    told = kubectl("delete", "cm", "-l", "x=1").splitlines()
    assert [line.split()[:3] for line in told] == [
        ["configmap", '"a"', "deleted"],
        ["configmap", '"b"', "deleted"],
    ]
    assert 'configmaps "a" not found' in kubectl("delete", "cm", "a", code=1)
    kubectl("delete", "cm", "a", "--ignore-not-found")


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    held = configmap("a")
    held["metadata"]["finalizers"] = ["a.io/x"]
    kubectl("create", "-f", "-", stdin=held)
    kubectl("delete", "cm", "a", "--wait=false")
    assert "deletionTimestamp" in kubectl.json("get", "cm", "a")["metadata"]
    told = kubectl("delete", "cm", "a", "--timeout=1s", code=1)
    assert "timed out waiting for the condition" in told
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", "cm/a", "--timeout=30s")


def test_delete_a_pod_by_force(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a", nodeName="n1"))
    kubectl("delete", "pod", "a", "--force", "--grace-period=0")
    kubectl("get", "pod", "a", code=1)


def test_create_a_namespace_and_delete_it_with_what_is_in_it(cluster: Kubectl, fresh: str) -> None:
    assert cluster("create", "namespace", fresh) == f"namespace/{fresh} created\n"
    inside = cluster.within(fresh)
    inside("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    inside("create", "-f", "-", stdin=[configmap("a"), pod("p"), claim("c")])
    assert cluster("delete", "namespace", fresh, "--timeout=60s").startswith(f'namespace "{fresh}" deleted')
    assert "not found" in cluster("get", "namespace", fresh, code=1)
