"""Prices in the form in which people write them."""

from __future__ import annotations

from decimal import Decimal


def price(amount: Decimal) -> str:
    """With two decimals, or as many as needed: 1,200.00, 0.30, 0.0621."""
    exact = amount.normalize()
    places = -int(exact.as_tuple().exponent)
    return f"{exact:,.2f}" if places <= 2 else f"{exact:,f}"
