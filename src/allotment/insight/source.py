"""Where a command reads the cluster: from a server, with the caller's own rights, or from saved manifests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The values of the options."""

    namespaces: tuple[str, ...] = ()
    all_namespaces: bool = False  # all claims or no answer
    kubeconfig: Path | None = None
    context: str | None = None
    offline: tuple[str, ...] = ()

    def wants(self, namespace: str) -> bool:
        """Whether the user wants to see objects of a namespace; objects without a namespace always count."""
        return not namespace or not self.namespaces or namespace in self.namespaces
