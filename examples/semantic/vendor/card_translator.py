"""The cards' driver translates its own parameters: how many cards, with what at least, at most.

CardParameters are for claims and CardClassParameters for classes; card_parameters.yaml defines both. What the definitions'
schemas cannot say (what is a quantity, what is a version) is refused here, in words for the author of the object.
"""

from __future__ import annotations

import json

from allotment.api.quantity import Quantity, QuantityError
from allotment.api.semantic import (
    PartitionableResourceFilter,
    PartitionableResourceRequest,
    PartitionableResourceRequests,
    ResourceClaimParameters,
    ResourceClassParameters,
    ResourceFilter,
    ResourceRequest,
)
from allotment.api.semver import Version, VersionError
from allotment.client.form import Obj
from allotment.controllers.semantic.translator import Translation, Untranslatable, snapshot
from allotment.controllers.semantic.vendor_kinds import VendorKind

DRIVER = "cards.dra.example.com"
GROUP, VERSION = "dra.example.com", "v1alpha1"


class CardParameters:
    """``count`` cards, each with at least this runtime and this much memory. ``sharing`` is for setting them up and plays
    no part in choosing them: the driver finds it in the copy of the object."""

    name = f"{DRIVER}/claims"
    kind = VendorKind(GROUP, "CardParameters", VERSION)
    makes = ResourceClaimParameters

    def translate(self, obj: Obj) -> Translation:
        spec = obj["spec"]
        terms = []
        if runtime := spec.get("minimumRuntimeVersion"):
            try:
                Version.parse_tolerant(runtime)
            except VersionError as exc:
                return Untranslatable(f"spec.minimumRuntimeVersion: {exc}")
            terms.append(f'versions["runtimeVersion"] >= {_quoted(runtime)}')
        if memory := spec.get("minimumMemory"):
            try:
                Quantity.parse(memory)
            except QuantityError as exc:
                return Untranslatable(f"spec.minimumMemory: {exc}")
            terms.append(f'quantities["memory"] >= {_quoted(memory)}')
        selector = " && ".join(terms) or "true"
        cards = tuple(
            PartitionableResourceRequest(name=f"selected-gpu-{number}", selector=selector)
            for number in range(spec.get("count", 1))
        )
        request = ResourceRequest(
            driver_name=DRIVER, partitionable=PartitionableResourceRequests(required=cards)
        )
        return ResourceClaimParameters(vendor_parameters=snapshot(obj), requests=(request,))


class CardClassParameters:
    """Only cards, and parts of cards, of at most ``maximumMemory``."""

    name = f"{DRIVER}/classes"
    kind = VendorKind(GROUP, "CardClassParameters", VERSION)
    makes = ResourceClassParameters

    def translate(self, obj: Obj) -> Translation:
        memory = obj["spec"]["maximumMemory"]
        try:
            Quantity.parse(memory)
        except QuantityError as exc:
            return Untranslatable(f"spec.maximumMemory: {exc}")
        selector = PartitionableResourceFilter(selector=f'quantities["memory"] <= {_quoted(memory)}')
        return ResourceClassParameters(filters=(ResourceFilter(driver_name=DRIVER, partitionable=selector),))


def _quoted(text: str) -> str:
    """A string of the expression language, so that no text can become more of the expression."""
    return json.dumps(text, ensure_ascii=False)
