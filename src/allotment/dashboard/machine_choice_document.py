"""The machines that can be launched, for the page of machines: overlays with their effects, and types after overlays."""

from __future__ import annotations

from typing import Any

from allotment.api.autoscaling import VALIDATION_SUCCEEDED
from allotment.autoscaler.catalogue.catalogue_summary import SummaryLine, assortment, says
from allotment.autoscaler.catalogue.overlay_status import conditions
from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue, OverlayFinding
from allotment.dashboard.cut_text import LONGEST_SHOWN_TEXT, said
from allotment.dashboard.price import price

ROWS_LISTED = 200
"""How many overlays and types are listed; of more, only the number is given."""
_ITEMS_SHOWN = 12
"""How many types and problems of one overlay are listed."""


def choice_document(found: OverlaidCatalogue) -> dict[str, Any]:
    """Overlays with something wrong come first."""
    overlays = sorted(map(overlay_document, found.findings.values()), key=lambda row: not row["wrong"])
    lines = assortment(found)
    return {
        "overlays": {"count": len(overlays), "rows": overlays[:ROWS_LISTED]},
        "types": {"count": len(lines), "rows": [type_document(each) for each in lines[:ROWS_LISTED]]},
    }


def overlay_document(finding: OverlayFinding) -> dict[str, Any]:
    """The effect of an overlay here. Its own status may differ, because its author may have another catalogue."""
    overlay = finding.overlay
    reason = conditions(finding)[0].reason
    problems = list(dict.fromkeys([*finding.errors, *map(str, finding.conflicts)]))
    stated = next((each for each in overlay.status.conditions if each.type == VALIDATION_SUCCEEDED), None)
    if not problems and stated is not None and stated.status == "False":
        problems, reason = [said(stated)], stated.reason
    types = list(dict.fromkeys(name.split("/")[1] for name in finding.applies))
    return {
        "name": overlay.metadata.name,
        "inFile": not overlay.metadata.uid,
        "weight": overlay.spec.weight or 0,
        "says": list(says(overlay))[:_ITEMS_SHOWN],
        "machines": len(finding.applies),
        "types": types[:_ITEMS_SHOWN],
        "moreTypes": len(types[_ITEMS_SHOWN:]),
        "wrong": bool(problems),
        "reason": reason if problems else "",
        "problems": [each[:LONGEST_SHOWN_TEXT] for each in problems[:_ITEMS_SHOWN]],
        "moreProblems": len(problems[_ITEMS_SHOWN:]),
    }


def type_document(line: SummaryLine) -> dict[str, Any]:
    first = line.machines[0]
    return {
        "source": first.source,
        "type": first.type,
        "zones": line.zones,
        "capacityTypes": line.capacity_types,
        "prices": [price(each) for each in line.prices],
        "listed": [price(each) for each in line.listed],
        "soldOut": line.sold_out,
        "capacity": {name: str(amount) for name, amount in line.capacity.items()},
        "devices": list(line.devices()),
        "overlays": list(line.overlays),
    }
