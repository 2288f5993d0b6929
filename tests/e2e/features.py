"""What becomes of our own examples on the demo's fleet: a table, file by file, as the head of each file promises.

``also`` has the last word where devices and phases do not say all: amounts, reservations, objects that were made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceClaim
from tests.e2e.demos import distinct, same
from tests.e2e.outcome import EXTENDED, Outcomes, Wanted, pending, running
from tests.e2e.plane import Plane

WEST = "[cfghk]*"  # cleo, fay, greta, hedy, kira
LARGE = "[adef]*"  # ada, dora, edda, fay: GPUs of 80Gi
PARTED = "[bh]e*"  # bea, hedy: GPUs that can be cut
CARDED = "[adef]*"  # those with network cards
GPU = "*/gpu-?"


@dataclass(frozen=True)
class Feature:
    """One file and the pods that it makes. ``refused`` is what kubectl says where the server is Kubernetes' own and has no
    such kind."""

    file: str
    pods: Mapping[str, Wanted]
    namespace: str = "default"
    also: Callable[[Plane, Outcomes], bool] = lambda plane, found: True
    refused: str = ""


def claims(plane: Plane, namespace: str = "default") -> list[ResourceClaim]:
    return [claim for claim in plane.claims.all() if claim.metadata.namespace == namespace]


def shared_for(kind: str, users: int) -> Callable[[Plane, Outcomes], bool]:
    """The one claim there is has so many users of a kind."""

    def check(plane: Plane, found: Outcomes) -> bool:
        (claim,) = claims(plane)
        return [each.resource for each in claim.status.reserved_for] == [kind] * users

    return check


def bandwidths(plane: Plane, found: Outcomes) -> bool:
    consumed = [
        result.consumed_capacity["bandwidth"]
        for claim in claims(plane)
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    ]
    return sorted(consumed) == [Quantity.parse("5G"), Quantity.parse("40G")]


def given_back(plane: Plane, found: Outcomes) -> bool:
    """The one claim is deallocated; that it is deleted too is as good."""
    return plane.until(
        lambda: not any(claim.status.allocation or claim.status.reserved_for for claim in claims(plane)),
        "the device of a pod that ended is given back",
    )


def one_place(plane: Plane, found: Outcomes) -> bool:
    return same("shared-pods-1", "shared-pods-2")(found) and shared_for("pods", 2)(plane, found)


def of_the_pair(plane: Plane, found: Outcomes) -> bool:
    return same("pair-1", "pair-2")(found) and shared_for("podgroups", 1)(plane, found)


FEATURES = (
    Feature(
        "admin-access",
        {"monitor": running("cleo", {"gpus/gpus": ["cleo/gpu-?"] * 8})},
        namespace="monitoring",
    ),
    Feature("binding-conditions", {"binding-conditions": running(WEST, {"gpu/gpu": ["west/gpu-?"]})}),
    Feature("cel-selector", {"cel-selector": running(LARGE, {"gpu/gpu": [GPU]})}),
    Feature(
        "device-taint-rule",
        {
            "flash": running("joan", {"card/card": ["joan/fpga-?"]}),
            "compute": pending("0/12 nodes: 11 have no fpga-card, 1 has every matching fpga-card tainted"),
        },
    ),
    Feature(
        "device-taint",
        {
            "tolerant": running("ines", {"gpus/gpus": ["ines/gpu-?"] * 4}),
            "intolerant": pending(
                "0/12 nodes: 11 do not match the pod's node selector or affinity, 1 has 3 gpu, need 4"
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
        also=of_the_pair,
    ),
    Feature(
        "gang",
        {f"gang-{n}": running(LARGE, {"gpus/gpus": [GPU, GPU]}) for n in (1, 2, 3)},
        also=lambda _, found: distinct(found),
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
        "seed0-claim",
        {"seed0": running("lise", {"cards/claim": ["lise/card-1-quarters-quarter-?-*"] * 2})},
        refused='no matches for kind "ResourceClaimParameters" in version "resource.k8s.io/v1alpha2"',
    ),
    Feature("shared-across-containers", {"shared-containers": running("*", {"gpu/gpu": [GPU]})}),
    Feature(
        "shared-across-pods",
        {
            "shared-pods-1": running("*", {"gpu/gpu": [GPU]}),
            "shared-pods-2": running("*", {"gpu/gpu": [GPU]}),
        },
        also=one_place,
    ),
    Feature(
        "shared-capacity",
        {
            "much-bandwidth": running(CARDED, {"net/net": ["*-net/eth?"]}),
            "some-bandwidth": running(CARDED, {"net/net": ["*-net/eth?"]}),
        },
        also=bandwidths,
    ),
    Feature("single-gpu", {"single-gpu": running("*", {"gpu/gpu": [GPU]})}),
    Feature(
        "volcano-gang",
        {f"volcano-{n}": running("*", {"gpus/gpus": [GPU, GPU]}) for n in (1, 2)},
        also=lambda _, found: distinct(found),
    ),
)

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
        "too-large": pending(
            "0/12 nodes: 5 have only 40Gi gpu, need 96Gi, 4 have only 80Gi gpu, need 96Gi, 3 have no gpu"
        ),
    },
    namespace="demo",
)
"""The demo's own workloads, all at once."""
