"""The Python clients that people use, against our server over TLS."""

from __future__ import annotations

import pytest

from tests.contract.api import Api
from tests.contract.conftest import fresh as fresh
from tests.contract.embedded import Embedded


@pytest.fixture
def namespace(embedded: Embedded, fresh: str) -> str:
    api = Api("process", embedded.in_process(), embedded.forget)
    api.post("/api/v1/namespaces", {"metadata": {"name": fresh}}).must(201)
    return fresh
