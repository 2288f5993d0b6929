"""Machines for their page: everything first, as one JSON document, and later each part that changes, as a whole.

Long lists are cut: entries with problems come first, and the number of the others is given.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from typing import Any

from allotment.api.autoscaling import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_GROUP,
    NODE_POOL,
    ZONE,
    NodeClaim,
)
from allotment.apiserver.auth import users
from allotment.autoscaler.catalogue.node_claims import (
    AS_PREDICTED,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    ClaimProgress,
    state_of,
)
from allotment.dashboard.cut_text import said
from allotment.dashboard.machine_choice import MachineChoice, certain_labels
from allotment.dashboard.machine_view import CHOICE, CLAIMS, SOURCES, MachineView
from allotment.dashboard.person_view import PODS
from allotment.dashboard.price import price
from allotment.dashboard.rights import Rights, some
from allotment.dashboard.source_document import sources_document

ROWS_LISTED = 200
"""Rows of each list; of more, only the number is given."""
_STEPS = (LAUNCHED, REGISTERED, INITIALIZED)


class MachineTeller:
    """A teller (``event_stream``). It sends whole lists, and so not at every change."""

    pause = 0.2

    async def whole(self, view: MachineView) -> dict[str, Any]:
        every = self.changes(view, {SOURCES, CLAIMS, CHOICE, PODS}, checking=False)
        return {"whole": True, "notes": notes(view.rights), "catalogue": bool(view.catalogue.types), **every}

    def changes(self, view: MachineView, parts: Set[Hashable], *, checking: bool) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if parts & {CLAIMS, CHOICE}:
            told["claims"] = claims_document(view.claims(), view.choice)
        if parts & {SOURCES, CLAIMS, CHOICE}:
            told["sources"] = sources_document(view.pools(), view.groups(), view.claims(), view.choice)
        if CHOICE in parts:
            told |= view.choice.document
        if parts:
            told["waiting"] = {"count": len(view.waiting()), "version": view.version()}
        return told


def notes(rights: Rights) -> list[str]:
    """What is missing from the picture."""
    kinds = {
        "nodepools": rights.node_pools,
        "nodegroups": rights.node_groups,
        "nodeclaims": rights.node_claims,
        "nodeoverlays": rights.overlays,
    }
    missing = [name for name, may in kinds.items() if not may]
    told = []
    if missing:
        told.append(
            f"You may not list and watch {', '.join(missing)}: they are left out. The role {users.VIEWER} has these rights."
        )
    if not rights.pods.everywhere:
        whose = f"only pods of {some(rights.pods.names)}" if rights.pods.names else "no pods"
        told.append(f"You may see {whose}.")
    return told


# --- requested machines ---


def claims_document(claims: Iterable[NodeClaim], choice: MachineChoice) -> dict[str, Any]:
    """Those with problems first, then those on their way, the newest first."""
    rows = [claim_document(each, choice) for each in claims]
    rows.sort(key=lambda row: row["name"])
    rows.sort(key=lambda row: row["since"], reverse=True)
    rows.sort(key=lambda row: (not row["wrong"], row["state"] == ClaimProgress.INITIALIZED.value))
    states = [row["state"] for row in rows]
    return {
        "count": len(rows),
        "states": {
            state.value: states.count(state.value) for state in ClaimProgress if state.value in states
        },
        "rows": rows[:ROWS_LISTED],
    }


def claim_document(claim: NodeClaim, choice: MachineChoice) -> dict[str, Any]:
    labels, state = certain_labels(claim), state_of(claim)
    told = {each.type: each for each in claim.status.conditions}
    wrong = [
        told[type_] for type_ in (LAUNCHED, AS_PREDICTED) if type_ in told and told[type_].status == "False"
    ]
    waits = [told[type_] for type_ in _STEPS if type_ in told and told[type_].status != "True"]
    cost = choice.price_of(claim) if state is not ClaimProgress.FAILED else None
    return {
        "name": claim.metadata.name,
        "source": labels.get(NODE_POOL) or labels.get(NODE_GROUP) or "",
        "type": labels.get(INSTANCE_TYPE, ""),
        "zone": labels.get(ZONE, ""),
        "capacityType": labels.get(CAPACITY_TYPE, ""),
        "price": price(cost) if cost is not None else "",
        "node": claim.status.node_name or "",
        "state": state.value,
        "steps": [told[type_].status == "True" if type_ in told else False for type_ in _STEPS],
        "wrong": bool(wrong),
        "message": "; ".join(said(each) for each in (wrong or waits[:1]) if each.message or each.reason),
        "since": claim.metadata.creation_timestamp or "",
    }
