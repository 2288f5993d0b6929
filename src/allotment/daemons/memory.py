"""Memory of long-running processes: freed memory returns to the system, and the garbage collector skips what stays."""

from __future__ import annotations

import contextlib
import ctypes
import gc

COLLECT_AT = 100_000
"""How many objects Python may add before the collector searches the new ones for cycles. A write creates hundreds of objects
and leaves some, none of them in cycles, and the collector visits each of those several times. With Python's default of 700,
or with 10,000, that takes a tenth of the components' time."""

RETURNED_BYTES = 128 * 1024
"""The size in bytes from which a block of memory is returned individually."""


def return_large_memory() -> None:
    """Makes glibc return large blocks to the system when they are freed; by default, it keeps more and more of them after the
    first large reply. Other C libraries have no such setting and need none."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, RETURNED_BYTES)  # M_MMAP_THRESHOLD


def spare_collector() -> None:
    """Makes Python's collector skip the objects that exist after the start (code, schemas, the store's records), and search
    the rest less often."""
    gc.freeze()
    gc.set_threshold(COLLECT_AT)
