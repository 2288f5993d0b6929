"""explain, api-resources, api-versions, version, auth, and acting as somebody else."""

from __future__ import annotations

import re

import pytest

from tests.builders.plain import configmap
from tests.kubectl.command import Kubectl


def test_explain_a_kind(cluster: Kubectl) -> None:
    told = cluster("explain", "resourceclaim")
    assert re.search(r"KIND:\s+ResourceClaim", told)
    assert re.search(r"VERSION:\s+v1", told)
    assert re.search(r"spec\s+<ResourceClaimSpec>", told)


def test_explain_a_field(cluster: Kubectl) -> None:
    told = cluster("explain", "resourceclaim.spec.devices.requests")
    assert re.search(r"FIELD: requests <\[\]DeviceRequest>", told)
    assert "DESCRIPTION:" in told
    for field in ("exactly", "firstAvailable", "name"):
        assert re.search(rf"^  {field}\s+<", told, re.MULTILINE)


def test_explain_an_older_version(cluster: Kubectl) -> None:
    told = cluster("explain", "resourceclaim.spec.devices.requests", "--api-version=resource.k8s.io/v1beta1")
    assert re.search(r"deviceClassName\s+<string>", told)


def test_explain_recursively(cluster: Kubectl) -> None:
    told = cluster("explain", "pod.spec.containers", "--recursive")
    assert re.search(r"^ +imagePullPolicy\t<string>", told, re.MULTILINE)


def test_explain_what_is_not(cluster: Kubectl) -> None:
    assert 'field "nope" does not exist' in cluster("explain", "pod.spec.nope", code=1)


def test_api_resources(cluster: Kubectl) -> None:
    lines = cluster("api-resources", "--api-group=resource.k8s.io", "--no-headers").splitlines()
    rows = [line.split() for line in lines]
    assert ["resourceclaims", "resource.k8s.io/v1", "true", "ResourceClaim"] in rows
    assert ["resourceslices", "resource.k8s.io/v1", "false", "ResourceSlice"] in rows
    everything = cluster("api-resources", "-o", "name").split()
    assert {"pods", "nodes", "deployments.apps", "podgroups.scheduling.k8s.io"} <= set(everything)


def test_api_versions(cluster: Kubectl) -> None:
    found = cluster("api-versions").split()
    assert {
        "v1",
        "apps/v1",
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1beta2",
    } <= set(found)


def test_version_and_cluster_info(cluster: Kubectl) -> None:
    assert re.search(r"Server Version: v1\.37\.", cluster("version"))
    assert "is running at" in cluster("cluster-info")


def test_who_am_i(cluster: Kubectl) -> None:
    told = cluster("auth", "whoami")
    assert re.search(r"Username\s+admin", told)
    assert re.search(r"Groups\s+\[system:masters system:authenticated\]", told)
    told = cluster("auth", "whoami", "--as=alice", "--as-group=dev")
    assert re.search(r"Username\s+alice", told)
    assert re.search(r"Groups\s+\[dev system:authenticated\]", told)


@pytest.mark.parametrize(("who", "answer", "code"), [((), "yes", 0), (("--as=alice",), "no", 1)])
def test_can_i(kubectl: Kubectl, who: tuple[str, ...], answer: str, code: int) -> None:
    assert kubectl("auth", "can-i", "create", "pods", *who, code=code).split()[0] == answer


def test_what_can_i(kubectl: Kubectl) -> None:
    told = kubectl("auth", "can-i", "--list", "--as=alice")
    assert re.search(r"selfsubjectaccessreviews.authorization.k8s.io\s+\[\]\s+\[\]\s+\[create\]", told)


def test_acting_as_someone_who_may_not(kubectl: Kubectl) -> None:
    told = kubectl("get", "pods", "--as=alice", code=1)
    assert told == (
        'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        f'in the namespace "{kubectl.namespace}"\n'
    )


def test_acting_as_someone_who_may(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a"))
    kubectl("create", "rolebinding", "viewers", "--clusterrole=view", "--user=bob")
    assert kubectl("auth", "can-i", "get", "configmaps", "--as=bob").split()[0] == "yes"
    assert kubectl("get", "cm", "a", "-o", "name", "--as=bob") == "configmap/a\n"
    assert "is forbidden" in kubectl("delete", "cm", "a", "--as=bob", code=1)


def test_a_token_for_a_service_account(kubectl: Kubectl) -> None:
    token = kubectl("create", "token", "default").strip()
    told = kubectl("auth", "whoami", "--token", token)
    assert re.search(r"Username\s+(admin|system:serviceaccount:)", told)  # a certificate goes before a token
    assert token.count(".") == 2
