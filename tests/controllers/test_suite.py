"""Which controllers there are on which server, and where they look for kinds that not every server has."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint

import pytest
from prometheus_client import CollectorRegistry

from allotment.api.semantic import ResourceClaimParameters
from allotment.client.client import Client
from allotment.client.discovery import AnnouncedResource, Discovery
from allotment.client.form import ResourcePath
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.controllers import names, suite
from allotment.controllers.controller import Controller
from allotment.controllers.machines.provider import Surroundings
from allotment.controllers.semantic.translator import Installed, Untranslatable
from allotment.controllers.semantic.vendor_kinds import VendorKind
from tests.client.script import Script

SEMANTIC = ("noderesourceslices", "resourceclasses", "resourceclassparameters", "resourceclaimparameters")


class Cards:
    name, kind, makes = "cards", VendorKind("v.example.com", "Cards"), ResourceClaimParameters

    def translate(self, obj: object) -> Untranslatable:
        return Untranslatable("not today")


class Metal:
    """A provider of an installed package."""

    name = "metal"

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings


def followed(
    monkeypatch: pytest.MonkeyPatch, *places: str, translators: int = 1, counting: bool = True
) -> tuple[list[str], set[str]]:
    """Who runs, and what is followed, where a server has these places: ``apiVersion plural``."""
    found = (place.split() for place in places)
    served = [AnnouncedResource(ResourcePath(api_version, plural, False)) for api_version, plural in found]

    async def discover(client: Client) -> Discovery:
        return Discovery(served)

    async def make() -> tuple[list[str], set[str]]:
        client = Client(Script())
        informers = Informers(client)
        registry = CollectorRegistry() if counting else None
        made = await suite.controllers(names.NAMES, client, informers, Recorder(client, "test"), registry)
        running = [each.reconciler.name if isinstance(each, Controller) else "kinds" for each in made]
        return running, {f"{each.api_version} {each.plural}" for each in informers.resources()}

    monkeypatch.setattr(suite, "discover", discover)
    monkeypatch.setattr(suite, "installed", lambda: Installed(tuple(Cards() for _ in range(translators))))
    return asyncio.run(make())


@pytest.mark.parametrize("group", ["resource.k8s.io", "allotment.dev"])
def test_seed_0_s_kinds_are_read_where_they_are(monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    places = {f"{group}/v1alpha2 {plural}" for plural in SEMANTIC}
    names, read = followed(monkeypatch, *places)
    assert {"parameters", "kinds"} <= set(names)
    assert {place for place in read if "v1alpha2" in place} == places


def test_what_a_server_does_not_have_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names, read = followed(monkeypatch)
    assert not {"parameters", "kinds"} & set(names)
    assert {"template-claims", "claim-release", "device-taint-eviction", "simulated-kubelet"} <= set(names)
    assert not [place for place in read if "alpha" in place or "podgroups" in place or "taintrules" in place]


def test_older_rules_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    _, read = followed(monkeypatch, "resource.k8s.io/v1beta2 devicetaintrules")
    assert {place for place in read if "taintrules" in place} == {"resource.k8s.io/v1beta2 devicetaintrules"}


@pytest.mark.parametrize(("counting", "running"), [(True, ["kinds"]), (False, [])])
def test_without_translators_there_are_numbers_at_most(
    monkeypatch: pytest.MonkeyPatch, counting: bool, running: list[str]
) -> None:
    places = [f"resource.k8s.io/v1alpha2 {plural}" for plural in SEMANTIC]
    names, _ = followed(monkeypatch, *places, translators=0, counting=counting)
    assert [name for name in names if name in ("kinds", "parameters")] == running


def machines(monkeypatch: pytest.MonkeyPatch, provider: str, *points: EntryPoint) -> list[str]:
    """Who runs to carry out NodeClaims with this provider, where these packages are installed."""
    served = [AnnouncedResource(ResourcePath("karpenter.sh/v1", "nodeclaims", False))]

    async def discover(client: Client) -> Discovery:
        return Discovery(served)

    async def make() -> list[str]:
        client = Client(Script())
        recorder = Recorder(client, "test")
        made = await suite.controllers(
            [names.MACHINES], client, Informers(client), recorder, provider=provider
        )
        return [each.reconciler.name for each in made if isinstance(each, Controller)]

    monkeypatch.setattr(suite, "discover", discover)
    monkeypatch.setattr("allotment.controllers.machines.provider.entry_points", lambda group: points)
    return asyncio.run(make())


USUAL = ["machines", "machine-sweep", "machine-sizes", "machine-pod-events"]
METAL = EntryPoint("metal", "tests.controllers.test_suite:Metal", "allotment.providers")


def test_providers_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machines(monkeypatch, "simulated") == [*USUAL, "simulated-machines"]
    assert machines(monkeypatch, "groups") == USUAL  # without NodeGroups there is nothing to follow
    assert machines(monkeypatch, "metal", METAL) == USUAL
    with pytest.raises(ImportError, match="there is no provider metal: it must be one of groups, simulated"):
        machines(monkeypatch, "metal")
    broken = EntryPoint("metal", "nowhere:Metal", "allotment.providers")
    with pytest.raises(ImportError, match=r"provider metal \(nowhere:Metal\) cannot be loaded"):
        machines(monkeypatch, "metal", broken)
