"""The status of claims: one row per rule."""

from typing import Any

import pytest

from allotment.api.resource import ResourceClaim
from allotment.api.validation import validate_claim_status
from tests.api.validation.builders import allocation, claim, opaque, result, shown

RESULT = "status.allocation.devices.results[0]"
CONFIG = "status.allocation.devices.config[0]"
DEVICE = "status.devices[0]"
SHARE = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
POD = {"resource": "pods", "name": "p", "uid": "u"}
READY = {"type": "Ready", "status": "True", "reason": "Done", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def allocated(*results: Any, **fields: Any) -> ResourceClaim:
    return claim(status={"allocation": allocation(*results, **fields)})


def reported(**fields: Any) -> ResourceClaim:
    """A claim with one device, whose driver reports this."""
    device = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"} | fields
    return claim(status={"allocation": allocation(), "devices": [device]})


SOUND = {
    "nothing": claim(),
    "allocated": allocated(),
    "reserved": claim(status={"allocation": allocation(), "reservedFor": [POD]}),
    "a share": allocated(result(shareID=SHARE, consumedCapacity={"memory": "1Gi"})),
    "configured": allocated(
        config=[
            {"source": "FromClass", **opaque()},
            {"source": "FromClaim", "requests": ["r0"], **opaque()},
        ]
    ),
    "reported": reported(
        conditions=[READY],
        data={"a": 1},
        networkData={"interfaceName": "eth0", "ips": ["192.0.2.5/24", "2001:db8::5/64"]},
    ),
    "on one node": allocated(
        nodeSelector={
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ]
        }
    ),
}


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND.keys())
def test_sound(given: ResourceClaim) -> None:
    assert shown(validate_claim_status(given)) == []


BROKEN: dict[str, tuple[ResourceClaim, list[str]]] = {
    "reserved but not allocated": (claim(status={"reservedFor": [POD]}), ["status.reservedFor: forbidden"]),
    "257 reservations": (
        claim(
            status={"allocation": allocation(), "reservedFor": [POD | {"uid": f"u{n}"} for n in range(257)]}
        ),
        ["status.reservedFor: too_many"],
    ),
    "reserved twice": (
        claim(status={"allocation": allocation(), "reservedFor": [POD, POD]}),
        ["status.reservedFor[1]: duplicate"],
    ),
    "reserved for nobody": (
        claim(status={"allocation": allocation(), "reservedFor": [{}]}),
        [f"status.reservedFor[0].{field}: required" for field in ("resource", "name", "uid")],
    ),
    "33 results": (allocated(*[result()] * 33), ["status.allocation.devices.results: too_many"]),
    "result for an unknown request": (allocated(result(request="x")), [f"{RESULT}.request: invalid"]),
    "result without device": (
        allocated(result(driver=None, pool=None, device=None)),
        [f"{RESULT}.driver: required", f"{RESULT}.pool: required", f"{RESULT}.device: invalid"],
    ),
    "share id": (allocated(result(shareID="1")), [f"{RESULT}.shareID: invalid"]),
    "share id in capitals": (allocated(result(shareID=SHARE.upper())), [f"{RESULT}.shareID: invalid"]),
    "toleration": (
        allocated(result(tolerations=[{"operator": "Like"}])),
        [f"{RESULT}.tolerations[0].operator: not_supported"],
    ),
    "binding conditions": (
        allocated(result(bindingConditions=["a"])),
        [f"{RESULT}.bindingFailureConditions: invalid"],
    ),
    "skipped operations": (
        allocated(result(skipNodeOperations=["NodePrepareResources"])),
        [f"{RESULT}.skipNodeOperations: invalid"],
    ),
    "65 configurations": (
        allocated(config=[{"source": "FromClaim", **opaque()}] * 65),
        ["status.allocation.devices.config: too_many"],
    ),
    "configuration without source": (allocated(config=[opaque()]), [f"{CONFIG}.source: required"]),
    "configuration from elsewhere": (
        allocated(config=[{"source": "FromMars", **opaque()}]),
        [f"{CONFIG}.source: not_supported"],
    ),
    "empty node selector": (
        allocated(nodeSelector={}),
        ["status.allocation.nodeSelector.nodeSelectorTerms: required"],
    ),
    "device that is not allocated": (reported(device="gpu-1"), [f"{DEVICE}: invalid"]),
    "another share of the device": (reported(shareID=SHARE), [f"{DEVICE}: invalid"]),
    "nine conditions": (
        reported(conditions=[READY | {"type": f"T{n}"} for n in range(9)]),
        [f"{DEVICE}.conditions: too_many"],
    ),
    "condition twice": (reported(conditions=[READY, READY]), [f"{DEVICE}.conditions[1]: duplicate"]),
    "empty condition": (
        reported(conditions=[{}]),
        [
            f"{DEVICE}.conditions[0].type: required",
            f"{DEVICE}.conditions[0].status: required",
            f"{DEVICE}.conditions[0].lastTransitionTime: required",
            f"{DEVICE}.conditions[0].reason: required",
        ],
    ),
    "reason in words": (
        reported(conditions=[READY | {"reason": "it is"}]),
        [f"{DEVICE}.conditions[0].reason: invalid"],
    ),
    "message too long": (
        reported(conditions=[READY | {"message": "x" * 32769}]),
        [f"{DEVICE}.conditions[0].message: too_long"],
    ),
    "data too long": (reported(data={"a": "x" * 10240}), [f"{DEVICE}.data: too_long"]),
    "data that is no object": (reported(data="x"), [f"{DEVICE}.data: invalid"]),
    "interface name too long": (
        reported(networkData={"interfaceName": "x" * 257}),
        [f"{DEVICE}.networkData.interfaceName: too_long"],
    ),
    "hardware address too long": (
        reported(networkData={"hardwareAddress": "x" * 129}),
        [f"{DEVICE}.networkData.hardwareAddress: too_long"],
    ),
    "17 addresses": (
        reported(networkData={"ips": [f"10.0.0.{n}/8" for n in range(17)]}),
        [f"{DEVICE}.networkData.ips: too_many"],
    ),
    "addresses that are none": (
        reported(
            networkData={
                "ips": ["10.0.0.1", "10.0.0.01/8", "2001:DB8::1/64", "::ffff:10.0.0.1/96", "10.0.0.1/33"]
            }
        ),
        [f"{DEVICE}.networkData.ips[{n}]: invalid" for n in range(5)],
    ),
}


@pytest.mark.parametrize(("given", "errors"), BROKEN.values(), ids=BROKEN.keys())
def test_broken(given: ResourceClaim, errors: list[str]) -> None:
    assert shown(validate_claim_status(given)) == errors


def test_an_allocation_is_set_or_removed_but_not_edited() -> None:
    free, taken, other = claim(), allocated(), allocated(result(device="gpu-1"))
    assert validate_claim_status(taken, free) == []
    assert validate_claim_status(free, taken) == []
    assert validate_claim_status(taken, taken) == []
    assert shown(validate_claim_status(other, taken)) == ["status.allocation: invalid"]


def test_a_stored_allocation_is_not_checked_again() -> None:
    stored = allocated(result(request="gone"))
    assert validate_claim_status(stored, stored) == []


def test_a_claim_that_goes_away_takes_no_new_reservation() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    old = claim(status={"allocation": allocation(), "reservedFor": [POD]}, metadata=going)
    more = claim(
        status={"allocation": allocation(), "reservedFor": [POD, POD | {"uid": "v"}]}, metadata=going
    )
    assert validate_claim_status(old, old) == []
    assert shown(validate_claim_status(more, old)) == ["status.reservedFor: forbidden"]
