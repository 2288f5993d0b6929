"""What tests of both taint evictions need: a clock that stands, and a look at who goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from allotment.api.core import Pod
from tests.controllers.cluster import Cluster

START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Clock:
    """Moves only when it is told to. Steps are longer than what ``Cluster.quiet`` takes for soon."""

    time: datetime = START

    def __call__(self) -> datetime:
        return self.time

    def set(self, seconds: float) -> None:
        self.time = START + timedelta(seconds=seconds)


def going(cluster: Cluster, name: str) -> bool:
    """Nobody ends the pods here, so that those deleted stay to be seen."""
    found = cluster.seen.of(Pod).get(name, "default")
    return found is not None and found.metadata.deletion_timestamp is not None


def marks(cluster: Cluster, name: str) -> list[str | None]:
    """The reasons why a pod is a target of disruption."""
    found = cluster.seen.of(Pod).get(name, "default")
    assert found is not None
    return [each.reason for each in found.status.conditions if each.type == "DisruptionTarget"]
