"""What is counted about claims, from real objects."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from allotment.controllers.claims.metrics import ClaimNumbers, SemanticNumbers
from tests.controllers.claims.claim_objects import (
    NAMESPACE,
    claiming_pod,
    finalized_claim,
    give,
    semantic_spec,
)
from tests.controllers.cluster import Cluster, in_cluster

OLDER = "resource.k8s.io/v1alpha2"


def numbers(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_claims_by_state_and_source(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        registry = CollectorRegistry()
        part = cluster.component()
        ClaimNumbers(part.informers, registry)
        (user,) = await cluster.create(claiming_pod("p"))
        made = [finalized_claim(name) for name in ("pending", "ahead", "used", "extended")]
        made[2]["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "a"}
        made[3]["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        await cluster.create(*made)
        await give(cluster, "ahead")
        await give(cluster, "used", user)
        await part.start()
        family = "dynamic_resource_allocation_resource_claims"
        assert numbers(registry) == {
            f'{family}{{admin_access="false",allocated="false",source=""}}': 1,
            f'{family}{{admin_access="false",allocated="true",source=""}}': 1,
            f'{family}{{admin_access="false",allocated="true",source="resource_claim_template"}}': 1,
            f'{family}{{admin_access="false",allocated="false",source="extended_resource"}}': 1,
            'allotment_resource_claims{state="pending"}': 2,
            'allotment_resource_claims{state="allocated"}': 1,
            'allotment_resource_claims{state="reserved"}': 1,
        }

    in_cluster(tmp_path, scenario)


def test_semantic_parameters(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        registry = CollectorRegistry()
        part = cluster.component()
        SemanticNumbers(part.informers, registry, lambda group, kind: kind == "CardParameters")
        reference = {"apiGroup": "acme.example.com", "name": "x"}
        await cluster.create(
            {
                "apiVersion": OLDER,
                "kind": "ResourceClass",
                "metadata": {"name": "acme"},
                "driverName": "acme.example.com",
                "semanticParameters": True,
                "parametersRef": {**reference, "kind": "ClassParameters"},
            },
            {
                "apiVersion": OLDER,
                "kind": "ResourceClass",
                "metadata": {"name": "old"},
                "driverName": "old.example.com",
            },
            {
                "apiVersion": OLDER,
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": NAMESPACE},
                "spec": {
                    **semantic_spec("Immediate"),
                    "parametersRef": {**reference, "kind": "CardParameters"},
                },
            },
            finalized_claim("v1"),
        )
        handle = {
            "driverName": "acme.example.com",
            "semanticData": {"nodeName": "node", "partitionable": {"instances": [{"id": "gpu-0"}]}},
        }
        status = {"driverName": "acme.example.com", "allocation": {"resourceHandles": [handle]}}
        claims = cluster.admin.plain(OLDER, "resourceclaims")
        await claims.patch("c", {"status": status}, NAMESPACE, subresource="status")
        await give(cluster, "v1")
        await part.start()
        assert numbers(registry) == {
            "allotment_semantic_resource_classes": 1,
            'allotment_semantic_parameter_kinds{which="total"}': 2,
            'allotment_semantic_parameter_kinds{which="resolved"}': 1,
            "allotment_semantic_claims_allocated": 1,
        }

    in_cluster(tmp_path, scenario)
