"""The registry as one: what is served, and the ways to read and write it."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.apiserver.registry.actions import ResourceActions
from allotment.apiserver.registry.admission import Admission
from allotment.apiserver.registry.catalogue import ResourceCatalogue
from allotment.apiserver.registry.deletion import Deletion
from allotment.apiserver.registry.patches import Patches
from allotment.apiserver.registry.reads import Reads
from allotment.apiserver.registry.resource import Services
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.store import Store


class Registry:
    """Made once for a store. ``services`` is what actions may ask of the server."""

    def __init__(
        self, store: Store, catalogue: ResourceCatalogue, admissions: Sequence[Admission], services: Services
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.reads = Reads(store)
        self.writes = Writes(store, admissions)
        self.deletion = Deletion(self.writes)
        self.patches = Patches(self.writes)
        self.actions = ResourceActions(self.writes, self.deletion, self.patches, services)
