"""What a plan foresees is what the scheduler does: once its machines are there with the slices that were predicted, every pod is bound
to the node that the plan has for it."""

from __future__ import annotations

from benchmarks.autoscaler_problems import problem
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.core import Pod
from allotment.api.meta import key_of
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.catalogue.machine import node_of
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.simulation import start_simulation
from tests.builders.typed import HOSTNAME
from tests.scheduler.world import Seat, World, settle


def pinned(pod: Pod, node: str) -> Pod:
    spec = replace(pod.spec, node_selector={**pod.spec.node_selector, HOSTNAME: node})
    return replace(pod, spec=spec)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_scheduler_accepts_exactly_what_was_planned(seed: int) -> None:
    made = problem(seed, 14, shapes=4, types=10, zones=2)
    plan = provision(start_simulation(made.objects), made.machines, made.pods)
    places = {place.pod: place.node for new in plan.nodes for place in new.places}
    claims = [each for each in made.objects if isinstance(each, ResourceClaim)]
    world = World(*(each for each in made.objects if each not in claims))
    owned = {claim.metadata.owner_references[0].name: claim.spec for claim in claims}
    for pod in made.pods:  # the world makes them again
        world.templates.update(
            {
                entry.resource_claim_template_name or "": owned[pod.metadata.name]
                for entry in pod.spec.resource_claims
            }
        )
    for new in plan.nodes:
        node, slices = node_of(new.machine, new.name)
        world.put(node, *slices)
    Seat(world, validates=False)
    world.put(*(pinned(pod, places[key_of(pod)]) for pod in made.pods if key_of(pod) in places))
    settle(world)
    assert {key: pod.spec.node_name for key, pod in world.pods.items()} == places
