"""Kubernetes' quantity functions. The amount itself is :class:`allotment.api.quantity.Quantity`."""

from operator import gt, lt

from allotment.api.quantity import Format, Quantity, QuantityError
from allotment.cel.declare import Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.pricing import priced
from allotment.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from allotment.cel.values import CLASS_NAMES

CLASS_NAMES[Quantity] = QUANTITY.name  # the class lives below this package and cannot name its type itself


def parse(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as exc:
        raise CelRuntimeError(str(exc)) from exc


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def as_integer(amount: Quantity) -> int:
    whole = amount.as_int64()
    if whole is None:
        raise CelRuntimeError("cannot convert value to integer")
    return whole


def is_integer(amount: Quantity) -> bool:
    return amount.as_int64() is not None


def compare(left: Quantity, right: Quantity) -> int:
    return (left > right) - (left < right)


def add(left: Quantity, right: Quantity) -> Quantity:
    try:
        return left + right
    except QuantityError as exc:
        raise CelRuntimeError(str(exc)) from exc


def subtract(left: Quantity, right: Quantity) -> Quantity:
    try:
        return left - right
    except QuantityError as exc:
        raise CelRuntimeError(str(exc)) from exc


def add_int(left: Quantity, right: int) -> Quantity:
    return add(left, Quantity.of(right, Format.DECIMAL_EXPONENT))


def subtract_int(left: Quantity, right: int) -> Quantity:
    return subtract(left, Quantity.of(right, Format.DECIMAL_EXPONENT))


def _sign(amount: Quantity) -> int:
    return amount.sign


_PAIR = (QUANTITY, QUANTITY)
_WITH_INT = (QUANTITY, INT)

LIBRARY = Library(
    "kubernetes.quantity",
    (
        priced("quantity", Overload("string_to_quantity", (STRING,), QUANTITY, parse)),
        priced("isQuantity", Overload("is_quantity_string", (STRING,), BOOL, is_quantity)),
        priced("sign", Overload("quantity_sign", (QUANTITY,), INT, _sign)),  # a global function upstream
        priced("isGreaterThan", Overload("quantity_is_greater_than", _PAIR, BOOL, gt, member=True)),
        priced("isLessThan", Overload("quantity_is_less_than", _PAIR, BOOL, lt, member=True)),
        priced("compareTo", Overload("quantity_compare_to", _PAIR, INT, compare, member=True)),
        priced(
            "asApproximateFloat",
            Overload("quantity_get_float", (QUANTITY,), DOUBLE, Quantity.approximate_float, member=True),
        ),
        priced("asInteger", Overload("quantity_get_int", (QUANTITY,), INT, as_integer, member=True)),
        priced("isInteger", Overload("quantity_is_integer", (QUANTITY,), BOOL, is_integer, member=True)),
        priced(
            "add",
            Overload("quantity_add", _PAIR, QUANTITY, add, member=True),
            Overload("quantity_add_int", _WITH_INT, QUANTITY, add_int, member=True),
        ),
        priced(
            "sub",
            Overload("quantity_sub", _PAIR, QUANTITY, subtract, member=True),
            Overload("quantity_sub_int", _WITH_INT, QUANTITY, subtract_int, member=True),
        ),
    ),
)
