"""Bodies on their way in, where they are not what their path says."""

from typing import Any

import pytest

from allotment.api.schema.schema import schema_of
from allotment.api.status import Invalid
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.body import accepted
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.catalogue import ResourceCatalogue
from allotment.apiserver.registry.resource import Resource

CALL = WriteContext(ADMINISTRATOR, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize("metadata", [None, "x", 1, [], {"name": 1}, {"name": ["a"]}])
def test_another_kind_is_refused_whatever_its_metadata_is(metadata: Any) -> None:
    schema = schema_of("v1", "ConfigMap")
    widgets = Resource(
        group="example.com",
        version="v1",
        kind="Widget",
        plural="widgets",
        namespaced=True,
        schemas={"v1": schema},
        readers={"v1": lambda obj: pytest.fail("it is no Widget")},
    )
    sent = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata}
    with pytest.raises(Invalid, match="must be Widget"):
        accepted(ResourceCatalogue().hub(widgets), sent, [], CALL)
