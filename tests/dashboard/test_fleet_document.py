"""What the page says about devices that its reader may not see."""

from __future__ import annotations

import pytest

from allotment.dashboard.fleet_document import notes
from allotment.dashboard.rights import Namespaces, Rights

ALL = Namespaces(everywhere=True)
SOME = Namespaces(names=frozenset({"team-b", "team-a"}))
MANY = Namespaces(names=frozenset(f"n{number}" for number in range(8)))


def devices(
    claims: Namespaces = ALL, pods: Namespaces = ALL, *, rules: bool = True, pools: bool = True
) -> Rights:
    return Rights(slices=True, node_slices=True, rules=rules, pools=pools, claims=claims, pods=pods)


NOTES: dict[str, tuple[Rights, list[str]]] = {
    "everything": (devices(), []),
    "some claims": (
        devices(SOME),
        [
            "You may see only claims of namespaces team-a, team-b: for other claims, only the number of their devices is shown."
        ],
    ),
    "some claims and no counts": (
        devices(SOME, pools=False),
        ["You may see only claims of namespaces team-a, team-b: what others hold is unknown."],
    ),
    "no claims": (
        devices(Namespaces()),
        ["You may see no claims: for other claims, only the number of their devices is shown."],
    ),
    "many namespaces": (
        devices(pods=MANY),
        ["You may see only pods of namespaces n0, n1, n2, n3, n4 and 3 more."],
    ),
    "no pods": (devices(pods=Namespaces()), ["You may see no pods."]),
    "no rules": (
        devices(rules=False),
        ["You may not list and watch devicetaintrules: taints from these rules are not shown."],
    ),
    "counts alone": (
        Rights(pools=True, pods=ALL),
        [
            "You may not list and watch resourceslices: devices are not shown, and pools only with their counts."
        ],
    ),
    "nothing": (
        Rights(),
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
