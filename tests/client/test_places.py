"""Kinds that not every server has are found where they are."""

import pytest

from allotment.api.batch import PodGroup
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule
from allotment.api.semantic import ResourceClass
from allotment.client.client import Client
from allotment.client.discovery import AnnouncedResource, Discovery
from allotment.client.form import ResourcePath
from allotment.client.places import PLACES, place_of
from allotment.client.shared_informers import Informers
from tests.client.script import Script


def serving(*places: tuple[str, str]) -> Discovery:
    return Discovery(
        [AnnouncedResource(ResourcePath(api_version, plural, False)) for api_version, plural in places]
    )


@pytest.mark.parametrize(
    ("type_", "served", "found"),
    [
        pytest.param(
            ResourceClass,
            ["resource.k8s.io/v1alpha2"],
            "resource.k8s.io/v1alpha2",
            id="native, when embedded",
        ),
        pytest.param(
            ResourceClass,
            ["allotment.dev/v1alpha2"],
            "allotment.dev/v1alpha2",
            id="custom, on a real cluster",
        ),
        pytest.param(ResourceClass, ["resource.k8s.io/v1", "other.dev/v1alpha2"], None, id="nowhere"),
        pytest.param(
            DeviceTaintRule,
            ["resource.k8s.io/v1beta2", "resource.k8s.io/v1"],
            "resource.k8s.io/v1",
            id="the best version",
        ),
        pytest.param(
            DeviceTaintRule, ["resource.k8s.io/v1beta2"], "resource.k8s.io/v1beta2", id="an older version"
        ),
        pytest.param(
            PodGroup, ["scheduling.volcano.sh/v1beta1"], None, id="another group's kind of the same name"
        ),
    ],
)
def test_a_kind_is_found(type_: type[ApiStruct], served: list[str], found: str | None) -> None:
    plural = PLACES[type_][0].plural
    place = place_of(type_, serving(*((each, plural) for each in served), ("v1", "pods")))
    assert (place.api_version if place is not None else None) == found


def test_a_kind_in_its_native_place_is_followed_once() -> None:
    informers = Informers(Client(Script()))
    assert informers.at(PLACES[ResourceClass][0], ResourceClass) is informers.of(ResourceClass)
