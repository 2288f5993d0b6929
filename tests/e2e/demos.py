"""What becomes of each manifest of the public example driver's demos: a table.

A demo is one file, or several that are applied one after the other; after each, all pods of the namespace are as its line says.
``profile`` is the setting of the driver that the demo's own text asks for (see ``tests/manifests_fleet.yaml``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.e2e.checks import (
    Check,
    both,
    configured,
    consumed,
    distinct,
    nothing_more,
    one_each,
    ready,
    same,
    shares,
    taken_from_nodes,
    with_admin_access,
)
from tests.e2e.outcome import EXTENDED, Wanted, pending, running

GPU = "gpu-?/gpu-?"
TAINTS = "device-taints-tolerations_device-taint-"
TAINTED = "basic-resourceclaimtemplate"
"""The namespace of all demos of taints."""


@dataclass(frozen=True)
class Step:
    """One file, and what the pods of its namespace are then. ``refused``: why kubectl does not take it as it is."""

    file: str
    pods: Mapping[str, Wanted]
    refused: str = ""


@dataclass(frozen=True)
class Demo:
    """``also`` is what else holds at the end, and must be true."""

    namespace: str
    steps: tuple[Step, ...]
    profile: str = "gpu"
    also: Check = nothing_more

    @property
    def name(self) -> str:
        return self.steps[0].file.removeprefix(TAINTS).partition("_")[0]


def single(name: str, pods: Mapping[str, Wanted], **more: object) -> Demo:
    """A demo of one file, whose name and namespace are the demo's."""
    return Demo(name, (Step(f"{name}_{name}", pods),), **more)  # type: ignore[arg-type]  # passed on


GPU_TAINTED = r"0/4 nodes: 4 have every matching gpu.example.com tainted \(\d+ with taint [\w./:=-]+\)"

DEMOS = (
    single(
        "admin-access",
        {"pod0": running("gpu-?", {"admin-gpus/admin-gpu": [GPU] * 8})},
        also=with_admin_access,
    ),
    single(
        "basic-multiple-requests",
        {"pod0": running("gpu-?", {"gpus/gpu-1": [GPU], "gpus/gpu-2": [GPU]})},
        also=distinct,
    ),
    single(
        "basic-resourceclaim-opaque-config",
        {"pod0": running("gpu-?", {"shared-gpus/ts-gpu": [GPU], "shared-gpus/sp-gpu": [GPU]})},
        also=both(distinct, configured("ts-gpu", "sp-gpu")),
    ),
    single(
        "basic-resourceclaimtemplate",
        {"pod0": running("gpu-?", {"gpu/gpu": [GPU]}), "pod1": running("gpu-?", {"gpu/gpu": [GPU]})},
        also=distinct,
    ),
    single("basic-shared-claim-across-containers", {"pod0": running("gpu-?", {"shared-gpu/gpu": [GPU]})}),
    single(
        "basic-shared-claim-across-pods",
        {
            "pod0": running("gpu-?", {"shared-gpu/gpu": [GPU]}),
            "pod1": running("gpu-?", {"shared-gpu/gpu": [GPU]}),
        },
        also=same("pod0", "pod1"),
    ),
    single(
        "binding-conditions",
        {"pod0": running("gpu-binding", {"gpu/gpu": ["gpu-binding/gpu-?"]})},
        profile="gpu-binding",
        also=ready,
    ),
    single("cel-selector", {"pod0": running("gpu-?", {"gpu/gpu": [GPU]})}),
    Demo(
        TAINTED,
        (
            Step(
                f"{TAINTS}configurable-pod-eviction-time_1-basic-resourceclaimtemplate",
                {
                    "pod-no-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                    "pod-with-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                    "pod-with-300s-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                },
            ),
            Step(  # the last one for five minutes more, for which no test waits
                f"{TAINTS}configurable-pod-eviction-time_2-device-taint-rule",
                {
                    "pod-with-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                    "pod-with-300s-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                },
            ),
        ),
        also=distinct,
    ),
    Demo(
        TAINTED,
        (
            Step(f"{TAINTS}pod-noexecute_1-basic-resourceclaimtemplate", {}),
            Step(
                f"{TAINTS}pod-noexecute_2-pod-to-be-evicted",
                {"pod-to-be-evicted": running("gpu-?", {"gpu/gpu": [GPU]})},
            ),
            Step(f"{TAINTS}pod-noexecute_3-device-taint-rule", {}),
            Step(  # the demo says that it is scheduled and killed; Kubernetes 1.37 does not schedule it, and nor do we
                f"{TAINTS}pod-noexecute_4-pod-no-execute", {"pod-no-execute": pending(GPU_TAINTED)}
            ),
        ),
    ),
    Demo(
        TAINTED,
        (
            Step(f"{TAINTS}pod-noschedule_1-basic-resourceclaimtemplate", {}),
            Step(
                f"{TAINTS}pod-noschedule_2-pod-keeps-running",
                {"pod-keeps-running": running("gpu-?", {"gpu/gpu": [GPU]})},
            ),
            Step(
                f"{TAINTS}pod-noschedule_3-device-taint-rule",
                {"pod-keeps-running": running("gpu-?", {"gpu/gpu": [GPU]})},
            ),
            Step(
                f"{TAINTS}pod-noschedule_4-pod-not-scheduled",
                {
                    "pod-keeps-running": running("gpu-?", {"gpu/gpu": [GPU]}),
                    "pod-no-schedule": pending(GPU_TAINTED),
                },
                refused="apiVersion not set",
            ),
        ),
    ),
    Demo(
        TAINTED,
        (
            Step(f"{TAINTS}pod-toleration_1-device-taint-rule", {}),
            Step(
                f"{TAINTS}pod-toleration_2-basic-resourceclaimtemplate",
                {
                    "pod-without-toleration": pending(GPU_TAINTED),
                    "pod-with-toleration": running("gpu-?", {"gpu/gpu": [GPU]}),
                },
            ),
        ),
    ),
    single(
        "extended-resource-request",
        {"pod0": running("gpu-?", {EXTENDED: [GPU]}), "pod1": running("gpu-?", {EXTENDED: [GPU]})},
        also=distinct,
    ),
    single(
        "gpu-allow-multiple-allocations",
        {
            "pod0": running("gpu-shared", {"gpu/gpu": ["gpu-shared/gpu-?"]}),
            "pod1": running("gpu-shared", {"gpu/gpu": ["gpu-shared/gpu-?"]}),
        },
        profile="gpu-shared",
        also=both(same("pod0", "pod1"), shares, consumed("memory", "16Gi", "16Gi")),
    ),
    single(
        "gpu-allow-multiple-allocations-partitionable",
        {
            "pod0": running(
                "gpu-shared-partitions", {"gpu/gpu": ["gpu-shared-partitions/gpu-?-partition-?"]}
            ),
            "pod1": running(
                "gpu-shared-partitions", {"gpu/gpu": ["gpu-shared-partitions/gpu-?-partition-?"]}
            ),
        },
        profile="gpu-shared-partitions",
        also=both(same("pod0", "pod1"), shares, consumed("compute", "10", "10")),
    ),
    single("initcontainer-shared-gpu", {"pod0": running("gpu-?", {"shared-gpu/gpu": [GPU]})}),
    single(
        "native-resource-request",
        {"pod0": running("cpu", {"cpus/cpu0": ["cpu/numa-?"], "cpus/cpu1": ["cpu/numa-?"]})},
        profile="cpu",
        also=taken_from_nodes("cpu", "2"),
    ),
    single(
        "net-consumable-capacity",
        {
            "pod0": running("net", {"nic/nic": ["net/eth0"]}),
            "pod1": running("net", {"nic/nic": ["net/eth0"]}),
        },
        profile="net",
        also=both(shares, consumed("ingressBandwidth", "10G", "5G"), consumed("egressBandwidth", "5G", "5G")),
    ),
    single(
        "partitionable-devices",
        {
            "pod0": running(
                "gpu-partitions", {"gpu-partitions/gpu-partition": ["gpu-partitions/gpu-?-partition-?"] * 2}
            )
        },
        profile="gpu-partitions",
        also=distinct,
    ),
    single(
        "podgroup-resourceclaimtemplate",
        {
            "group-1": running("gpu-?", {"gpu/gpu": [GPU]}, count=2),
            "group-2": running("gpu-?", {"gpu/gpu": [GPU]}, count=2),
        },
        also=one_each,
    ),
    single(
        "prioritized-alternatives",
        {
            "pod0": running("gpu-?", {"gpu/gpu/older-gpu": [GPU]}),
            "pod1": running("gpu-?", {"gpu/gpu/latest-gpu": [GPU]}),
        },
        also=distinct,
    ),
)
