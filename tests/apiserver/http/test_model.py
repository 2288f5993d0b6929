"""Random writes against a simple model: at every revision, lists and watches tell what the model knows."""

from __future__ import annotations

import asyncio
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.http.serving import CONFIGMAPS, Serving, configmap, serving

NAMES = ("a", "b", "c")
Step = tuple[str, str, str]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "put", "merge", "label", "delete", "finalizer", "release"]),
        st.sampled_from(NAMES),
        st.sampled_from(["0", "1", "2"]),
    ),
    min_size=1,
    max_size=25,
)


class Model:
    """What there should be: the objects of each revision, and the revisions in order."""

    def __init__(self, revision: int) -> None:
        self.objects: dict[str, Any] = {}
        self.states: dict[int, dict[str, Any]] = {revision: {}}

    def see(self, obj: Any, gone: bool = False) -> None:
        name, revision = obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])
        if not gone and obj == self.objects.get(name):
            return  # a write that changed nothing answers with the revision it found
        if gone:
            self.objects.pop(name, None)
        else:
            self.objects[name] = obj
        assert revision > max(self.states)
        self.states[revision] = deepcopy(self.objects)


async def step(server: Serving, kind: str, name: str, value: str) -> Any:
    path = f"{CONFIGMAPS}/{name}"
    merge = {"content-type": "application/merge-patch+json"}
    match kind:
        case "create":
            return await server.call("POST", CONFIGMAPS, configmap(name, {"v": value}, k=value))
        case "put":
            return await server.call("PUT", path, configmap(name, {"v": value}, k=value))
        case "merge":
            return await server.call("PATCH", path, {"data": {"k": value}}, merge)
        case "label":
            return await server.call("PATCH", path, {"metadata": {"labels": {"v": value}}}, merge)
        case "finalizer":
            return await server.call("PATCH", path, {"metadata": {"finalizers": ["x.io/y"]}}, merge)
        case "release":
            return await server.call("PATCH", path, {"metadata": {"finalizers": None}}, merge)
        case _:
            return await server.call("DELETE", path)


async def run(steps: list[Step], folder: Path) -> None:
    async with serving(folder) as server:
        start = (await server.call("GET", CONFIGMAPS)).json["metadata"]["resourceVersion"]
        model = Model(int(start))
        for kind, name, value in steps:
            before = model.objects.get(name)
            reply = await step(server, kind, name, value)
            listed = (await server.call("GET", CONFIGMAPS)).json
            there = {item["metadata"]["name"]: item for item in listed["items"]}
            if reply.status < 300 and before is not None and name not in there:
                last = deepcopy(before)
                last["metadata"]["resourceVersion"] = listed["metadata"]["resourceVersion"]
                model.see(last, gone=True)
            elif reply.status < 300:
                model.see(without_kind(reply.json))
            assert there == model.objects
            assert reply.status in (200, 201, 404, 409, 422)
        await replay(server, model, start)
        await relist(server, model)


async def relist(server: Serving, model: Model) -> None:
    """Every state of the past can be listed as it was."""
    for revision, state in model.states.items():
        reply = await server.call(
            "GET", CONFIGMAPS, resourceVersion=str(revision), resourceVersionMatch="Exact"
        )
        assert {item["metadata"]["name"]: item for item in reply.json["items"]} == state


async def replay(server: Serving, model: Model, start: str) -> None:
    """A watch from the start leads through every state; one that selects, through what it selects of each."""
    revisions = sorted(model.states)[1:]
    for selector in ("", "v=1"):
        seen: dict[str, Any] = {}
        states: dict[int, dict[str, Any]] = {}
        async with server.watch(CONFIGMAPS, resourceVersion=start, labelSelector=selector) as watch:
            expected = [at for at in revisions if changed(model, at, selector)]
            while len(states) < len(expected):
                event = await watch.event()
                obj = without_kind(event["object"])
                name = obj["metadata"]["name"]
                assert (event["type"] == "ADDED") is (name not in seen)
                if event["type"] == "DELETED":
                    del seen[name]
                else:
                    seen[name] = obj
                states[int(obj["metadata"]["resourceVersion"])] = dict(seen)
        assert sorted(states) == expected
        for at, state in states.items():
            assert state == selected(model.states[at], selector)


def changed(model: Model, revision: int, selector: str) -> bool:
    before = max(at for at in model.states if at < revision)
    return selected(model.states[before], selector) != selected(model.states[revision], selector)


def selected(state: dict[str, Any], selector: str) -> dict[str, Any]:
    if not selector:
        return state
    return {name: obj for name, obj in state.items() if obj["metadata"].get("labels", {}).get("v") == "1"}


def without_kind(obj: Any) -> Any:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


@settings(max_examples=15, deadline=None)
@given(STEPS)
def test_lists_and_watches_agree_with_a_model(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(steps, Path(folder)))
