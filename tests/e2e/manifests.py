"""The manifests that end-to-end tests apply: the public example driver's demos beside the checkout, and our own examples."""

from __future__ import annotations

from typing import Any

import yaml

from tests.checkout import CHECKOUT
from tests.corpus import unavailable

DEMOS = CHECKOUT.parent / "shared" / "manifests"
FEATURES = CHECKOUT / "examples" / "features"
FLEET = CHECKOUT / "tests" / "manifests_fleet.yaml"
VOLCANO = CHECKOUT / "src" / "allotment" / "scheduler" / "volcano_crds.yaml"
DEMO = CHECKOUT / "src" / "allotment" / "daemons"
SEMANTIC = "resource.k8s.io/v1alpha2"

Obj = dict[str, Any]


def objects(text: str) -> list[Obj]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def demo(name: str) -> str:
    """The text of a demo as kubectl is given it. PodGroups are written for a version that is no longer served."""
    path = DEMOS / f"{name}.yaml"
    if not path.exists():
        unavailable(f"../shared/manifests/{path.name}")
    return path.read_text().replace("scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1")


def fleet(*profiles: str) -> list[Obj]:
    """Nodes, slices and classes for demos: those of these profiles, all if none is named. See the head of the file."""
    every = objects(FLEET.read_text())
    return [
        each
        for each in every
        if not profiles or each["metadata"].get("labels", {}).get("profile") in {None, *profiles}
    ]


def demo_fleet(real: bool) -> list[Obj]:
    """The fleet of ``allot up --demo``; on Kubernetes without the kinds of semantic parameters, which it does not have."""
    every = objects((DEMO / "demo_fleet.yaml").read_text())
    return [each for each in every if not (real and each["apiVersion"] == SEMANTIC)]


def demo_workloads(real: bool) -> str:
    """What arrives on that fleet, for kubectl; on Kubernetes without the pod whose claim is semantic."""
    every = objects((DEMO / "demo_workloads.yaml").read_text())
    return yaml.safe_dump_all(
        [
            each
            for each in every
            if not (real and (each["apiVersion"] == SEMANTIC or each["metadata"]["name"] == "early"))
        ]
    )
