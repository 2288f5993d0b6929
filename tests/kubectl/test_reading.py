"""get in all its forms, and describe."""

from __future__ import annotations

import json
import re

import yaml

from tests.builders.plain import claim, configmap, pod, resource_slice
from tests.kubectl.command import Kubectl


def test_get_prints_a_table(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=claim("a"))
    lines = kubectl("get", "resourceclaims").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "AGE"]
    assert lines[1].split()[:2] == ["a", "pending"]


def test_get_by_short_name_and_label(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[configmap("a", {"x": "1"}), configmap("b", {"x": "2"})])
    assert kubectl("get", "cm", "-l", "x=1", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "-l", "x in (1,2)", "-o", "name") == "configmap/a\nconfigmap/b\n"
    assert kubectl("get", "cm", "--field-selector", "metadata.name=b", "-o", "name") == "configmap/b\n"


def test_get_nothing(kubectl: Kubectl) -> None:
    assert kubectl("get", "resourceclaims") == f"No resources found in {kubectl.namespace} namespace.\n"


def test_get_what_is_not_there(kubectl: Kubectl) -> None:
    told = kubectl("get", "cm", "nope", code=1)
    assert told == 'Error from server (NotFound): configmaps "nope" not found\n'
    assert "the server doesn't have a resource type" in kubectl("get", "nopes", code=1)


def test_get_wide(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a", nodeName="n1"))
    lines = kubectl("get", "pods", "-o", "wide").splitlines()
    assert re.split(r"\s{2,}", lines[0].strip()) == [
        *["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        *["IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
    ]
    assert lines[1].split()[0:4] == ["a", "0/1", "Pending", "0"]
    assert lines[1].split()[6] == "n1"


def test_get_json_and_yaml(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", k="v"))
    one = json.loads(kubectl("get", "cm", "a", "-o", "json"))
    assert (one["kind"], one["data"]) == ("ConfigMap", {"k": "v"})
    assert "managedFields" not in one["metadata"]  # kubectl hides them
    shown = json.loads(kubectl("get", "cm", "a", "-o", "json", "--show-managed-fields"))
    assert shown["metadata"]["managedFields"][0]["manager"] == "kubectl-create"
    assert yaml.safe_load(kubectl("get", "cm", "a", "-o", "yaml"))["data"] == {"k": "v"}


def test_get_jsonpath_and_custom_columns(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[configmap("a", k="1"), configmap("b", k="2")])
    path = "jsonpath={range .items[*]}{.metadata.name}={.data.k};{end}"
    assert kubectl("get", "cm", "a", "b", "-o", path) == "a=1;b=2;"
    columns = "custom-columns=NAME:.metadata.name,K:.data.k,NONE:.spec"
    lines = kubectl("get", "cm", "a", "b", "-o", columns).splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "K", "NONE"],
        ["a", "1", "<none>"],
        ["b", "2", "<none>"],
    ]


def test_get_several_kinds_and_all(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[pod("p"), configmap("a"), claim("c")])
    names = kubectl("get", "cm/a", "resourceclaims/c", "-o", "name").split()
    assert names == ["configmap/a", "resourceclaim.resource.k8s.io/c"]
    assert kubectl("get", "all", "-o", "name") == "pod/p\n"


def test_get_in_all_namespaces(kubectl: Kubectl, fresh: str) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", {"mark": fresh}))
    lines = kubectl("get", "cm", "-A", "-l", f"mark={fresh}").splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert lines[1].split()[:2] == [kubectl.namespace, "a"]


def test_get_in_pages(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[configmap(f"c{n}", {"page": "y"}) for n in range(5)])
    listed = kubectl("get", "cm", "-l", "page", "--chunk-size=2", "-o", "name").split()
    assert listed == [f"configmap/c{n}" for n in range(5)]


def test_get_sorted_and_labelled(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=[configmap("a", {"x": "2"}), configmap("b", {"x": "1"})])
    lines = kubectl(
        "get", "cm", "-l", "x", "--sort-by=.metadata.labels.x", "-L", "x", "--no-headers"
    ).splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [("b", "1"), ("a", "2")]


def test_get_raw(cluster: Kubectl) -> None:
    assert cluster("get", "--raw", "/readyz") == "ok"
    assert json.loads(cluster("get", "--raw", "/api"))["versions"] == ["v1"]


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=claim("a"))
    uid = kubectl("get", "resourceclaim", "a", "-o", "jsonpath={.metadata.uid}")
    about = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "a", "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {**about, "namespace": kubectl.namespace},
        "reason": "Tested",
        "message": "a word about the claim",
        "type": "Warning",
        "count": 2,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "tester"},
    }
    kubectl("create", "-f", "-", stdin=event)
    told = kubectl("describe", "resourceclaim", "a")
    assert re.search(r"Name:\s+a\n", told)
    assert re.search(r"Device Class Name:\s+gpu.example.com", told)
    assert re.search(r"Warning\s+Tested\s+.*tester\s+a word about the claim", told)


def test_describe_a_node_with_its_slices(cluster: Kubectl, fresh: str) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": fresh},
        "status": {"capacity": {"cpu": "4"}},
    }
    cluster("create", "-f", "-", stdin=[node, resource_slice(fresh, fresh)])
    told = cluster("describe", "node", fresh)
    assert re.search(rf"Name:\s+{fresh}\n", told)
    assert re.search(r"cpu:\s+4", told)


def test_describe_a_pod(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    told = kubectl("describe", "pod", "a")
    assert re.search(r"Status:\s+Pending", told)
    assert re.search(r"Image:\s+example.com/main:1", told)


def test_events(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": kubectl.namespace},
        "reason": "Tested",
        "note": "a word",
        "type": "Normal",
        "action": "Testing",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "t",
    }
    kubectl("create", "-f", "-", stdin=event)
    (line,) = kubectl("events", "--no-headers").splitlines()
    assert re.search(r"Normal\s+Tested\s+Pod/p\s+a word", line)
    assert re.search(r"Normal\s+Tested\s+pod/p\s+a word", kubectl("get", "events", "--no-headers"))
