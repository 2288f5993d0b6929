"""Overlays, pools and groups with kubectl: native on ours, defined by ``autoscaler/crds.yaml`` on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from tests.checkout import CHECKOUT
from tests.kubectl.command import Kubectl

DEFINITIONS = str(files("allotment.autoscaler") / "crds.yaml")
EXAMPLES = CHECKOUT / "examples" / "autoscaling"


@pytest.fixture(scope="module")
def machines(cluster: Kubectl) -> Iterator[Kubectl]:
    """A cluster that has the kinds. Ours had them before and keeps its own."""
    cluster("apply", "-f", DEFINITIONS)
    cluster("wait", "--for=condition=Established", "--timeout=30s", "-f", DEFINITIONS)
    yield cluster
    cluster("delete", "-f", DEFINITIONS)


def overlay(name: str, **template: Any) -> dict[str, Any]:
    spec = {"driver": "gpu.example.com", "devices": [{"name": "gpu-0"}], **template}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {
            "weight": 7,
            "price": "1.5",
            "dynamicResources": {"resourceSliceTemplates": [{"spec": spec}]},
        },
    }


def test_the_examples_are_accepted(machines: Kubectl) -> None:
    made = machines("apply", "-f", str(EXAMPLES / "overlays.yaml"))
    assert "nodeoverlay.karpenter.sh/h100-with-nics created" in made
    again = machines("apply", "-f", str(EXAMPLES / "overlays.yaml"))
    assert again.count("unchanged") == made.count("created") == 4
    catalogue = yaml.safe_load_all((EXAMPLES / "catalogue.yaml").read_text())
    served = [each for each in catalogue if each["kind"] != "InstanceType"]  # those are in files only
    assert machines("create", "-f", "-", stdin=served).count("created") == 3
    headings, cells = (line.split() for line in machines("get", "nodegroup", "fpga-rack").splitlines())
    assert headings[:5] == ["NAME", "MIN", "MAX", "SIZE", "PRICE"]
    assert cells[:3] == ["fpga-rack", "0", "4"]
    machines("delete", "-f", "-", stdin=served)
    machines("delete", "-f", str(EXAMPLES / "overlays.yaml"))


def test_an_overlay_at_a_glance(machines: Kubectl, fresh: str) -> None:
    machines("create", "-f", "-", stdin=overlay(fresh))
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Conflict",
        "message": "m1: price: overlay other has the same weight",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    patch = json.dumps({"status": {"conditions": [condition]}, "spec": {"weight": 8}})
    machines("patch", "nodeoverlay", fresh, "--subresource=status", "--type=merge", "-p", patch)
    [headings, cells] = [
        line.split() for line in machines("get", "overlays", fresh, "-o", "wide").splitlines()
    ]
    assert headings[:5] == ["NAME", "READY", "AGE", "WEIGHT", "PRICE"]
    assert (cells[0], cells[1], cells[3], cells[4]) == (
        fresh,
        "False",
        "7",
        "1.5",
    )  # a status changes no spec
    found = machines.json("get", "nodeoverlay", fresh)
    assert found["metadata"]["generation"] == 1
    machines("patch", "nodeoverlay", fresh, "--type=merge", "-p", '{"spec":{"weight":9}}')
    assert machines.json("get", "nodeoverlay", fresh)["metadata"]["generation"] == 2
    assert "overlay other has the same weight" in machines("describe", "nodeoverlay", fresh)
    machines("delete", "nodeoverlay", fresh)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"nodeName": "n"}, "the node does not exist yet"),
    ({"pool": {"name": "p"}}, "no plan depends on them"),
    ({"perDeviceNodeSelection": True}, "one template for each set of nodes"),
    ({"devices": [{"name": "d", "nodeName": "n"}]}, "the template says which nodes reach its devices"),
    ({"devices": [{"name": "d", "bindingConditions": ["c"]}]}, "waits for before a pod starts"),
    ({"devices": [{"name": f"d{number}"} for number in range(129)]}, "128"),
    ({"nodeSelector": {"nodeSelectorTerms": [{"matchLabelKeys": ["a"]}] * 2}}, "nodeSelectorTerms"),
]


def test_what_a_template_cannot_have_is_refused_with_the_reason(machines: Kubectl, fresh: str) -> None:
    wrong = [overlay(f"{fresh}-{number}", **field) for number, (field, _) in enumerate(REFUSED)]
    told = machines("create", "-f", "-", stdin=wrong, code=1)
    assert told.count(" is invalid: ") == len(REFUSED)
    assert told.count("resourceSliceTemplates[0].spec") >= len(REFUSED)
    assert [words for _, words in REFUSED if words not in told] == []


def test_a_claim_on_a_machine_does_not_change(machines: Kubectl, fresh: str) -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": fresh, "labels": {"node.kubernetes.io/instance-type": "m1"}},
        "spec": {"requirements": [{"key": "zone", "operator": "In", "values": ["a"]}]},
    }
    machines("create", "-f", "-", stdin=claim)
    assert machines("get", "nodeclaims", fresh, "--no-headers").split()[:2] == [fresh, "m1"]
    changed = '{"spec":{"requirements":[]}}'
    told = machines("patch", "nodeclaim", fresh, "--type=merge", "-p", changed, code=1)
    assert "field is immutable" in told
    machines("delete", "nodeclaim", fresh)


def test_the_fields_are_explained(machines: Kubectl) -> None:
    told = machines("explain", "nodeoverlay.spec.dynamicResources.resourceSliceTemplates.spec.nodeSelector")
    assert "nodeSelectorTerms" in told
    assert "bindingKey" in machines("explain", "nodeoverlay", "--recursive")
