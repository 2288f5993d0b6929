"""What Kubernetes charges for the calls of its libraries, by function name.

Upstream prices a call by the *name* of the function, whatever library it comes from: ``indexOf`` of a string
and of a list are one entry. So the prices live together here, and every library attaches those of its names.
The static estimate and the actual cost are separate rules upstream and do not always agree (``validate``
assumes one pattern length beforehand and knows the real one afterwards); both have to match to the unit, down
to how a float product rounds.

The prices that cel-go's own ``lists`` and ``sets`` extensions attach to overloads live in those modules.
"""

import math
from collections.abc import Callable, Sequence

from allotment.cel.ast import Literal
from allotment.cel.declare import Function, NamedEstimate, NamedRuntimeCost, Overload
from allotment.cel.estimate import (
    MAX_COST,
    ONE,
    REGEX_LENGTH,
    STRING_TRAVERSAL,
    ArgumentSizes,
    CallEstimate,
    EstimatedArgument,
    Range,
)
from allotment.cel.library.naming import NamedFormat
from allotment.cel.types import TypeKind
from allotment.cel.values import Value, key_value, size_of

Nodes = Sequence[EstimatedArgument]
Values = Sequence[Value]

_ASSUMED_PATTERN = 128
_ADDRESS = Range(4, 16)
_MOST_PRICED_STEPS = 1_000_000


def priced(name: str, *overloads: Overload) -> Function:
    """A function with its price, if its name has one."""
    estimate, runtime = PRICES.get(name, (None, None))
    return Function(name, overloads, estimate, runtime)


def scan(value: Value, factor: float = STRING_TRAVERSAL) -> int:
    """Actual cost of looking at all of a value's characters, bytes or entries once."""
    return math.ceil(size_of(value) * factor)


def traversal(value: Value) -> int:
    """Actual cost of walking a value as a tree: a tenth a byte of text (rounded down), one for other leaves.

    Values share parts, so a small one can be a huge tree; beyond a million steps the walk stops and the cost
    is the maximum, which no limit admits.
    """
    cost = steps = 0
    pending = [value]
    while pending:
        steps += 1
        if steps > _MOST_PRICED_STEPS:
            return MAX_COST
        item = pending.pop()
        kind = type(item)
        if kind is str:
            cost += int(len(item.encode("utf-8", "surrogatepass")) * STRING_TRAVERSAL)
        elif kind is bytes:
            cost += int(len(item) * STRING_TRAVERSAL)
        elif kind is list:
            pending.extend(item)
            steps += len(item) // 16  # pushing is cheaper than visiting, yet not free
        elif isinstance(item, dict):
            pending.extend(map(key_value, item))
            pending.extend(item.values())
        else:
            cost += 1
    return cost


def _estimate_walk(includes: bool) -> NamedEstimate:
    def estimate(
        sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
    ) -> CallEstimate | None:
        if target is None:
            return None
        element = sizes.element(target)
        if element is None and not includes:
            return CallEstimate(sizes.of(target).times(STRING_TRAVERSAL))  # a string, or nothing known
        cost = ONE
        if element is not None and element.type.kind in (TypeKind.STRING, TypeKind.BYTES):
            cost += sizes.of(element).times(STRING_TRAVERSAL)
        return CallEstimate(sizes.of(target) * cost)

    return estimate


def _walk_cost(overload: str, args: Values, result: Value) -> int:
    return traversal(args[0])


def _estimate_argument(factor: float, *, keeps_size: bool = False) -> NamedEstimate:
    def estimate(
        sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
    ) -> CallEstimate | None:
        if not args:
            return None
        size = sizes.of(args[0])
        return CallEstimate(size.times(factor), size if keeps_size else None)

    return estimate


def _estimate_receiver(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None:
        return None
    size = sizes.of(target)
    return CallEstimate(size.times(STRING_TRAVERSAL), size)


def _scan_cost(overload: str, args: Values, result: Value) -> int:
    return scan(args[0])


def _double_scan_cost(overload: str, args: Values, result: Value) -> int:
    return math.ceil(size_of(args[0]) * 2 * STRING_TRAVERSAL)


def _estimate_replace(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = sizes.of(target), sizes.of(args[0]), sizes.of(args[1])
    most = _replaced(size.max, old.min, new.max, grows=new.max > old.min)
    least = _replaced(size.min, old.max, new.min, grows=old.max > new.min)
    return CallEstimate(size.times(2 * STRING_TRAVERSAL), Range(least, most))


def _replaced(size: int, old: int, new: int, *, grows: bool) -> int:
    """Length after replacing as often as can be, or no change where replacing would not push the bound."""
    if old == 0:
        return min(min(size + 1, MAX_COST) * new + size, MAX_COST)
    if not grows:
        return size
    return min(math.ceil(float(size) / float(old)) * new, MAX_COST)


def _estimate_split(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None:
        return None
    size = sizes.of(target)
    most = size.max
    limit = args[1].expr if len(args) > 1 else None
    if isinstance(limit, Literal) and type(limit.value) is int:
        most = limit.value % 2**64
    return CallEstimate(size.times(2 * STRING_TRAVERSAL), Range(0, most))


def _estimate_join(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None:
        return None
    count = sizes.of(target)
    element = sizes.element(target)
    size = count * sizes.of(element) if element is not None else Range(0, 0)
    if args:
        size += sizes.of(args[0]) * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return CallEstimate(size.times(STRING_TRAVERSAL), size)


def _join_cost(overload: str, args: Values, result: Value) -> int:
    return math.ceil(size_of(result) * 2 * STRING_TRAVERSAL)


def _estimate_find(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None or not args:
        return None
    size = sizes.of(target)
    cost = (size + ONE).times(STRING_TRAVERSAL) * sizes.of(args[0]).times(REGEX_LENGTH)
    return CallEstimate(cost, Range(0, size.max))


def regex_cost(text: int, pattern: int) -> int:
    return math.ceil((1.0 + text) * STRING_TRAVERSAL) * math.ceil(pattern * REGEX_LENGTH)


def _find_cost(overload: str, args: Values, result: Value) -> int:
    return regex_cost(size_of(args[0]), size_of(args[1]))


def _estimate_ip(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    return CallEstimate(ONE) if overload == "cidr_ip" else _ARGUMENT(sizes, overload, target, args)


def _ip_cost(overload: str, args: Values, result: Value) -> int:
    return 1 if overload == "cidr_ip" else scan(args[0])


def _estimate_contains(text_overload: str, mask: Range) -> NamedEstimate:
    base = (_ADDRESS + _ADDRESS).times(STRING_TRAVERSAL) + mask

    def estimate(
        sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
    ) -> CallEstimate | None:
        if not args:
            return None
        parse = sizes.of(args[0]).times(STRING_TRAVERSAL) if overload == text_overload else Range(0, 0)
        return CallEstimate(base + parse)

    return estimate


def _contains_ip_cost(overload: str, args: Values, result: Value) -> int:
    parse = scan(args[1]) if overload == "cidr_contains_ip_string" else 0
    return math.ceil((size_of(args[0]) * 2) * STRING_TRAVERSAL) + parse


def _contains_cidr_cost(overload: str, args: Values, result: Value) -> int:
    parse = scan(args[1]) if overload == "cidr_contains_cidr_string" else 0
    return math.ceil((size_of(args[0]) * 2) * STRING_TRAVERSAL) + scan(args[0]) + 1 + parse


def _estimate_validate(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if not args:
        return None
    return CallEstimate(sizes.of(args[0]).times(STRING_TRAVERSAL).times(_ASSUMED_PATTERN * REGEX_LENGTH))


def _validate_cost(overload: str, args: Values, result: Value) -> int | None:
    if len(args) < 2 or not isinstance(args[0], NamedFormat):
        return None
    return regex_cost(size_of(args[1]), args[0].regex_size)


def _one(sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Nodes) -> CallEstimate:
    return CallEstimate(ONE)


def _one_cost(overload: str, args: Values, result: Value) -> int:
    return 1


_ARGUMENT = _estimate_argument(STRING_TRAVERSAL)
_Price = tuple[NamedEstimate, NamedRuntimeCost]


def _each(
    names: str, estimate: NamedEstimate, cost: Callable[[str, Values, Value], int | None]
) -> dict[str, _Price]:
    return dict.fromkeys(names.split(), (estimate, cost))


PRICES: dict[str, _Price] = {
    **_each("isSorted sum max min indexOf lastIndexOf", _estimate_walk(includes=False), _walk_cost),
    **_each("includes", _estimate_walk(includes=True), _walk_cost),
    **_each("lowerAscii upperAscii substring trim", _estimate_receiver, _scan_cost),
    **_each("replace", _estimate_replace, _double_scan_cost),
    **_each("split", _estimate_split, _double_scan_cost),
    **_each("join", _estimate_join, _join_cost),
    **_each("find findAll", _estimate_find, _find_cost),
    **_each("url", _estimate_argument(STRING_TRAVERSAL, keeps_size=True), _scan_cost),
    **_each("cidr isIP isCIDR quantity isQuantity semver isSemver", _ARGUMENT, _scan_cost),
    **_each("ip", _estimate_ip, _ip_cost),
    **_each("ip.isCanonical", _estimate_argument(2 * STRING_TRAVERSAL), _double_scan_cost),
    **_each("containsIP", _estimate_contains("cidr_contains_ip_string", Range(0, 0)), _contains_ip_cost),
    **_each(
        "containsCIDR",
        _estimate_contains("cidr_contains_cidr_string", _ADDRESS.times(STRING_TRAVERSAL) + ONE),
        _contains_cidr_cost,
    ),
    **_each("validate", _estimate_validate, _validate_cost),
    **_each(
        "masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast "
        "format.named sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub "
        "major minor patch getScheme getHostname getHost getPort getEscapedPath getQuery",
        _one,
        _one_cost,
    ),
}
