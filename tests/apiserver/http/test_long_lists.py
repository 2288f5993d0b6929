"""Lists and watches of many large objects: others are served between any two of them, whatever is asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.http.reply import PIECES
from allotment.apiserver.registry.forms import PIECE_BYTES
from allotment.apiserver.store.record import Record
from tests.apiserver.http.serving import Serving, serving
from tests.builders.plain import pod

PODS = "/api/v1/namespaces/default/pods"
COUNT = 8
AS_ROWS = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many large objects each pass of the loop decodes, those of threads left out."""
    passes = [0]
    loaded, labels = Record.load, vars(Record)["labels"].fget

    def count(record: Record) -> None:
        if len(record.data) > PIECE_BYTES and threading.current_thread() is threading.main_thread():
            passes[-1] += 1

    def load(record: Record) -> Any:
        count(record)
        return loaded(record)

    def read_labels(record: Record) -> Any:
        if not record.labels_known:
            count(record)
        return labels(record)

    monkeypatch.setattr(Record, "load", load)
    monkeypatch.setattr(Record, "labels", property(read_labels))
    return passes


def run(folder: Path, decoded: list[int], scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def with_server() -> None:
        async with serving(folder) as server:
            annotations = {"annotations": {"a": "x" * PIECE_BYTES}, "labels": {"app": "a"}}
            for number in range(COUNT):
                crowd = pod(f"p{number}")
                crowd["metadata"].update(annotations)
                made = await server.call("POST", PODS, crowd)
                assert made.status == 201, made.body
            decoded[:] = [0]
            ticking = asyncio.create_task(tick())
            await scenario(server)
            ticking.cancel()

    async def tick() -> None:
        while True:
            decoded.append(0)
            await asyncio.sleep(0)

    asyncio.run(with_server())


@pytest.mark.parametrize(
    "query",
    [
        {"fieldSelector": "spec.nodeName=somewhere"},
        {"fieldSelector": "status.phase!=Running", "limit": "2"},
        {"labelSelector": "app=b"},
        {"labelSelector": "app", "fieldSelector": "spec.nodeName=somewhere"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_a_selector_asks_about_is_read_in_threads(
    method: str, query: dict[str, str], tmp_path: Path, decoded: list[int]
) -> None:
    async def scenario(server: Serving) -> None:
        reply = await server.call(method, PODS, None, {}, **query)
        assert reply.status == 200, reply.body
        assert max(decoded) <= 1

    run(tmp_path / "data", decoded, scenario)


@pytest.mark.parametrize(
    ("headers", "query"),
    [({"user-agent": "curl/8.0"}, {}), ({}, {"pretty": "true"}), ({"accept": "application/yaml"}, {})],
    ids=["curl", "pretty", "YAML"],
)
def test_a_list_is_put_into_another_form_only_if_it_is_short(
    headers: dict[str, str],
    query: dict[str, str],
    tmp_path: Path,
    decoded: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of a hundred megabytes held the loop to be made pretty, and a thread for a minute to become YAML."""

    async def scenario(server: Serving) -> None:
        short = await server.call("GET", PODS, None, headers, **query, limit="1")
        assert short.body.count(b"\n") > 10
        monkeypatch.setattr("allotment.apiserver.http.resources.MAX_REWRITTEN", 3 * PIECE_BYTES)
        long = await server.call("GET", PODS, None, headers, **query)
        assert long.status == 200
        assert long.header("content-type") == "application/json"
        assert b"\n" not in long.body.strip()
        assert len(long.json["items"]) == COUNT
        assert (await server.call("DELETE", PODS, None, headers, **query)).json["kind"] == "PodList"

    run(tmp_path / "data", decoded, scenario)


def test_rows_of_large_objects_are_made_a_few_at_a_time(tmp_path: Path, decoded: list[int]) -> None:
    """They are short, so it is not what is sent that ends a piece."""

    async def scenario(server: Serving) -> None:
        reply = await server.call("GET", PODS, None, AS_ROWS, includeObject="None")
        assert len(reply.json["rows"]) == COUNT
        assert max(decoded) <= PIECES + 1

    run(tmp_path / "data", decoded, scenario)


@pytest.mark.parametrize("since", ["", "1"], ids=["the state", "what changed"])
@pytest.mark.parametrize("query", [{}, {"fieldSelector": "status.phase=Pending"}], ids=["all", "some"])
def test_a_watch_tells_large_objects_as_rows_one_by_one(
    since: str, query: dict[str, str], tmp_path: Path, decoded: list[int]
) -> None:
    async def scenario(server: Serving) -> None:
        more = {"resourceVersion": since, "includeObject": "None", **query}
        async with server.watch(PODS, AS_ROWS, **more) as watch:
            for _ in range(COUNT):
                assert (await watch.event())["type"] == "ADDED"
        # of a change, the row and the field that is asked about
        assert max(decoded) <= (2 if since and query else 1)

    run(tmp_path / "data", decoded, scenario)


@pytest.mark.parametrize("since", ["1", "999999"], ids=["what changed", "what is to come"])
def test_a_watch_that_goes_on_from_somewhere_reads_nothing_ahead(
    since: str, tmp_path: Path, decoded: list[int]
) -> None:
    """Not even whether the revision has been reached, which only lists ask."""

    async def scenario(server: Serving) -> None:
        async with server.watch(PODS, resourceVersion=since, labelSelector="app=a") as watch:
            if since == "1":
                assert (await watch.event())["type"] == "ADDED"
            else:
                while not watch.status:
                    await asyncio.sleep(0)
        assert watch.status == 200

    run(tmp_path / "data", decoded, scenario)
