"""Names in definitions, judged in Kubernetes' words."""

from __future__ import annotations

import re
from typing import Final

from allotment.api.names import LABEL_LENGTH, dns_subdomain_problem
from allotment.apiserver.registry.metadata import name_problems

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def dns_1035_problems(name: str) -> list[str]:
    """What is wrong with a label that must begin with a letter."""
    problems = [f"must be no more than {LABEL_LENGTH} bytes"] if len(name.encode()) > LABEL_LENGTH else []
    return problems if _LABEL.fullmatch(name) else [*problems, _RULE]


def subdomain_problems(name: str) -> list[str]:
    return name_problems(dns_subdomain_problem, name)
