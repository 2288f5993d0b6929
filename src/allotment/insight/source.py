"""Where whoever looks at a cluster gets it from: a server, with the caller's own rights, or saved manifests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """What the options say."""

    namespaces: tuple[str, ...] = ()
    all_namespaces: bool = False  # all claims or no answer
    kubeconfig: Path | None = None
    context: str | None = None
    offline: tuple[str, ...] = ()

    def wants(self, namespace: str) -> bool:
        """Whether things of a namespace are of interest; those without any always are."""
        return not namespace or not self.namespaces or namespace in self.namespaces
