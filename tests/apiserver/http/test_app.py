"""Requests to the application as a whole: what the contract with Kubernetes leaves to us, and what it does not say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.api.schema.schema import schema_of
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.http.deadline import Deadlines
from allotment.apiserver.http.priority import LEVELS, WORKLOAD, place_of
from allotment.apiserver.http.request import MAX_BODY
from allotment.apiserver.http.resources import LARGE_BODY
from allotment.apiserver.http.seats import Seats
from allotment.apiserver.registry.forms import OBJECTS_PER_PIECE
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.store import store
from tests.apiserver.http.serving import CONFIGMAPS, Serving, configmap, person, serving
from tests.apiserver.registry.custom.schemas import definition

Story = Callable[[Serving], Awaitable[None]]


@pytest.fixture
def tell(tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story on a server of its own."""

    def run(story: Story) -> None:
        async def main() -> None:
            async with serving(tmp_path) as server:
                await story(server)

        asyncio.run(main())

    return run


def test_health_version_and_metrics(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
            assert (await server.call("GET", path)).body == b"ok"
            assert (await server.call("HEAD", path)).status == 200
        assert (await server.call("HEAD", "/readyz/nothing")).status == 404
        assert (await server.call("POST", "/healthz")).status == 405
        verbose = await server.call("GET", "/readyz", verbose="")
        assert verbose.body.decode().splitlines()[-1] == "readyz check passed"
        assert (await server.call("GET", "/readyz/nothing")).status == 404
        assert (await server.call("GET", "/version")).json["gitVersion"].startswith("v1.37.")
        await server.call("GET", CONFIGMAPS)
        text = (await server.call("GET", "/metrics")).body.decode()
        labels = 'group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"'
        assert f'apiserver_request_total{{code="200",{labels}}} 1.0' in text
        assert "allotment_store_commits_total" in text

    tell(story)


@pytest.mark.parametrize("what", ["log", "exec"])
def test_who_looks_for_a_container_is_told_that_there_is_none(
    tell: Callable[[Story], None], what: str
) -> None:
    async def story(server: Serving) -> None:
        reply = await server.call("GET", f"/api/v1/namespaces/default/pods/a/{what}")
        assert reply.status == 404
        assert "runs no containers" in reply.json["message"]

    tell(story)


NOWHERE = [
    ("GET", "/nothing", 404),
    ("POST", "/version", 405),
    ("GET", "/api/v1/nothing", 404),
    ("GET", "/api/v2/pods", 404),
    ("GET", "/apis/example.com/v1/things", 404),
    ("GET", "/api/v1/namespaces/default/nodes", 404),  # nodes have no namespace
    (
        "GET",
        "/api/v1/namespaces/default/namespaces",
        404,
    ),  # nor are there any in one: who may do everything in
    (
        "GET",
        "/api/v1/namespaces/default/namespaces/kube-system",
        404,
    ),  # a namespace would reach the others so
    ("DELETE", "/api/v1/namespaces/default/namespaces/kube-public", 404),
    ("PUT", "/api/v1/namespaces/default/namespaces/kube-public/finalize", 404),
    ("GET", "/api/v1/namespaces/default/pods/a/nothing", 404),
    ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404),
    ("HEAD", CONFIGMAPS, 405),
    ("OPTIONS", CONFIGMAPS, 405),
    ("TRACE", CONFIGMAPS, 405),
    ("POST", "/api/v1/configmaps", 405),
    ("GET", "/api/v1/namespaces/default/../../etc/passwd", 404),
    ("GET", "/api/v1/namespaces/default/configmaps/..", 404),
    ("GET", "//api/v1/pods", 404),
    ("GET", "/api//pods", 404),
    ("GET", "/", 404),
]


def test_paths_that_lead_nowhere(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        for method, path, status in NOWHERE:
            reply = await server.call(method, path)
            assert (reply.status, reply.json["kind"]) == (status, "Status"), (method, path)

    tell(story)


HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"metadata":',
    "no JSON": b"<xml/>",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a million brackets": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "half a character": b'{"metadata":{"name":"\\ud800"}}',
    "bytes that are no text": b'{"metadata":{"name":"\xff\xfe"}}',
    "a name of the wrong type": b'{"metadata":{"name":1}}',
    "metadata of the wrong type": b'{"metadata":[]}',
    "a kind of the wrong type": b'{"kind":1}',
    "a version of the wrong type": b'{"apiVersion":{}}',
    "labels of the wrong type": b'{"metadata":{"name":"a","labels":[]}}',
    "a huge number": b'{"metadata":{"name":"a","generation":' + b"9" * 400 + b"}}",
    "too much": b'{"data":{"k":"' + b"x" * MAX_BODY + b'"}}',
    "protobuf that is none": b"k8s\x00\xff\xff\xff",
}


@pytest.mark.parametrize("way", ["post", "merge", "json", "strategic", "apply", "yaml", "protobuf", "delete"])
def test_hostile_bodies_are_refused_and_nothing_more(tell: Callable[[Story], None], way: str) -> None:
    types = {
        "post": ("POST", "application/json"),
        "merge": ("PATCH", "application/merge-patch+json"),
        "json": ("PATCH", "application/json-patch+json"),
        "strategic": ("PATCH", "application/strategic-merge-patch+json"),
        "apply": ("PATCH", "application/apply-patch+yaml"),
        "yaml": ("POST", "application/yaml"),
        "protobuf": ("POST", "application/vnd.kubernetes.protobuf"),
        "delete": ("DELETE", "application/json"),
    }
    method, content_type = types[way]

    async def story(server: Serving) -> None:
        await server.call("POST", CONFIGMAPS, configmap("a"))
        path = CONFIGMAPS if method == "POST" else f"{CONFIGMAPS}/a"
        query = {"fieldManager": "x"} if way == "apply" else {}
        for what, body in HOSTILE.items():
            reply = await server.call(method, path, body, {"content-type": content_type}, **query)
            assert reply.status < 500, (what, reply.body[:300])
        assert (await server.call("GET", "/healthz")).status == 200

    tell(story)


def test_an_object_cannot_grow_without_end_by_patches(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: Serving) -> None:
        monkeypatch.setattr(store, "MAX_OBJECT", 2_000)
        await server.call("POST", CONFIGMAPS, configmap("a", one="x" * 900))
        patch, how = {"data": {"two": "x" * 900}}, {"content-type": "application/merge-patch+json"}
        for query in ({"dryRun": "All"}, {}):
            reply = await server.call("PATCH", f"{CONFIGMAPS}/a", patch, how, **query)
            assert (reply.status, reply.json["reason"]) == (413, "RequestEntityTooLarge")
        assert list((await server.call("GET", f"{CONFIGMAPS}/a")).json["data"]) == ["one"]

    tell(story)


ITEMS = 2 * OBJECTS_PER_PIECE + 1


@pytest.mark.parametrize(
    "form",
    [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json",
        "application/yaml",
    ],
)
def test_long_lists_and_deletions_let_others_in_between(tell: Callable[[Story], None], form: str) -> None:
    async def turns(until: asyncio.Future[Any]) -> int:
        count = 0
        while not until.done():
            await asyncio.sleep(0)
            count += 1
        return count

    async def story(server: Serving) -> None:
        pods = [configmap(f"c{number:03}", text="x" * 300) for number in range(ITEMS)]
        await asyncio.gather(*(server.call("POST", CONFIGMAPS, pod) for pod in pods))
        listing = asyncio.ensure_future(server.call("GET", CONFIGMAPS, None, {"accept": form}))
        assert await turns(listing) >= 3
        body = yaml.safe_load((await listing).body)
        assert len(body.get("rows") or body["items"]) == ITEMS
        deleting = asyncio.ensure_future(server.call("DELETE", CONFIGMAPS))
        assert await turns(deleting) >= 3
        assert len((await deleting).json["items"]) == ITEMS
        assert (await server.call("GET", CONFIGMAPS)).json["items"] == []

    tell(story)


def test_a_large_body_in_yaml_is_read(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        body = yaml.safe_dump(configmap("a", text="x" * 2 * LARGE_BODY)).encode()
        made = await server.call("POST", CONFIGMAPS, body, {"content-type": "application/yaml"})
        assert made.status == 201
        broken = await server.call("POST", CONFIGMAPS, body + b"\n:", {"content-type": "application/yaml"})
        assert broken.status == 400
        applied = await server.call(
            "PATCH",
            f"{CONFIGMAPS}/a",
            body,
            {"content-type": "application/apply-patch+yaml"},
            fieldManager="x",
        )
        assert applied.status == 200

    tell(story)


def test_a_dry_run_in_the_query_counts_beside_an_empty_one_in_the_body(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        await server.call("POST", CONFIGMAPS, configmap("a"))
        await server.call("DELETE", f"{CONFIGMAPS}/a", {"dryRun": []}, dryRun="All")
        assert (await server.call("GET", f"{CONFIGMAPS}/a")).status == 200

    tell(story)


async def jane(server: Serving) -> Serving:
    """Somebody who may do everything and is no administrator."""
    return Serving(server.server, Identity(await person(server, "jane"), ("system:authenticated",)))


def with_few_seats(server: Serving, seats: int, flow_queue: int = WORKLOAD.flow_queue) -> None:
    app = server.server.app
    few = replace(WORKLOAD, seats=seats, flow_queue=flow_queue)
    levels = [few if level is WORKLOAD else level for level in LEVELS]
    app.seats = Seats(app._metrics, levels)


def test_a_flood_is_turned_away_and_the_rest_served(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        many = await jane(server)
        with_few_seats(server, seats=3, flow_queue=2)
        flood = [many.call("POST", CONFIGMAPS, configmap(f"c{number}")) for number in range(10)]
        urgent = [server.call("POST", CONFIGMAPS, configmap(f"a{number}")) for number in range(10)]
        replies = await asyncio.gather(*flood)
        refused = [reply for reply in replies if reply.status == 429]
        assert len(refused) == 5
        assert {reply.header("retry-after") for reply in refused} == {"1"}
        assert [reply.status for reply in await asyncio.gather(*urgent)] == [201] * 10
        assert len((await server.call("GET", CONFIGMAPS)).json["items"]) == 15
        assert server.server.app.requests == 0
        text = (await server.call("GET", "/metrics")).body.decode()
        rejected = (
            'apiserver_flowcontrol_rejected_requests_total{priority_level="workload",reason="queue-full"}'
        )
        assert f"{rejected} 5.0" in text
        assert 'apiserver_flowcontrol_current_inqueue_requests{priority_level="workload"} 0.0' in text

    tell(story)


def test_who_waits_too_long_for_a_seat_is_told_to_come_back(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: Serving) -> None:
        many = await jane(server)
        with_few_seats(server, seats=1)
        app = server.server.app
        app.seats.wait_seconds = 0.01
        place = place_of(Identity("john"), None, "")
        seat = await app.seats.take(place)
        assert (await many.call("GET", CONFIGMAPS)).status == 429
        app.seats.leave(seat)
        assert (await many.call("GET", CONFIGMAPS)).status == 200

    tell(story)


def test_a_request_whose_deadline_has_passed_is_told_so(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        many = await jane(server)
        with_few_seats(server, seats=1)
        app = server.server.app
        seat = await app.seats.take(place_of(Identity("john"), None, ""))
        late = await many.call("GET", CONFIGMAPS, timeout="10ms")
        assert (late.status, late.json["reason"]) == (504, "Timeout")
        app.deadlines = Deadlines(0.01)
        assert (await many.call("GET", CONFIGMAPS, timeout="1h")).status == 504
        app.deadlines = Deadlines(60.0)
        app.seats.leave(seat)
        assert (await many.call("GET", CONFIGMAPS)).status == 200
        assert app.seats.queues["workload"].waiting == 0

    tell(story)


DURATIONS = {
    "abc": 'invalid timeout specified in the request URL - time: invalid duration "abc"',
    "5": 'invalid timeout specified in the request URL - time: missing unit in duration "5"',
    "5x": 'invalid timeout specified in the request URL - time: invalid duration "5x"',
    "1s2": 'invalid timeout specified in the request URL - time: invalid duration "1s2"',
}


def test_a_timeout_that_is_no_duration_is_refused_except_for_watches(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        for value, message in DURATIONS.items():
            for path in (CONFIGMAPS, f"{CONFIGMAPS}/a", "/version", "/healthz"):
                reply = await server.call("GET", path, timeout=value)
                assert (reply.status, reply.json["message"]) == (400, message), path
            assert (await server.call("POST", CONFIGMAPS, configmap("a"), timeout=value)).status == 400
        for value in ("", "0", "0s", "10s", "1h30m", "-5s"):
            assert (await server.call("GET", CONFIGMAPS, timeout=value)).status == 200, value
        async with server.watch(CONFIGMAPS, timeout="abc") as watch:
            await server.call("POST", CONFIGMAPS, configmap("a"))
            assert (await watch.event())["type"] == "ADDED"

    tell(story)


INVALID, RANGE = "invalid syntax", "value out of range"
NUMBERS = [
    ("limit", "abc", INVALID),
    ("limit", "", INVALID),
    ("limit", "1_0", INVALID),
    ("limit", " 1", INVALID),
    ("limit", "1.5", INVALID),
    ("limit", "\u0661", INVALID),
    ("limit", "9223372036854775808", RANGE),
    ("limit", "9" * 300, RANGE),
    ("timeoutSeconds", "abc", INVALID),
    ("timeoutSeconds", "0x10", INVALID),
]


@pytest.mark.parametrize(("name", "value", "why"), NUMBERS)
def test_a_number_that_is_none_is_refused(
    tell: Callable[[Story], None], name: str, value: str, why: str
) -> None:
    async def story(server: Serving) -> None:
        for more in ({}, {"watch": "1"}):
            reply = await server.call("GET", CONFIGMAPS, None, None, **more, **{name: value})
            assert reply.status == 400, reply.body
            assert reply.json["message"] == f'strconv.ParseInt: parsing "{value[:40]}": {why}'
        assert (
            await server.call("GET", "/api/v1/namespaces/default", None, None, **{name: value})
        ).status == 200
        deleted = await server.call("DELETE", f"{CONFIGMAPS}/a", None, None, gracePeriodSeconds=value)
        assert deleted.status == 400

    tell(story)


def test_numbers_may_have_a_sign(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        for value in ("+5", "-5", "0", "0005"):
            assert (await server.call("GET", CONFIGMAPS, limit=value)).status == 200

    tell(story)


def test_what_is_accepted_is_named_when_nothing_else_is_offered(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        refused = await server.call(
            "GET", CONFIGMAPS, headers={"accept": "application/vnd.kubernetes.protobuf"}
        )
        assert refused.status == 406
        assert refused.json["message"] == (
            "only the following media types are accepted: application/json, application/yaml"
        )
        for offered in ("application/json", "application/yaml"):
            assert (await server.call("GET", CONFIGMAPS, headers={"accept": offered})).status == 200

    tell(story)


def test_a_body_of_a_browser_needs_a_type(tell: Callable[[Story], None]) -> None:
    """A browser sends one without a type, or with one of three, for whatever page asks it to."""

    async def story(server: Serving) -> None:
        await server.call("POST", CONFIGMAPS, configmap("a"))
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        for type_ in (
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
        ):
            for method, where in (
                ("POST", CONFIGMAPS),
                ("PUT", f"{CONFIGMAPS}/a"),
                ("PATCH", f"{CONFIGMAPS}/a"),
                ("DELETE", f"{CONFIGMAPS}/a"),
                ("DELETE", CONFIGMAPS),
                ("POST", path),
                ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
            ):
                refused = await server.call(method, where, {}, {"content-type": type_, "origin": "https://x"})
                assert refused.status == 415, (method, where, type_)
                if type_:
                    refused = await server.call(method, where, {}, {"content-type": type_})
                    assert refused.status == 415, (method, where, type_)
        assert (await server.call("DELETE", f"{CONFIGMAPS}/a", None, {"content-type": ""})).status == 200
        made = await server.call("POST", CONFIGMAPS, configmap("a"), {"content-type": ""})
        assert made.status == 201  # as the Python client of Kubernetes sends it

    tell(story)


def test_watches_are_counted_apart(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        app = server.server.app
        app.max_watches = 2
        await server.call("POST", CONFIGMAPS, configmap("a"))
        async with server.watch(CONFIGMAPS) as one, server.watch(CONFIGMAPS) as two:
            assert [(await each.event())["type"] for each in (one, two)] == ["ADDED", "ADDED"]
            refused = await server.call("GET", CONFIGMAPS, watch="true")
            assert refused.status == 429
        assert app.watches == 0

    tell(story)


def test_a_watch_of_a_client_that_went_away_ends(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        async with server.watch(CONFIGMAPS, timeoutSeconds="3000"):
            await server.call("POST", CONFIGMAPS, configmap("a"))
        assert server.server.app.watches == 0
        assert server.server.store.stats.watches == 0

    tell(story)


def test_watches_end_when_the_server_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.watch(CONFIGMAPS, resourceVersion="0") as watch:
            await server.call("POST", CONFIGMAPS, configmap("a"))
            assert (await watch.event())["type"] == "ADDED"
            server.server.app.end_watches()
            assert await watch.event() is None

    asyncio.run(main())


def test_a_write_that_changes_nothing_waits_for_what_it_found(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        merge = {"content-type": "application/merge-patch+json"}
        created = asyncio.ensure_future(server.call("POST", CONFIGMAPS, configmap("a", k="v")))
        await asyncio.sleep(0)  # the creation is on its way to disk, and no read sees it
        assert (await server.call("GET", f"{CONFIGMAPS}/a")).status == 404
        patched = await server.call("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "v"}}, merge)
        assert (await server.call("GET", f"{CONFIGMAPS}/a")).status == 200
        assert patched.json == (await created).json

    tell(story)


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> Any:
        async with serving(tmp_path) as server:
            return (await server.call("POST", CONFIGMAPS, configmap("a", k="v"))).json

    async def second() -> Any:
        async with serving(tmp_path) as server:
            return (await server.call("GET", f"{CONFIGMAPS}/a")).json

    assert asyncio.run(first()) == asyncio.run(second())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_tables(tell: Callable[[Story], None], version: str) -> None:
    async def story(server: Serving) -> None:
        await server.call("POST", CONFIGMAPS, configmap("a", k="v"))
        accept = {"accept": f"application/json;as=Table;v={version};g=meta.k8s.io,application/json"}
        table = (await server.call("GET", CONFIGMAPS, headers=accept, includeObject="None")).json
        assert (table["kind"], table["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        (row,) = table["rows"]
        assert row["cells"][:2] == ["a", 1]
        assert "object" not in row
        whole = (await server.call("GET", f"{CONFIGMAPS}/a", headers=accept, includeObject="Object")).json
        assert whole["rows"][0]["object"]["data"] == {"k": "v"}
        refused = await server.call("GET", CONFIGMAPS, headers=accept, includeObject="Some")
        assert refused.status == 400

    tell(story)


def test_metadata_only(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        await server.call("POST", CONFIGMAPS, configmap("a", {"x": "y"}, k="v"))
        accept = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        listed = (await server.call("GET", CONFIGMAPS, headers=accept)).json
        assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
        (item,) = listed["items"]
        assert item["metadata"]["labels"] == {"x": "y"}
        assert "data" not in item
        accept = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
        async with server.watch(CONFIGMAPS, headers=accept) as watch:
            event = await watch.event()
            assert (event["type"], event["object"]["kind"]) == ("ADDED", "PartialObjectMetadata")
            assert set(event["object"]) == {"kind", "apiVersion", "metadata"}

    tell(story)


ACCEPTED = [
    ("", 200, b"{"),
    ("*/*", 200, b"{"),
    ("application/yaml", 200, b"apiVersion: v1"),
    ("application/vnd.kubernetes.protobuf,application/json", 200, b"{"),
    ("application/json;q=0.1,application/yaml;q=0.9", 200, b"apiVersion: v1"),
    ("application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/json", 200, b"{"),
    ("text/html", 406, b"{"),
    ("application/json;as=Table;v=v9;g=meta.k8s.io", 406, b"{"),
]


def test_what_a_client_accepts(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        for accept, status, begins in ACCEPTED:
            reply = await server.call("GET", "/api/v1/namespaces/default", headers={"accept": accept})
            assert (reply.status, reply.body[: len(begins)]) == (status, begins), accept

    tell(story)


def test_pretty_is_for_people(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        path = "/api/v1/namespaces/default"
        assert b"\n" not in (await server.call("GET", path)).body
        assert b'\n  "kind"' in (await server.call("GET", path, pretty="true")).body
        assert b'\n  "kind"' in (await server.call("GET", path, headers={"user-agent": "curl/8"})).body

    tell(story)


def test_kinds_come_and_go_while_the_server_runs(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        catalogue = server.server.catalogue
        plain = catalogue.resource("configmaps")
        assert plain is not None
        thing: Resource = replace(
            plain,
            group="example.com",
            kind="ConfigMap",
            plural="things",
            short_names=(),
            schemas={"v1": schema_of("v1", "ConfigMap")},
        )
        path = "/apis/example.com/v1/namespaces/default/things"
        assert (await server.call("GET", path)).status == 404
        catalogue.add(thing)
        made = await server.call("POST", path, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert (made.status, made.json["apiVersion"]) == (201, "example.com/v1")
        resources = (await server.call("GET", "/apis/example.com/v1")).json["resources"]
        assert [each["name"] for each in resources] == ["things"]
        assert b'resource="things"' in (await server.call("GET", "/metrics")).body
        catalogue.remove("things.example.com")
        assert (await server.call("GET", path)).status == 404
        assert b'resource="things"' not in (await server.call("GET", "/metrics")).body
        assert (await server.call("GET", "/apis/example.com/v1")).status == 404

    tell(story)


def test_the_watches_of_a_kind_end_with_its_definition(tell: Callable[[Story], None]) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    async def story(server: Serving) -> None:
        crd = definition()
        async with server.watch(definitions) as watch:
            await server.call("POST", definitions, crd)
            while not any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in (await watch.event())["object"]["status"].get("conditions") or ()
            ):
                pass
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        async with server.watch(path) as watch, server.watch(CONFIGMAPS) as other:
            while server.server.app.watches != 2:
                await asyncio.sleep(0)
            await server.call("DELETE", f"{definitions}/{crd['metadata']['name']}")
            assert await watch.event() is None
            await server.call("POST", CONFIGMAPS, configmap("a"))
            assert (await other.event())["type"] == "ADDED"
        assert (await server.call("GET", path)).status == 404

    tell(story)


def test_nobody_may_do_more_than_look_whether_it_lives(tell: Callable[[Story], None]) -> None:
    async def story(server: Serving) -> None:
        nobody = Serving(server.server, None)
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await nobody.call("GET", path)).status == 200
        assert (await nobody.call("HEAD", "/healthz")).status == 200
        assert (await nobody.call("HEAD", "/metrics")).status == 403
        for path in ("/api", "/apis", CONFIGMAPS, "/metrics", "/openapi/v3", "/nothing"):
            assert (await nobody.call("GET", path)).status == 403, path
        someone = Serving(server.server, Identity("jane", ("system:authenticated",)))
        assert (await someone.call("GET", "/api")).status == 200
        refused = await someone.call("GET", CONFIGMAPS)
        assert refused.json["message"] == (
            'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" '
            'in the namespace "default"'
        )
        apply = {"content-type": "application/apply-patch+yaml"}
        refused = await someone.call("PATCH", f"{CONFIGMAPS}/a", configmap("a"), apply, fieldManager="x")
        assert refused.status == 403

    tell(story)
