"""The registry of kinds agrees with the types it names."""

import pytest

from allotment.api import kinds, resource, semantic


@pytest.mark.parametrize("kind", kinds.KINDS.values(), ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_a_kinds_type_says_it_is_that_kind(kind: kinds.Kind) -> None:
    obj = kind.type()
    assert obj.kind == kind.kind  # type: ignore[attr-defined]  # every registered type has both
    if kind.to_type is None:
        assert obj.api_version == kind.api_version  # type: ignore[attr-defined]  # as above
    else:
        assert kind.to_type({"kind": kind.kind})["apiVersion"] == obj.api_version  # type: ignore[attr-defined]  # as above


def test_a_claim_is_found_by_its_version() -> None:
    v1, old = (
        kinds.find("resource.k8s.io/v1", "ResourceClaim"),
        kinds.find("resource.k8s.io/v1alpha2", "ResourceClaim"),
    )
    assert v1 is not None
    assert v1.type is resource.ResourceClaim
    assert old is not None
    assert old.type is semantic.ResourceClaim


def test_what_we_do_not_know_is_not_found() -> None:
    assert kinds.find("resource.k8s.io/v7", "ResourceClaim") is None
    assert kinds.find("apps/v1", "Deployment") is None


def test_the_versions_of_a_kind() -> None:
    assert kinds.versions("resource.k8s.io", "DeviceTaintRule") == [
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta2",
    ]
    assert kinds.versions("", "Pod") == ["v1"]
    assert kinds.versions("apps", "Pod") == []
