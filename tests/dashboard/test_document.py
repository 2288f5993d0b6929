"""What people are told about what they may not see."""

from __future__ import annotations

import pytest

from allotment.dashboard.document import notes
from allotment.dashboard.rights import EVERYTHING, FleetRights, Namespaces, Rights

ALL = Namespaces(everywhere=True)
SOME = Namespaces(names=frozenset({"team-b", "team-a"}))
MANY = Namespaces(names=frozenset(f"n{number}" for number in range(8)))


def devices(claims: Namespaces = ALL, *, rules: bool = True, pools: bool = True) -> FleetRights:
    return FleetRights(slices=True, node_slices=True, rules=rules, pools=pools, claims=claims)


NOTES: dict[str, tuple[Rights, list[str]]] = {
    "everything": (Rights(EVERYTHING, ALL), []),
    "some claims": (
        Rights(devices(SOME), ALL),
        [
            "You may see only claims of namespaces team-a, team-b: how many devices others hold is told, not which."
        ],
    ),
    "some claims and no counts": (
        Rights(devices(SOME, pools=False), ALL),
        ["You may see only claims of namespaces team-a, team-b: what others hold is not known."],
    ),
    "no claims": (
        Rights(devices(Namespaces()), ALL),
        ["You may see no claims: how many devices others hold is told, not which."],
    ),
    "many namespaces": (
        Rights(EVERYTHING, MANY),
        ["You may see only pods of namespaces n0, n1, n2, n3, n4 and 3 more."],
    ),
    "no pods": (Rights(EVERYTHING, Namespaces()), ["You may see no pods."]),
    "no rules": (
        Rights(devices(rules=False), ALL),
        ["You may not list and watch devicetaintrules: what they taint is shown as if it were not."],
    ),
    "counts alone": (
        Rights(FleetRights(pools=True), ALL),
        [
            "You may not list and watch resourceslices: devices are not shown, and pools only as they are counted."
        ],
    ),
    "nothing": (
        Rights(FleetRights(), Namespaces()),
        [
            "You may list and watch neither resourceslices nor resourcepools: no devices can be shown.",
            "You may see no pods.",
        ],
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_is_missing_is_said(case: str) -> None:
    rights, told = NOTES[case]
    assert notes(rights) == told
