"""What can go wrong, as opposed to "does not fit", which is a value (see ``outcome``).

AllocationError          something about the input makes the question unanswerable
├── NodeError            on this node only; another node may still fit
└── ClaimError           the claim or its class is at fault, on every node
"""

from __future__ import annotations

import re

_NAMED = (
    (re.compile(r" (?:on|for) device \S+?(?=:| failed| cannot)"), ""),
    (re.compile(r"(?<=cannot add )device \S+|(?<=, and )device \S+"), "a device"),
    (re.compile(r"(?<=but )resource pool \S+"), "a resource pool"),
    (re.compile(r"(?<=^pool )\S+(?= is )"), "of devices"),
)


def nameless(words: str) -> str:
    """What an error or a reason says without the device or pool on which it came up, so that nodes with the same one are counted
    together."""
    for named, instead in _NAMED:
        words = named.sub(instead, words)
    return words


class AllocationError(Exception):
    """The question cannot be answered; the message names the object and what is wrong with it."""


class NodeError(AllocationError):
    """Broken pools kept this node from an answer. Another node may have one."""


class ClaimError(AllocationError):
    """A claim, class or expression is at fault. Trying another node does not help."""
