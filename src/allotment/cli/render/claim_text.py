"""A claim in detail, as ``allot describe claim`` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from allotment.api.text import plural
from allotment.api.timestamps import moment
from allotment.cli.render.pool_description import field
from allotment.insight.findings import Finding
from allotment.insight.usage_document import UNKNOWN

if TYPE_CHECKING:
    from allotment.cli.render.screen import Cell, Screen
from allotment.insight.claim_facts import ALLOCATED, DELETING, IN_USE, PENDING, ClaimFacts, HeldDevice

_STYLES = {PENDING: "yellow", ALLOCATED: "cyan", IN_USE: "green", DELETING: "red"}


def show_claim(facts: ClaimFacts, screen: Screen, now: datetime) -> None:
    meta, status = facts.claim.metadata, facts.claim.status
    field(screen, "Name", meta.name)
    field(screen, "Namespace", meta.namespace)
    field(screen, "Created", _age(meta.creation_timestamp, now))
    field(screen, "State", _state_words(facts), style=_STYLES[facts.state])
    for wish in facts.wishes:
        field(screen, "Asks for", wish)
    users = [f"{user.resource.removesuffix('s')} {user.name}" for user in status.reserved_for]
    field(screen, "Users", ", ".join(users) or "<none>")
    if facts.devices:
        screen.heading("Devices")
        columns = ("request", "device", "pool", "driver", "node", "share", "published")
        screen.table(columns, [device_row(each) for each in facts.devices])
    show_problems(facts.problems, screen)


def show_problems(problems: Sequence[Finding], screen: Screen) -> None:
    """The problems of a claim, each with the next step."""
    if problems:
        screen.heading("Problems")
    for each in problems:
        screen.line((each.kind, "bold red"), f": it {each.message}")
        screen.line(f"next: {each.step}", indent=2)


def device_row(held: HeldDevice) -> list[Cell]:
    info = held.info
    share = " ".join(f"{name}={amount}" for name, amount in sorted(info.capacity.items()))
    if info.admin_access:
        share = "admin access"
    elif not share:
        share = "whole" if info.share_id is None else "a share"
    words = {True: ("yes", "green"), False: ("no", "red"), None: (UNKNOWN, "dim")}
    place = (held.pool.pool, held.pool.driver, held.node or "-")
    return [info.request, held.device, *place, share, words[held.published]]


def _state_words(facts: ClaimFacts) -> str:
    users = len(facts.claim.status.reserved_for)
    return {
        PENDING: "pending: it has no devices yet; the scheduler allocates them when it places a pod that uses the claim",
        ALLOCATED: "allocated, but used by nobody",
        IN_USE: f"allocated, used by {plural(users, 'consumer')}",
        DELETING: "being deleted" + (f", still used by {plural(users, 'consumer')}" if users else ""),
    }[facts.state]


def _age(created: str | None, now: datetime) -> str:
    begun = moment(created)
    if begun is None:
        return created or UNKNOWN
    seconds = int((now - begun).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{created} ({seconds // size}{unit} ago)"
    return f"{created} ({max(seconds, 0)}s ago)"
