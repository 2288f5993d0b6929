"""Seed 0's side of the cluster: partition trees by node, classes and parameters, and what carried claims hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.allocator.ledger import Holding
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import ResourceClaim


class SemanticFleet:
    """See the module."""

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> Iterable[str]:
        """Takes in a slice, a class or parameters; returns the nodes on which answers may change."""
        return ()

    def holdings(self, claim: ResourceClaim) -> tuple[Holding, ...] | None:
        """What a carried claim's allocation holds; None for v1's own claims."""
        return None

    def validate(self) -> None:
        """Raises AssertionError where what is kept is not what the objects say."""
