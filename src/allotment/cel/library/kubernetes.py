"""The libraries that every expression in Kubernetes has: device selectors and rules of custom resources alike."""

from __future__ import annotations

from typing import Final

from allotment.cel import equality
from allotment.cel.declare import Library
from allotment.cel.library import (
    cidr,
    comprehensions,
    ip,
    lists,
    optionals,
    quantity,
    regex,
    reshape,
    semver,
    sets,
    standard,
    strings,
    urls,
)
from allotment.cel.library import format as named_format

KUBERNETES: Final[tuple[Library, ...]] = (
    standard.LIBRARY,
    urls.LIBRARY,
    regex.LIBRARY,
    lists.LIBRARY,
    optionals.LIBRARY,
    quantity.LIBRARY,
    strings.LIBRARY,
    sets.LIBRARY,
    ip.LIBRARY,
    cidr.LIBRARY,
    named_format.LIBRARY,
    comprehensions.LIBRARY,
    semver.LIBRARY,
    reshape.LIBRARY,
    equality.LIBRARY,
)
