"""What can go wrong, as opposed to "does not fit", which is a value (see ``outcome``).

AllocationError          something about the input makes the question unanswerable
├── NodeError            on this node only; another node may still fit
└── ClaimError           the claim or its class is at fault, on every node
"""


class AllocationError(Exception):
    """The question cannot be answered; the message names the object and what is wrong with it."""


class NodeError(AllocationError):
    """Broken pools kept this node from an answer. Another node may have one."""


class ClaimError(AllocationError):
    """A claim, class or expression is at fault. Trying another node does not help."""
