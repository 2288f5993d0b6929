"""The status of a NodeOverlay: whether it can be applied and, if not, why and where.

Types and reasons are Karpenter's. Karpenter's message for a conflict contains no names; this one names machine types, drivers
and the other overlays, because overlays and types have no secrets from each other.
"""

from __future__ import annotations

from allotment.api.autoscaling import READY, VALIDATION_SUCCEEDED
from allotment.api.meta import Condition
from allotment.autoscaler.catalogue.overlays import LABEL, OverlayFinding

CONFLICT, RUNTIME_VALIDATION, UNKNOWN_LABEL = "Conflict", "RuntimeValidation", "UnknownLabel"
_CONFLICTS_SHOWN = 10


def conditions(finding: OverlayFinding) -> tuple[Condition, ...]:
    """The conditions as they should be now, without a time."""
    generation = finding.overlay.metadata.generation
    reason, message = _verdict(finding)
    holds = "False" if reason else "True"
    return (
        Condition(
            type=VALIDATION_SUCCEEDED,
            status=holds,
            reason=reason or VALIDATION_SUCCEEDED,
            message=message,
            observed_generation=generation,
        ),
        Condition(
            type=READY,
            status=holds,
            reason=reason or READY,
            message=f"{VALIDATION_SUCCEEDED}=False" if reason else "",
            observed_generation=generation,
        ),
    )


def _verdict(finding: OverlayFinding) -> tuple[str, str]:
    if finding.errors:
        return RUNTIME_VALIDATION, _listed(finding.errors)
    if finding.conflicts:
        clashes = [each for each in finding.conflicts if each.about != LABEL]
        return (CONFLICT if clashes else UNKNOWN_LABEL), _listed([str(each) for each in finding.conflicts])
    return "", ""


def _listed(texts: list[str]) -> str:
    """The first distinct names, and the number of the others."""
    distinct = list(dict.fromkeys(texts))
    more = f"; and {len(distinct) - _CONFLICTS_SHOWN} more" if len(distinct) > _CONFLICTS_SHOWN else ""
    return "; ".join(distinct[:_CONFLICTS_SHOWN]) + more
