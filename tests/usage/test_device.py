"""Who has a device, and how much of it is left."""

from __future__ import annotations

from allotment.api.resource import Device, ResourceClaim
from allotment.usage.device import DeviceUsage
from allotment.usage.pool import compute_pool_usage
from tests.allocator.build import counter_set, device, draw, slice_, taint
from tests.usage.build import holder, part


def only(spec: Device, *claims: ResourceClaim) -> DeviceUsage:
    (usage,) = compute_pool_usage([slice_(spec)], claims).devices
    return usage


def amounts(usage: DeviceUsage) -> tuple[str, str, str]:
    """Total, allocated, available of memory."""
    each = (usage.total_capacity, usage.allocated_capacity, usage.available_capacity)
    total, allocated, available = (str(amount["memory"]) for amount in each)
    return total, allocated, available


GPU = device("d", capacity={"memory": "8Gi"})
SHARED = device("d", capacity={"memory": "8Gi"}, shared=True)


def test_a_device_is_had_whole_or_not() -> None:
    assert amounts(only(GPU)) == ("8Gi", "0", "8Gi")
    assert amounts(only(GPU, holder("a", "d"))) == ("8Gi", "8Gi", "0")


def test_shares_add_up() -> None:
    first = holder("a", part("d", share="s1", consumes={"memory": "1Gi"}))
    second = holder(
        "b",
        part("d", share="s2", consumes={"memory": "2Gi"}),
        part("d", share="s3", consumes={"memory": "512Mi"}),
    )
    assert amounts(only(SHARED, first, second)) == ("8Gi", "3584Mi", "4608Mi")


def test_an_unavailable_device_has_nothing_available() -> None:
    assert amounts(only(device("d", capacity={"memory": "8Gi"}, taints=[taint("k")]))) == ("8Gi", "0", "0")


def test_no_more_is_left_than_nothing() -> None:
    much = holder("a", part("d", share="s", consumes={"memory": "9Gi", "gone": "1"}))
    usage = only(SHARED, much)
    assert amounts(usage) == ("8Gi", "9Gi", "0")
    assert str(usage.allocated_capacity["gone"]) == "1"


def test_nothing_is_available_of_a_device_that_is_not_shared_any_more() -> None:
    share = holder("a", part("d", share="s", consumes={"memory": "1Gi"}))
    assert amounts(only(GPU, share)) == ("8Gi", "1Gi", "0")


def test_admin_access_is_listed_and_marked_and_takes_nothing() -> None:
    usage = only(GPU, holder("watcher", part("d", admin=True)))
    assert [(each.claim, each.admin_access) for each in usage.allocations] == [("ns/watcher", True)]
    assert amounts(usage) == ("8Gi", "0", "8Gi")


def test_allocations_tell_the_claim_and_the_request() -> None:
    claim = holder(
        "a", part("d", request="gpu/large", share="s", consumes={"memory": "1Gi"}), namespace="team", uid="u1"
    )
    (info,) = only(SHARED, claim).allocations
    assert (info.claim_namespace, info.claim_name, info.claim_uid) == ("team", "a", "u1")
    assert (info.request, info.share_id) == ("gpu/large", "s")
    assert {name: str(amount) for name, amount in info.capacity.items()} == {"memory": "1Gi"}


def test_allocations_are_sorted() -> None:
    claims = [holder(name, part("d", share=name)) for name in ("c", "a", "b")]
    assert [each.claim_name for each in only(SHARED, *claims).allocations] == ["a", "b", "c"]


def test_reasons_tell_amounts() -> None:
    slices = [
        slice_(
            device("half", draws=[draw("card", memory="20Gi")]),
            device("whole", draws=[draw("card", memory="40Gi")]),
            of=2,
        ),
        slice_(name="counters", counters=[counter_set("card", memory="40Gi")], of=2),
    ]
    _, whole = compute_pool_usage(slices, [holder("a", "half")]).devices
    assert whole.message == "lacks 20Gi of memory in card, in use by its neighbours"
    usage = only(device("d", taints=[taint("broken", "yes", "NoExecute")]))
    assert usage.message == "has the taint broken=yes:NoExecute"


def test_a_reason_is_short_however_many_counters_lack() -> None:
    counters = {f"c{n}": "1" for n in range(9)}
    slices = [
        slice_(*[device(name, draws=[draw("card", **counters)]) for name in ("a", "b")], of=2),
        slice_(name="counters", counters=[counter_set("card", **counters)], of=2),
    ]
    _, other = compute_pool_usage(slices, [holder("x", "a")]).devices
    told = "lacks 1 of c0 in card, 1 of c1 in card, 1 of c2 in card, and of 6 more counters, in use by its neighbours"
    assert other.message == told


def test_a_device_that_chooses_its_node_itself() -> None:
    slices = [slice_(device("a", on="n1"), device("b", everywhere=True), per_device=True)]
    usage = compute_pool_usage(slices, [])
    assert [each.node_name for each in usage.devices] == ["n1", ""]
