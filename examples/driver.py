"""A DRA driver in its simplest form: it publishes the devices of one node, and tells which pod got which.

    allot up --demo
    allot kubeconfig --user system:node:ada --group system:nodes -o ada.kubeconfig
    python examples/driver.py ada.kubeconfig ada fpga-0 fpga-1

It has the identity of its node, so it may write this node's slices and read the claims of this node's pods, nothing
else. Start it again with other devices, and the pool gets its next generation. It works on a real cluster just as well.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from allotment.client.client import Client
from allotment.client.connection import load
from allotment.client.informer import Informer
from allotment.client.over_http import HttpTransport

DRIVER = "fpga.example.com"


async def publish(client: Client, node: str, devices: list[dict[str, Any]]) -> int:
    """Makes the node's slice show these devices; returns the generation of its pool, higher after each change."""
    slices = client.plain("resource.k8s.io/v1", "resourceslices", namespaced=False)
    spec = {"driver": DRIVER, "nodeName": node, "devices": devices}
    mine = await slices.list(fields=f"spec.nodeName={node},spec.driver={DRIVER}")
    for found in mine.items:
        pool = found["spec"]["pool"]
        if found["spec"]["devices"] != devices:
            pool = {**pool, "generation": pool["generation"] + 1}
            await slices.update(
                {**found, "spec": {**spec, "pool": pool}}
            )  # a Conflict if it changed meanwhile
        return int(pool["generation"])
    owner = await client.plain("v1", "nodes", namespaced=False).get(node)
    reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]}
    meta = {"generateName": f"{node}-", "ownerReferences": [reference]}  # when the node goes, its slice goes
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    await slices.create({"metadata": meta, "spec": {**spec, "pool": pool}})
    return 1


async def tell(client: Client, pod: dict[str, Any]) -> None:
    """Prints the devices of ours that a pod was given. Here a real driver would prepare them."""
    claims = client.plain("resource.k8s.io/v1", "resourceclaims")
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        if claim_name := entry.get("resourceClaimName") or made.get(entry["name"]):
            claim = await claims.get(claim_name, namespace)
            allocation = claim.get("status", {}).get("allocation") or {}
            for result in allocation.get("devices", {}).get("results") or ():
                if result["driver"] == DRIVER:
                    print(f"{result['device']}: pod {namespace}/{name}, claim {claim_name}", flush=True)


async def main(kubeconfig: str, node: str, *devices: str) -> None:
    async with Client(HttpTransport(load(kubeconfig)), manager=DRIVER) as client:
        generation = await publish(client, node, [{"name": device} for device in devices])
        print(f"{len(devices)} devices of {node} published, generation {generation}", flush=True)
        changed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        pods = Informer(client.plain("v1", "pods"), fields=f"spec.nodeName={node}")
        pods.on_change(lambda old, new: changed.put_nowait(new) if new else None)
        following = asyncio.create_task(pods.run())
        try:
            while True:
                await tell(client, await changed.get())
        finally:
            following.cancel()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
