"""A random walk of pods with volumes: the scheduler hears of things late, writes fail, pods and claims come and go, the volume
controller works when it likes. No pod is ever bound where its volumes are not, and at rest nothing is left over and nobody waits
who would fit.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from allotment.api.storage import PersistentVolume, PersistentVolumeClaim, is_bound
from allotment.scheduler.config.configuration import Configuration
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.event import Tick
from allotment.scheduler.placement import Placer
from allotment.scheduler.volumes.pod_volumes import volumes_of
from allotment.scheduler.volumes.storage import KnownVolume
from tests.builders.typed import node
from tests.scheduler.binding.test_binding_volumes import controller
from tests.scheduler.storage import DRIVER, LOCAL, MADE, claim, kind, pod, volume
from tests.scheduler.world import Fate, Seat, World, settle

CONFIGURATION = Configuration(binding_seconds=20.0)
FATES = (Fate.FINE,) * 6 + (Fate.CONFLICT, Fate.CONFLICT, Fate.LOST, Fate.TIMEOUT, Fate.REFUSED)


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        volumes = [
            volume("small-a", "2Gi", on="a"),
            volume("large-a", "8Gi", on="a"),
            volume("small-b", "2Gi", on="b"),
            volume("anywhere", "4Gi"),
        ]
        self.world = World(node("a", cpu=3), node("b", cpu=3), kind(), kind(MADE, DRIVER), *volumes)
        self.seat = Seat(self.world, CONFIGURATION)
        self._names = 0

    def run(self, steps: int) -> None:
        acts = [
            *[self.deliver] * 8,
            *[self.perform] * 6,
            *[self.reply] * 6,
            *[self.turn] * 4,
            *[self.tick] * 2,
            *[self.bind] * 2,
            *[self.make_pod] * 3,
            self.delete_pod,
            self.delete_claim,
            self.chore,
            self.crash,
        ]
        for _ in range(steps):
            self.rng.choice(acts)()
            self.check()
        settle(self.world, seconds=600, idle=lambda: controller(self.world))
        self.check()
        self.check_rest()

    # --- acts ---

    def deliver(self) -> None:
        waiting = [kind_ for kind_, news in self.seat.news.items() if news]
        if waiting:
            self.seat.deliver(self.rng.choice(waiting))

    def perform(self) -> None:
        if self.seat.writes:
            self.seat.perform(self.rng.randrange(len(self.seat.writes)), self.rng.choice(FATES))

    def reply(self) -> None:
        if self.seat.replies:
            self.seat.reply(self.rng.randrange(len(self.seat.replies)))

    def turn(self) -> None:
        self.seat.turn(self.rng.randint(1, 3))

    def tick(self) -> None:
        self.world.now += self.rng.choice([0.1, 1.0, 25.0])
        self.seat.tell(Tick(self.world.now))

    def bind(self) -> None:
        controller(self.world)

    def chore(self) -> None:
        for each in self.world.chores()[:1]:
            each()

    def crash(self) -> None:
        self.seat.crash()

    def make_pod(self) -> None:
        self._names += 1
        names = []
        for number in range(self.rng.randint(1, 2)):
            existing = [each.metadata.name for each in self.world.of(PersistentVolumeClaim).values()]
            if existing and self.rng.random() < 0.3:
                names.append(self.rng.choice(existing))
                continue
            name = f"c{self._names}-{number}"
            size, storage = f"{self.rng.randint(1, 6)}Gi", self.rng.choice([LOCAL, LOCAL, MADE])
            modes = self.rng.choice([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"]])
            if storage == LOCAL:
                modes = ["ReadWriteOnce"]  # as the volumes have it
            self.world.put(claim(name, size, storage_class=storage, modes=modes))
            names.append(name)
        self.world.put(pod(f"p{self._names}", *names, cpu=1))

    def delete_pod(self) -> None:
        if self.world.pods:
            self.world.delete(self.rng.choice(list(self.world.pods.values())))

    def delete_claim(self) -> None:
        """Of claims that no pod names."""
        named = {key for each in self.world.pods.values() if (v := volumes_of(each)) for key in v.named}
        free = [each for key, each in self.world.of(PersistentVolumeClaim).items() if key not in named]
        if free:
            gone = self.rng.choice(free)
            self.world.remove(gone)
            for each in list(self.world.of(PersistentVolume).values()):
                ref = each.spec.claim_ref
                if ref is not None and ref.uid == gone.metadata.uid:  # somebody makes it free again
                    cleaned = replace(each.spec, claim_ref=None)
                    self.world.put(
                        replace(each, spec=cleaned, status=replace(each.status, phase="Available"))
                    )

    # --- what holds ---

    def check(self) -> None:
        claims, volumes = self.world.of(PersistentVolumeClaim), self.world.of(PersistentVolume)
        for each in self.world.pods.values():
            found = volumes_of(each)
            if not each.spec.node_name or found is None:
                continue
            for key in found.named:
                assert is_bound(claims[key]), f"{each.metadata.name} is bound and {key} is not"
                reached = KnownVolume(volumes[claims[key].spec.volume_name or ""])
                assert reached.reached_from(self.world.objects[type(node())][each.spec.node_name])

    def check_rest(self) -> None:
        core = self.seat.core
        assert not core.bindings.all()
        assert core.cluster.storage.assumptions == 0
        fresh = self.world.fresh()
        placer = Placer(fresh, CONFIGURATION.rosters())
        for each in fresh.pods.values():
            if not each.node and not each.leaving:
                found = placer.begin(each, self.world.now)
                found = found if isinstance(found, NoNode) else placer.choose(found)  # type: ignore[assignment]  # or a node
                assert isinstance(found, NoNode), f"{each.key} waits and would fit on {found}"


@pytest.mark.parametrize("seed", range(12))
def test_pods_with_volumes_end_where_they_should(seed: int) -> None:
    Walk(seed).run(250)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_pods_with_volumes_end_where_they_should(seed: int) -> None:
    Walk(seed).run(400)
