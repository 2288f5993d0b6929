"""What Kubernetes accepts as a name, by the kind of name.

Each function takes a text and returns what is wrong with it, as a sentence about the text, or None. Lengths are in
bytes, as Kubernetes counts them; a text that passes has as many characters.
"""

import re
from typing import Final

from allotment.api.text import quoted

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253
IDENTIFIER_LENGTH: Final = 32
DRIVER_LENGTH: Final = 63

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def dns_label_problem(text: str) -> str | None:
    """For devices, requests, counters: ``gpu-0``."""
    if not text:
        return "is required"
    if len(text) > LABEL_LENGTH or not _LABEL.fullmatch(text):
        return _problem(
            text,
            f"a DNS label: use lower-case letters, digits and '-' inside, at most {LABEL_LENGTH} characters",
        )
    return None


def dns_subdomain_problem(text: str) -> str | None:
    """For most objects, nodes and classes: ``gpu.example.com``."""
    if not text:
        return "is required"
    if len(text) > SUBDOMAIN_LENGTH or not _SUBDOMAIN.fullmatch(text):
        return _problem(
            text,
            f"a DNS subdomain: use lower-case letters, digits, '-' and '.' inside, at most {SUBDOMAIN_LENGTH} characters",
        )
    return None


def driver_problem(text: str) -> str | None:
    """For drivers and the domains of attributes: a short DNS subdomain in any case."""
    if not text:
        return "is required"
    if len(text) > DRIVER_LENGTH or not text.isascii() or not _SUBDOMAIN.fullmatch(text.lower()):
        return _problem(
            text,
            f"a driver name: use letters, digits, '-' and '.' as in gpu.example.com, at most {DRIVER_LENGTH} characters",
        )
    return None


def identifier_problem(text: str) -> str | None:
    """For the last part of attribute and capacity names: a C identifier."""
    if len(text) > IDENTIFIER_LENGTH or not _IDENTIFIER.fullmatch(text):
        return _problem(
            text,
            f"an identifier: use letters, digits and '_', no digit first, at most {IDENTIFIER_LENGTH} characters",
        )
    return None


def qualified_name_problem(text: str) -> str | None:
    """For attributes and capacities of devices: ``model`` or ``gpu.example.com/model``."""
    domain, slash, name = text.partition("/")
    if not slash:
        return identifier_problem(text)
    if "/" in name:
        return _problem(text, "a qualified name: write at most one '/'")
    if not domain or not name:
        return _problem(text, "a qualified name: write a domain, '/' and a name")
    return driver_problem(domain) or identifier_problem(name)


def label_key_problem(text: str) -> str | None:
    """For keys of labels and taints, and types of conditions: ``[domain/]name``."""
    if not text:
        return "is required"
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := dns_subdomain_problem(prefix)):
        return f"has a prefix that {problem}"
    if len(name) > LABEL_LENGTH or not _WORD.fullmatch(name):
        return _problem(
            text,
            f"a key: use letters, digits, '-', '_' and '.' inside, at most {LABEL_LENGTH} characters, with an optional domain and '/' before it",
        )
    return None


def label_value_problem(text: str) -> str | None:
    """For values of labels and taints, which may be empty."""
    if text and (len(text) > LABEL_LENGTH or not _WORD.fullmatch(text)):
        return _problem(
            text,
            f"a label value: use letters, digits, '-', '_' and '.' inside, at most {LABEL_LENGTH} characters",
        )
    return None


def word_problem(text: str) -> str | None:
    """For attributes of the partitionable model, in upper or lower case: ``runtimeVersion``, ``UUID``."""
    if not text:
        return "is required"
    if len(text) > SUBDOMAIN_LENGTH or not _WORD.fullmatch(text):
        return _problem(
            text,
            f"an attribute name: use letters, digits, '-', '_' and '.', at most {SUBDOMAIN_LENGTH} characters",
        )
    return None


def uuid_problem(text: str) -> str | None:
    """For share ids."""
    if not _UUID.fullmatch(text):
        return _problem(
            text, "a UUID in its usual form: 36 characters, lower-case hexadecimal digits and '-'"
        )
    return None


def extended_resource_problem(text: str) -> str | None:
    """For resources that pods ask for by number: ``example.com/gpu``, outside of kubernetes.io."""
    if (
        "/" not in text
        or "kubernetes.io/" in text
        or text.startswith("requests.")
        or label_key_problem(f"requests.{text}")
    ):
        return _problem(
            text, "an extended resource: write domain/name as in example.com/gpu, not in kubernetes.io"
        )
    return None


def is_node_allocatable(text: str) -> bool:
    """Whether this is one of the node's own resources, to which devices may map."""
    return text in ("cpu", "memory") or text.startswith("hugepages-")


def _problem(text: str, expected: str) -> str:
    return f"{quoted(text)} is not {expected}"
