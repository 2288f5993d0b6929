"""The versions besides v1 in which kinds of resource.k8s.io are served, with the way there and back."""

from __future__ import annotations

from typing import Final

from allotment.api.conversion import v1alpha2, v1beta1
from allotment.apiserver.registry.resource import ServedVersion

V1BETA2: Final = ServedVersion("v1beta2", deprecated="deprecated in v1.36+, unavailable in v1.39+")
V1BETA1: Final = ServedVersion(
    "v1beta1", v1beta1.to_v1, v1beta1.from_v1, deprecated="deprecated in v1.35+, unavailable in v1.38+"
)
V1ALPHA2: Final = ServedVersion("v1alpha2", v1alpha2.to_v1, v1alpha2.from_v1)
