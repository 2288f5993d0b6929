"""Quantities as exact fractions, parsed independently of the package under test."""

import re
from fractions import Fraction

_SUFFIXES = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_SUFFIXES |= {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)}
_SUFFIXES |= {f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)}
_FORM = re.compile(r"([+-]?\d*\.?\d*)(?:[eE]([+-]?\d+)|([A-Za-z]*))")


def exact(text: str | int | float) -> Fraction:
    """The value of a quantity as JSON writes it; below a nano it is rounded up, as Kubernetes does."""
    form = _FORM.fullmatch(str(text))
    if form is None or form[1] in ("", "+", "-", "."):
        raise ValueError(f"not a quantity: {text!r}")
    scale = Fraction(10) ** int(form[2]) if form[2] else _SUFFIXES[form[3] or ""]
    value = Fraction(form[1].rstrip(".") if form[1].endswith(".") else form[1]) * scale
    nanos = value * 10**9
    return value if nanos.denominator == 1 else Fraction(-((-nanos) // 1), 10**9)


def written(value: Fraction) -> str:
    """A text that reads back as the same value, not the canonical one."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{int(value * 10**9)}n"
