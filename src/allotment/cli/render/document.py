"""The answer for programs: the claims as kubectl would show them, and what does not fit, with the reasons.

A claim from a manifest keeps every field of its author, including fields that Allotment does not know; only its status
changes.
"""

from __future__ import annotations

import json
from typing import Any

from allotment.api.codec import to_builtins
from allotment.api.text import printable_json
from allotment.cli.render.allocation_table import sentence
from allotment.insight.manifest_cluster import Name
from allotment.insight.placement.placing import NeedOutcome, PlacementRun
from allotment.insight.placement.rejections import Rejection


def as_document(placement: PlacementRun, *, explain: bool) -> dict[str, Any]:
    """A List of all claims, with ``notAllocated`` beside the items."""
    names = dict.fromkeys([*placement.cluster.claims])
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_claim(placement, name) for name in names],
    }
    if placement.refused:
        document["notAllocated"] = [_refusal(decision, explain) for decision in placement.refused]
    return document


def _claim(placement: PlacementRun, name: Name) -> dict[str, Any]:
    claim = to_builtins(placement.cluster.claims[name])
    _drop_nameless(claim.get("status", {}))
    written = placement.cluster.written.get(name)
    if written is None or written.api_version != claim["apiVersion"]:
        return claim  # made from a template, or converted from an older version
    document = {
        **written.raw,
        "metadata": {**written.raw.get("metadata", {}), "namespace": name[0], "name": name[1]},
    }
    if "status" in claim:
        document["status"] = {**(written.raw.get("status") or {}), **claim["status"]}
    return document


def _drop_nameless(status: dict[str, Any]) -> None:
    """Drops reservations for pods without a uid: a pod from a manifest has none yet, and a reservation without one is
    invalid."""
    users = [user for user in status.pop("reservedFor", ()) if user["uid"]]
    if users:
        status["reservedFor"] = users


def _refusal(decision: NeedOutcome, explain: bool) -> dict[str, Any]:
    kind, _, name = decision.need.who.partition(" ")
    return {
        kind: name,
        "claims": ["/".join(claim) for claim in decision.need.claims],
        "reason": sentence(decision),
        "nodes": [_node(rejection, explain) for rejection in decision.rejections if rejection.node],
    }


def _node(rejection: Rejection, explain: bool) -> dict[str, Any]:
    if explain and rejection.reason is not None:
        return rejection.reason.tree()
    return {"node": rejection.node, "summary": rejection.words}


def written_out(document: dict[str, Any], form: str) -> str:
    """The document as JSON or YAML text."""
    if form == "json":
        return printable_json(json.dumps(document, indent=2, ensure_ascii=False))
    text = _yaml(document, allow_unicode=True)
    return text if all(map(str.isprintable, text.split("\n"))) else _yaml(document, allow_unicode=False)


def _yaml(document: dict[str, Any], *, allow_unicode: bool) -> str:
    import yaml

    return yaml.dump(
        document, Dumper=_dumper(), sort_keys=False, allow_unicode=allow_unicode, width=110
    ).rstrip()


def _dumper() -> Any:
    """A dumper that never writes aliases, because few readers of manifests support them."""
    import yaml

    class NoAliases(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # the C form may be absent
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return NoAliases
