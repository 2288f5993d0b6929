"""Limits on what a single call may create or visit, independent of its cost.

Costs are charged after a call, by rules that are upstream's and not ours to change. Where those rules see
less than the work (a text repeated through ``replace``, a value that shares its parts a thousandfold), these
limits end the call first. They lie far beyond what fits the cost limit of a device selector.
"""

from typing import Final

from allotment.cel.errors import CelRuntimeError

LONGEST_TEXT: Final = 10_000_000
MOST_ENTRIES: Final = 1_000_000
DEEPEST_VALUE: Final = 100

COPYING: Final = frozenset({"_+_", "optional.unwrap", "unwrapOpt"})
"""Functions that copy lists at a price that does not grow with them."""


def check_length(length: int) -> None:
    """Ends a call that would make a text longer than any cost limit admits."""
    if length > LONGEST_TEXT:
        raise CelRuntimeError(f"result of {length} characters exceeds the limit of {LONGEST_TEXT}")


def check_copied(elements: int) -> None:
    """Ends an evaluation that has copied more elements than it could look at within any cost limit."""
    if elements > MOST_ENTRIES:
        raise CelRuntimeError(f"lists of more than {MOST_ENTRIES} elements in all were copied")
