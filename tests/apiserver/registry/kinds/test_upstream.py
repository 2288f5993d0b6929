"""Every built-in kind against what the real kube-apiserver 1.37 answered: ``upstream.jsonl``, written by ``record.py``.

The same objects and changes go through our pipeline. What differs on purpose is listed here with its reason.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.api.status import StatusError
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.patch.merge_patch import merge_patch
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.admissions.pod_defaults import PodTolerations
from allotment.apiserver.registry.admissions.priority import Priorities
from allotment.apiserver.registry.admissions.service_account import ServiceAccounts
from allotment.apiserver.registry.admissions.service_addresses import ServiceAddresses
from allotment.apiserver.registry.body import accepted
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource, found_in
from allotment.apiserver.registry.table import IncludeObject, column_definitions, row, table
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.store import Store
from tests.apiserver.registry.kinds.record import NAMESPACE, Obj, answer, cases, shown

NOW = "2026-11-16T05:00:00Z"

NO_CONTROLLER = "nothing would take it away again: no controller of that kind runs"
ANY_ADDRESS = "any that is free"
DIFFERENCES = {
    "podgroups": {"metadata.finalizers": NO_CONTROLLER},
    "persistentvolumes": {
        "metadata.finalizers": NO_CONTROLLER,
        "status.lastPhaseTransitionTime": "nobody moves volumes from phase to phase",
    },
    "persistentvolumeclaims": {"metadata.finalizers": NO_CONTROLLER},
    "nodes": {"spec.taints": NO_CONTROLLER},  # not-ready, until a controller has seen the node
    "services": {"spec.clusterIP": ANY_ADDRESS, "spec.clusterIPs[0]": ANY_ADDRESS},
    "pods": {
        "status.containerStatuses[0].lastState": "an empty object is left out if the sender did",
        "spec.resources.claims[0]: FieldValueNotFound": "the field itself is forbidden, and reported as that",
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
        "FieldValueInvalid": "an empty key is reported as required, not as wrong too",
    },
}


def _id(case: Obj) -> str:
    return f"{case['plural']} {case['object']['metadata']['name']}"


@pytest.mark.parametrize("case", cases(), ids=_id)
def test_an_object_and_its_changes_come_out_as_from_the_real_server(case: Obj, tmp_path: Path) -> None:
    asyncio.run(_compare(case, tmp_path))


async def _compare(case: Obj, folder: Path) -> None:
    store = Store.open(folder / "store")
    try:
        ours = _Ours(store, case)
        created = await ours.create(case["object"])
        _assert_same(case, "create", case["created"], created)
        if case["created"]["code"] >= 400:
            return
        assert _told(case, case["table"]) == _told(case, ours.table())
        for change in case["changes"]:
            changed = await ours.change(change["patch"], change["subresource"])
            _assert_same(case, change["what"], change["answer"], changed)
            if "table" in change:
                assert _told(case, change["table"]) == _told(case, ours.table()), change["what"]
    finally:
        await store.close()


class _Ours:
    """One object in our pipeline, with the admissions that set fields of pods."""

    def __init__(self, store: Store, case: Obj) -> None:
        self._store = store
        catalogue = ResourceCatalogue(found_in(kinds))
        self._writes = Writes(
            store, [Priorities(store), ServiceAccounts(store), PodTolerations(), ServiceAddresses(store)]
        )
        self._call = WriteContext(ADMINISTRATOR, NOW)
        for resource in catalogue.resources:
            for obj in resource.initial:
                self._writes.create(catalogue.hub(resource), "", json.loads(json.dumps(obj)), self._call)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        namespaces = catalogue.find("", "v1", "namespaces")
        assert isinstance(namespaces, ServedResource)
        self._writes.create(namespaces, "", namespace, self._call)
        group, _, version = case["object"]["apiVersion"].rpartition("/")
        served = catalogue.find(group, version, case["plural"])
        assert isinstance(served, ServedResource)
        self._served = served
        self._namespace = NAMESPACE if served.resource.namespaced else ""
        self._name = case["object"]["metadata"]["name"]

    async def create(self, obj: Obj) -> Obj:
        try:
            sent = accepted(self._served, json.loads(json.dumps(obj)), [], self._call)
            written = self._writes.create(self._served, self._namespace, sent, self._call)
        except StatusError as refusal:
            return answer(refusal.code, refusal.to_status())
        return answer(201, self._served.from_hub((await written.record()).load()))

    async def change(self, patch: Obj, subresource: str) -> Obj:
        current = self._served.from_hub(self._stored())
        try:
            wanted = accepted(self._served, merge_patch(current, patch), [], self._call)
            written = self._writes.update(
                self._served, self._namespace, self._name, wanted, self._call, subresource
            )
        except StatusError as refusal:
            return answer(refusal.code, refusal.to_status())
        return answer(200, self._served.from_hub((await written.record()).load()))

    def table(self) -> Obj:
        obj, resource = self._stored(), self._served.resource
        cells = row(resource, obj, obj, IncludeObject.NONE, NOW)
        return shown(table("v1", column_definitions(resource), [cells], {}), obj["metadata"]["uid"])

    def _stored(self) -> Obj:
        record = self._store.head(self._served.key(self._namespace, self._name))
        assert record is not None
        return record.load()


def _assert_same(case: Obj, what: str, real: Obj, ours: Obj) -> None:
    allowed = DIFFERENCES.get(case["plural"], {})
    if real["code"] >= 400 or ours["code"] >= 400:
        trimmed = {**real, "faults": [fault for fault in real.get("faults", ()) if fault not in allowed]}
        assert ours == trimmed, what
        return
    differing = [path for path in _differing(real["object"], ours["object"], "") if path not in allowed]
    assert not differing, f"{what}: {differing}"


def _differing(real: Any, ours: Any, path: str) -> Iterator[str]:
    """Where two values differ, with the shorter path if one of them has nothing there."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in sorted(real.keys() | ours.keys()):
            below = f"{path}.{name}" if path else name
            if name in real and name in ours:
                yield from _differing(real[name], ours[name], below)
            else:
                yield below
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from _differing(left, right, f"{path}[{index}]")
    elif real != ours:
        yield path


def _told(case: Obj, made: Obj) -> Obj:
    if case["plural"] != "services":
        return made
    cells = made["cells"]
    return {**made, "cells": [*cells[:2], *cells[3:]]}  # any address that is free
