"""Rules about neighbours in whole cycles of the default profile: pods come one after another, some leave, and each goes to a node
that the rules allow, or there is none."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.core import Affinity, Pod, TopologySpreadConstraint
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.placement import Placement, Placer
from tests.builders.typed import HOSTNAME, ZONE, cluster, near, node, pod, pod_affinity, spread
from tests.scheduler import naive_affinity, naive_spreading

LABELS = st.fixed_dictionaries({"app": st.sampled_from(["web", "db"])})
SELECTORS = st.sampled_from([{"app": "web"}, {"app": "db"}, {}])
KEYS = st.sampled_from([ZONE, HOSTNAME])
TERMS = st.lists(st.builds(near, SELECTORS, KEYS), max_size=1)
AFFINITIES = st.one_of(
    st.none(),
    st.builds(pod_affinity, near=TERMS, apart=TERMS, rather_near=st.just([(5, near({"app": "web"}))])),
)
SPREADS = st.lists(st.builds(spread, KEYS, SELECTORS, skew=st.integers(1, 2), soft=st.booleans()), max_size=2)
COMING = st.tuples(LABELS, AFFINITIES, SPREADS, st.integers(0, 8))
NODES = [node("a", zone="east"), node("b", zone="east"), node("c", zone="west"), node("d")]


@settings(max_examples=30, deadline=None)
@given(st.lists(COMING, max_size=12))
def test_every_pod_goes_where_it_may_or_nowhere(
    coming: list[tuple[dict[str, str], Affinity | None, list[TopologySpreadConstraint], int]],
) -> None:
    seen = cluster(*NODES)
    placer = Placer(seen, DEFAULT.rosters())
    placed: list[Pod] = []
    for number, (labels, affinity, spreading, leaves) in enumerate(coming):
        if leaves < len(placed):
            seen.change(placed.pop(leaves), None)
        of = pod(f"p{number}", labels=labels, affinity=affinity, spread=spreading)
        seen.change(None, of)
        allowed = {
            each.metadata.name
            for each in NODES
            if naive_affinity.fits(of, each, NODES, placed, {})
            and naive_spreading.fits(of, each, NODES, placed)
        }
        answer = placer.place(seen.pods[f"default/p{number}"], 0.0)
        if not isinstance(answer, Placement):
            assert not allowed
            continue
        assert answer.node in allowed
        bound = replace(of, spec=replace(of.spec, node_name=answer.node))
        seen.change(of, bound)
        placed.append(bound)
    seen.validate()
    placer.validate()
