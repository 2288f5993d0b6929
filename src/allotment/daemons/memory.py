"""Memory of processes that run long: what is freed goes back to the system, and what stays is left alone."""

from __future__ import annotations

import contextlib
import ctypes
import gc

COLLECT_AT = 100_000
"""Objects by which Python's may grow before the collector looks for circles among the new ones. A write makes hundreds
and leaves some, none of them in circles, and the collector looks at each that is left several times: at 700, as Python
has it, or at 10,000 that takes the components a tenth of their time."""

RETURNED_BYTES = 128 * 1024
"""Bytes from which on a piece of memory is given back by itself."""


def return_large_memory() -> None:
    """Has glibc give large pieces back to the system when they are freed; left alone, it keeps more and more of them after
    the first large reply. Other C libraries have no such dial and need none."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, RETURNED_BYTES)  # M_MMAP_THRESHOLD


def spare_collector() -> None:
    """Has Python's collector leave alone what is there after the start (code, schemas, the store's records), and look
    less often at the rest."""
    gc.freeze()
    gc.set_threshold(COLLECT_AT)
