"""Match and distinct constraints, decided from scratch over all devices they apply to."""

from typing import Any

Json = dict[str, Any]
KINDS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))


def applies(constraint: Json, request: str, subrequest: str | None) -> bool:
    named = constraint.get("requests") or []
    return not named or request in named or (subrequest is not None and f"{request}/{subrequest}" in named)


def own_attribute(device: Json, driver: str, name: str) -> Json | None:
    """The device's own attribute: by its qualified name, else by the bare id where the domain is the driver."""
    attributes: dict[str, Json] = device.get("attributes") or {}
    if name in attributes:
        return attributes[name]
    domain, slash, bare = name.partition("/")
    return attributes.get(bare) if slash and domain == driver else None


def agree(constraint: Json, values: list[Json | None], lists: bool) -> bool:
    """Whether devices with these values of the attribute may go together, added in this order."""
    if any(value is None for value in values):
        return False
    present = [value for value in values if value is not None]
    matching = constraint.get("matchAttribute") is not None
    if lists:
        return _sets_match(present) if matching else _sets_differ(present)
    first = present[0]
    if matching:
        return all(_scalar(v) is not None and _same(_scalar(v), first) for v in present[1:])
    return all(
        index == 0
        or (_scalar(value) is not None and not any(_same(_scalar(value), other) for other in present[:index]))
        for index, value in enumerate(present)
    )


def _scalar(value: Json) -> tuple[str, Any] | None:
    for kind in ("string", "int", "bool", "version"):
        if value.get(kind) is not None:
            return kind, value[kind]
    return None


def _same(scalar: tuple[str, Any] | None, other: Json) -> bool:
    return scalar is not None and other.get(scalar[0]) == scalar[1]


def _as_set(value: Json) -> tuple[str, frozenset[Any]] | None:
    for many, one in KINDS:
        if value.get(many):
            return one, frozenset(value[many])
    for _, one in KINDS:
        if value.get(one) is not None:
            return one, frozenset([value[one]])
    return None


def _sets_match(values: list[Json]) -> bool:
    sets = [_as_set(value) for value in values]
    kinds = {s[0] for s in sets if s is not None}
    if None in sets or len(kinds) > 1:
        return False
    return bool(frozenset.intersection(*(s[1] for s in sets if s is not None)))


def _sets_differ(values: list[Json]) -> bool:
    sets = [_as_set(value) for value in values]
    return None not in sets and not any(
        a is not None and b is not None and a[0] == b[0] and a[1] & b[1]
        for index, a in enumerate(sets)
        for b in sets[:index]
    )
