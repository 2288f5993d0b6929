"""What becomes of our own examples on the demo's fleet: a table, file by file, as the head of each file promises.

``also`` has the last word where devices and phases do not say all: amounts, reservations, objects that were made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.e2e.checks import (
    Check,
    both,
    consumed,
    distinct,
    given_back,
    nothing_more,
    ready,
    reserved_for,
    same,
    shares,
    with_admin_access,
)
from tests.e2e.outcome import EXTENDED, Wanted, pending, running

WEST = "[cfghk]*"  # cleo, fay, greta, hedy, kira
LARGE = "[adef]*"  # ada, dora, edda, fay: GPUs of 80Gi
PARTED = "[bh]e*"  # bea, hedy: GPUs that can be cut
UNPARTED = "[!bh]*"  # the others
CARDED = "[adef]*"  # those with network cards
GPU = "*/gpu-?"


@dataclass(frozen=True)
class Feature:
    """One file and the pods that it makes. ``refused`` is what kubectl says where the server is Kubernetes' own and has no
    such kind."""

    file: str
    pods: Mapping[str, Wanted]
    namespace: str = "default"
    also: Check = nothing_more
    refused: str = ""


FEATURES = (
    Feature(
        "admin-access",
        {"monitor": running("cleo", {"gpus/gpus": ["cleo/gpu-?"] * 8})},
        also=with_admin_access,
        namespace="monitoring",
    ),
    Feature(
        "binding-conditions", {"binding-conditions": running(WEST, {"gpu/gpu": ["west/gpu-?"]})}, also=ready
    ),
    Feature("cel-selector", {"cel-selector": running(LARGE, {"gpu/gpu": [GPU]})}),
    Feature(
        "device-taint-rule",
        {
            "flash": running("joan", {"card/card": ["joan/fpga-?"]}),
            "compute": pending(
                "0/12 nodes: 11 have no fpga-card; 1 has every matching fpga-card tainted "
                r"\(4 with taint example.com/maintenance=firmware:NoSchedule\)"
            ),
        },
    ),
    Feature(
        "device-taint",
        {
            "tolerant": running("ines", {"gpus/gpus": ["ines/gpu-?"] * 4}),
            "intolerant": pending(
                "0/12 nodes: 11 do not match the pod's node selector or affinity; 1 has 3 gpu, need 4 "
                r"\(besides 1 with taint example.com/unhealthy=memory-errors:NoSchedule\)"
            ),
        },
    ),
    Feature(
        "distinct-attribute",
        {"distinct-attribute": running("joan", {"cards/cards": ["joan/fpga-[01]", "joan/fpga-[23]"]})},
    ),
    Feature(
        "extended-resource",
        {
            "by-its-name": running("*", {EXTENDED: [GPU, GPU]}),
            "by-its-class": running("joan", {EXTENDED: ["joan/fpga-?"]}),
        },
    ),
    Feature("first-available", {"first-available": running("*", {"gpu/gpu/two-medium": [GPU, GPU]})}),
    Feature(
        "gang-claim",
        {"pair-1": running("*", {"gpu/gpu": [GPU]}), "pair-2": running("*", {"gpu/gpu": [GPU]})},
        also=both(same("pair-1", "pair-2"), reserved_for("podgroups", 1)),
    ),
    Feature(
        "gang",
        {f"gang-{n}": running(LARGE, {"gpus/gpus": [GPU, GPU]}) for n in (1, 2, 3)},
        also=distinct,
    ),
    Feature(
        "match-attribute",
        {"match-attribute": running(CARDED, {"devices/gpus": [GPU, GPU], "devices/net": ["*-net/eth?"]})},
    ),
    Feature(
        "partitions",
        {
            "partition-3": running(PARTED, {"part/part": ["*/gpu-?-3g-?"]}),
            "partition-2": running(PARTED, {"part/part": ["*/gpu-?-2g-?"]}),
        },
    ),
    Feature("run-and-finish", {"run-and-finish": Wanted("Succeeded", "*", {})}, also=given_back),
    Feature(
        "semantic-claim",
        {"semantic": running("lise", {"cards/claim": ["lise/card-1-quarters-quarter-?-*"] * 2})},
        refused='no matches for kind "ResourceClaimParameters" in version "resource.k8s.io/v1alpha2"',
    ),
    Feature("shared-across-containers", {"shared-containers": running("*", {"gpu/gpu": [GPU]})}),
    Feature(
        "shared-across-pods",
        {
            "shared-pods-1": running("*", {"gpu/gpu": [GPU]}),
            "shared-pods-2": running("*", {"gpu/gpu": [GPU]}),
        },
        also=both(same("shared-pods-1", "shared-pods-2"), reserved_for("pods", 2)),
    ),
    Feature(
        "shared-capacity",
        {
            "much-bandwidth": running(CARDED, {"net/net": ["*-net/eth?"]}),
            "some-bandwidth": running(CARDED, {"net/net": ["*-net/eth?"]}),
        },
        also=both(shares, consumed("bandwidth", "40G", "5G")),
    ),
    Feature("single-gpu", {"single-gpu": running(UNPARTED, {"gpu/gpu": [GPU]})}),
    Feature(
        "volcano-gang",
        {f"volcano-{n}": running("*", {"gpus/gpus": [GPU, GPU]}) for n in (1, 2)},
        also=distinct,
    ),
)

RAY = re.escape('`device.attributes["gpu.example.com"].model == "ray"`')
DEMO = Feature(
    "demo_workloads",
    {
        "notebook-1": running("*", {"gpu/gpu": [GPU]}),
        "notebook-2": running("*", {"gpu/gpu": [GPU]}),
        "chat-1": running("*", {"gpu/gpu": [GPU]}),
        "chat-2": running("*", {"gpu/gpu": [GPU]}),
        "parts": running(PARTED, {"parts/medium": ["*/gpu-?-3g-?"], "parts/small": ["*/gpu-?-1g-?"] * 2}),
        "stream-1": running(CARDED, {"net/net": ["*-net/eth?"]}),
        "stream-2": running(CARDED, {"net/net": ["*-net/eth?"]}),
        **{f"training-{n}": running(LARGE, {"gpus/gpus": [GPU] * 4}) for n in (1, 2, 3, 4)},
        "classic": running("*", {EXTENDED: [GPU]}),
        "inference": running("*", {"gpu/gpu": [GPU]}, count=3),
        "evaluation": Wanted("Succeeded", "*", {}, count=3),
        "early": running("lise", {"card/claim": ["lise/card-1-quarters-quarter-?-*"]}),
        "too-large": pending("0/12 nodes: 9 have only 40Gi to 80Gi gpu, need 96Gi; 3 have no gpu"),
        # nobody launches machines here
        "render": pending(
            f"0/12 nodes: 9 have no gpu with {RAY} \\(model=prism-40; model=titan-80\\); 3 have no gpu",
            count=3,
        ),
    },
    namespace="demo",
)
"""The demo's own workloads, all at once."""
