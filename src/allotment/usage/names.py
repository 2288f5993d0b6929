"""Names of ResourcePool objects. The object's spec identifies the pool; the name is only for people.

KEP-5677 uses ``<driver>.<pool>``. Kubernetes does not always accept that name: a pool's name may contain ``/``, a driver's
may contain capitals, and the result may be too long. Nor is it always unique: ``a.b`` and ``c.d`` give the same name as
``a.b.c`` and ``d``. In these cases we keep what we can of it and append a short hash of driver and pool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from typing import TYPE_CHECKING

from allotment.api.names import SUBDOMAIN_LENGTH, dns_subdomain_problem

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID

__all__ = ["pool_object_name"]

_HASH_LENGTHS = (10, 20, 40)
_FOREIGN = re.compile(r"[^a-z0-9.-]+")
_RAGGED = re.compile(r"[-.]*\.[-.]*")  # a part of a subdomain neither starts nor ends with a dash


def pool_object_name(pool: PoolID, taken: Container[str] = ()) -> str:
    """A valid name that is not in ``taken``, the names of objects for other pools.

    The same arguments always give the same name. An existing object keeps its name, whatever is taken later.
    """
    plain = f"{pool.driver}.{pool.pool}"
    if dns_subdomain_problem(plain) is None and plain not in taken:
        return plain
    digest = hashlib.sha256(f"{pool.driver}\0{pool.pool}".encode()).hexdigest()
    readable = _RAGGED.sub(".", _FOREIGN.sub("-", plain.lower())).strip("-.")
    for length in _HASH_LENGTHS:
        kept = readable[: SUBDOMAIN_LENGTH - length - 1].rstrip("-.")
        name = f"{kept}-{digest[:length]}" if kept else digest[:length]
        if name not in taken:
            return name
    raise ValueError(f"every name for the pool {pool} is taken; remove objects that stand for no pool")
