"""A registry over a real store, without http: enough for what the server does on its own account."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource, found_in
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Key, Obj
from allotment.apiserver.store.store import Store

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Rig:
    """Objects are config maps unless said otherwise. Time stands still until told."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalogue = ResourceCatalogue(found_in(kinds))
        self.writes = Writes(store)
        self.deletion = Deletion(self.writes)
        self.now = START
        for name in ("default", "ns"):
            self.create("namespaces", "", {"metadata": {"name": name}})

    def clock(self) -> datetime:
        return self.now

    def later(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def served(self, resource: str) -> ServedResource:
        found = self.catalogue.resource(resource)
        assert found is not None, resource
        return self.catalogue.hub(found)

    def call(self) -> WriteContext:
        return WriteContext(ADMINISTRATOR, self.now.strftime("%Y-%m-%dT%H:%M:%SZ"), manager="test")

    def create(self, resource: str, namespace: str, obj: Obj) -> Obj:
        served = self.served(resource)
        obj = {"apiVersion": served.api_version, "kind": served.resource.kind, **obj}
        self.writes.create(served, namespace, obj, self.call())
        return self.get(resource, namespace, obj["metadata"]["name"])

    def config_map(self, name: str, *owners: Obj, namespace: str = "ns", **metadata: Any) -> Obj:
        references = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
            for owner in owners
        ]
        return self.create(
            "configmaps", namespace, {"metadata": {"name": name, "ownerReferences": references, **metadata}}
        )

    def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        record = self.store.head(Key(resource, namespace, name))
        return None if record is None else record.load()

    def get(self, resource: str, namespace: str, name: str) -> Obj:
        found = self.find(resource, namespace, name)
        assert found is not None, f"{resource} {namespace}/{name} is gone"
        return found

    def delete(self, resource: str, namespace: str, name: str, policy: str | None = None) -> None:
        options = DeleteOptions(propagation_policy=policy)
        self.deletion.delete(self.served(resource), namespace, name, options, self.call())

    def edit(self, resource: str, namespace: str, name: str, change: Callable[[Obj], None]) -> None:
        def changed(obj: Obj) -> Obj:
            change(obj)
            return obj

        writes = self.writes
        writes.commit(writes.prepare_change(self.served(resource), namespace, name, changed, self.call()))

    def names(self, resource: str = "configmaps", namespace: str = "ns") -> list[str]:
        return [record.key.name for record in self.store.heads(resource, namespace)]


def with_rig(folder: Path, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Store.open(folder / "store.db")
        try:
            await scenario(Rig(store))
        finally:
            await store.close()

    asyncio.run(run())
