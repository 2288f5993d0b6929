"""The controllers of claims on the real API server, with its own garbage collector: the same life, the same end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.api.status import AlreadyExists
from allotment.apiserver.auth.identity import Identity
from allotment.client.client import Client
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from allotment.client.transport import Transport
from tests.controllers.claims.claim_objects import controllers, labelling_template
from tests.controllers.claims.test_claims_failing import Witness, life
from tests.controllers.cluster import CONTROLLERS, Awake, Cluster, Component
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes


class RealCluster(Cluster):
    """As a cluster of ours, but for what only a server in this process can tell (``quiet``). All are administrators."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._news = asyncio.Event()
        self._components: list[Component] = []
        self.admin = Client(HttpTransport(load(kubeconfig)), manager="test")
        self.seen = Awake(self.admin, self._news.set)

    def component(
        self,
        identity: Identity = CONTROLLERS,
        through: Callable[[Transport], Transport] = lambda transport: transport,
    ) -> Component:
        client = Client(through(HttpTransport(load(self._kubeconfig))), manager="controllers")
        return Component(client, self._news.set)


def test_the_life_of_claims(kubernetes: ControlPlane) -> None:
    async def run() -> None:
        cluster, witness = RealCluster(kubernetes.kubeconfig), Witness()
        cluster.seen.of(Pod)
        cluster.seen.of(ResourceClaim).on_change(witness.see)
        seeing = asyncio.create_task(cluster.seen.run())
        await cluster.seen.synced()
        cluster.strangers = witness.strangers = frozenset(
            each.metadata.uid for each in cluster.seen.of(ResourceClaim).all()
        )
        with suppress(AlreadyExists):
            await cluster.create(labelling_template())
        part = await controllers(cluster)
        try:
            await life(cluster, 1, witness)
            assert witness.crimes == []
        finally:
            await part.stop()
            seeing.cancel()
            await asyncio.gather(seeing, return_exceptions=True)
            await part.client.close()
            await cluster.admin.close()

    asyncio.run(run())
