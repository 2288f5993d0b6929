"""What Kubernetes charges for ``==`` between values of its own types: one, whatever their size.

It adds no overload, only a price for the operator that the standard library declares; without it, comparing
two addresses would cost by the byte, and two quantities, whose size nobody knows, without bound. ``!=`` has no
such price upstream.
"""

from allotment.api.quantity import Quantity
from allotment.api.semver import Version
from allotment.cel.declare import Function, Library
from allotment.cel.estimate import ONE, STRING_TRAVERSAL, CallEstimate, Node, Range, Sizes
from allotment.cel.library.address import CIDR as Network
from allotment.cel.library.address import IP as Address
from allotment.cel.library.locator import URL as Locator
from allotment.cel.library.naming import NamedFormat
from allotment.cel.library.pricing import Nodes, Values
from allotment.cel.types import CIDR, FORMAT, IP, QUANTITY, SEMVER, URL
from allotment.cel.values import Value

_LONGEST_FORMAT = 64
_UNIT = frozenset({IP, CIDR, QUANTITY, SEMVER})
_CLASSES = frozenset({Address, Network, Quantity, Version, NamedFormat, Locator})


def _estimate(sizes: Sizes, overload: str, target: Node | None, args: Nodes) -> CallEstimate | None:
    if len(args) != 2 or args[0].type != args[1].type:
        return None
    type_ = args[0].type
    if type_ in _UNIT:
        return CallEstimate(ONE)
    if type_ == FORMAT:
        return CallEstimate(Range(1, _LONGEST_FORMAT).times(STRING_TRAVERSAL))
    if type_ == URL:
        longest = args[1].computed or ONE  # upstream asks the right side twice
        return CallEstimate(Range(1, longest.max).times(STRING_TRAVERSAL))
    return None


def _cost(overload: str, args: Values, result: Value) -> int | None:
    return 1 if type(args[0]) in _CLASSES else None


LIBRARY = Library("kubernetes.equality", (Function("_==_", (), _estimate, _cost),))
