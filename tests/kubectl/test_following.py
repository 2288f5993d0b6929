"""wait and get -w: kubectl's two ways to follow what happens."""

from __future__ import annotations

from tests.builders.plain import configmap, pod
from tests.kubectl.command import Kubectl


def test_wait_for_a_condition(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("a"))
    told = kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=0s", code=1)
    assert "timed out" in told or "condition not met" in told
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    with kubectl.following("wait", "--for=condition=Ready", "pod/a", "--timeout=30s") as output:
        kubectl("patch", "pod", "a", "--subresource=status", "--type=merge", "-p", ready)
        assert output.readline() == "pod/a condition met\n"


def test_wait_for_a_value(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", k="1"))
    with kubectl.following("wait", "--for=jsonpath={.data.k}=2", "cm/a", "--timeout=30s") as output:
        kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"k":"2"}}')
        assert output.readline() == "configmap/a condition met\n"


def test_wait_for_deletion(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a"))
    with kubectl.following("wait", "--for=delete", "cm/a", "--timeout=30s") as output:
        kubectl("delete", "cm", "a")
        assert output.readline() in ("configmap/a condition met\n", "")


def test_get_and_watch(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", {"seen": "y"}))
    with kubectl.following("get", "cm", "-l", "seen", "-w", "--no-headers") as output:
        assert output.readline().split()[:2] == ["a", "0"]
        kubectl("create", "-f", "-", stdin=configmap("b", {"seen": "y"}, k="v"))
        assert output.readline().split()[:2] == ["b", "1"]
        kubectl("delete", "cm", "a")
        assert output.readline().split()[:2] == ["a", "0"]


def test_watch_with_the_kind_of_event(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", {"seen": "y"}))
    with kubectl.following(
        "get", "cm", "-l", "seen", "-w", "--output-watch-events", "--no-headers"
    ) as output:
        assert output.readline().split()[:2] == ["ADDED", "a"]
        kubectl("label", "cm", "a", "other=y")
        assert output.readline().split()[:2] == ["MODIFIED", "a"]
        kubectl("label", "cm", "a", "seen-")
        assert output.readline().split()[:2] == ["DELETED", "a"]


def test_watch_one_object_as_json(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", k="1"))
    with kubectl.following("get", "cm", "a", "-w", "-o", "jsonpath={.data.k}{'\\n'}") as output:
        assert output.readline() == "1\n"
        kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"k":"2"}}')
        assert output.readline() == "2\n"
