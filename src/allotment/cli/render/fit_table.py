"""How many more claims of each shape fit, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.insight.claim_facts import wishes
from allotment.usage.remaining import Fits

if TYPE_CHECKING:
    from allotment.cli.render.screen import Cell, Screen
from allotment.insight.fit import Fit

_MOST_PLACES = 40


def show_fit(fit: Fit, screen: Screen, *, wide: bool) -> None:
    """Shows the cluster's number first, then the nodes and pools where one fits (all of them, if wide)."""
    cluster = fit.remaining.cluster
    style = "bold green" if cluster.number else "bold red"
    screen.line((fit.name, "bold"), f" ({'; '.join(wishes(fit.claim))})")
    why = f": {cluster.words}" if cluster.words and not cluster.number else ""
    verb = "fits" if cluster.number == 1 else "fit"
    screen.line((fit.words(cluster) if cluster.number else "no", style), f" more {verb} in the cluster{why}")
    nodes = {name: fits for name, fits in fit.remaining.nodes.items() if wide or fits.number}
    pools = {
        f"{id.driver}/{id.pool}": fits for id, fits in fit.remaining.pools.items() if wide or fits.number
    }
    for column, places in (("node", nodes), ("pool", pools)):
        if places:
            screen.heading(f"By {column}")
            _show_places(column, places, fit, screen, wide=wide)


def _show_places(column: str, places: Mapping[str, Fits], fit: Fit, screen: Screen, *, wide: bool) -> None:
    ordered = sorted(places.items(), key=lambda place: (-place[1].number, place[0]))
    shown = ordered if wide else ordered[:_MOST_PLACES]
    columns = [
        column,
        "more fit",
        *(["why no more"] if wide and any(fits.words for _, fits in shown) else []),
    ]
    rows = []
    for name, fits in shown:
        row: list[Cell] = [name, (fit.words(fits), "green" if fits.number else "dim"), fits.words]
        rows.append(row[: len(columns)])
    screen.table(columns, rows)
    if len(ordered) > len(shown):
        screen.line(f"... and {len(ordered) - len(shown)} more; -o wide shows all")
