"""``allot top``: the picture as a pure function, keys, and the command once, from files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allotment.allocator.pool import PoolID
from allotment.cli.render.device_cell import DeviceSign, cells, kind_of
from allotment.cli.render.keys import keys_of
from allotment.cli.render.top_frame import Setting, age, frame
from allotment.cli.render.top_view import ListExtent, Sort, TopPart, TopView, pressed
from allotment.insight.explain.explanation import Outlook
from allotment.insight.overview import NodeView, Overview
from allotment.insight.waiting_pods import WaitingPod
from allotment.usage.allocation import AllocationInfo
from allotment.usage.device import COUNTERS_EXHAUSTED, HIDDEN_CLAIMS, POOL_INCOMPLETE, TAINTED, DeviceUsage
from allotment.usage.inventory import PoolFinding
from allotment.usage.pool import PoolUsage
from allotment.usage.rollup import PoolOnNode, by_node, in_cluster
from allotment.usage.summary import DeviceState, Summary, count
from tests.cli.test_explain import FLEET, waiting
from tests.command_line import Allot, Ran, same_as_golden
from tests.insight.fleet import (
    GPU,
    HEALTHY,
    WRONG,
    Json,
    gpu_class,
    reporting_node,
    slice_of,
    team_claim,
    written,
)

NOW = datetime(2026, 11, 16, 14, 2, 11, tzinfo=UTC)
SETTING = Setting("https://cluster.example.com", NOW)
GOOD = PoolFinding(True, "", "")


# --- builders ---


def device(number: int, state: DeviceState, reason: str = "", *, share: bool = False) -> DeviceUsage:
    held = state in (DeviceState.ALLOCATED, DeviceState.PARTIALLY_ALLOCATED)
    holder = AllocationInfo("team-a", f"claim-{number}", "uid", "gpu", share_id="id" if share else None)
    return DeviceUsage(f"gpu-{number}", state, reason, "", (holder,) if held else ())


def used(number: int) -> DeviceUsage:
    return device(number, DeviceState.ALLOCATED)


def free(number: int) -> DeviceUsage:
    return device(number, DeviceState.AVAILABLE)


def pool_of(name: str, devices: Sequence[DeviceUsage], **more: object) -> PoolUsage:
    summary = count([each.state for each in devices])
    pool = PoolUsage(GPU, name, name, 1, tuple(devices), summary, GOOD, GOOD, 1, 1)
    return replace(pool, **more)  # type: ignore[arg-type]  # fields by name


def overview(pools: Sequence[PoolUsage], pending: Sequence[WaitingPod] = (), **trouble: str) -> Overview:
    nodes = [
        NodeView(each, trouble.get(each.name.replace("-", "_"), ""), False)
        for each in by_node(pools).values()
    ]
    return Overview(nodes, pools, pending, in_cluster(pools), 0, ())


def fleet(nodes: int, devices: int = 8) -> Overview:
    """Every node has one device more in use than the one before it, from none on again after the last."""
    return overview(
        [
            pool_of(f"node-{n:04d}", [used(d) if d < n % (devices + 1) else free(d) for d in range(devices)])
            for n in range(nodes)
        ]
    )


def waiting_pod(number: int, reason: str = "0/3 nodes: 3 have every gpu in use") -> WaitingPod:
    return WaitingPod("team-a", f"train-{number}", "2026-11-16T13:59:00Z", Outlook.NOWHERE, reason)


PLAIN = TopView()


def text(seen: Overview, view: TopView = PLAIN, width: int = 80, height: int | None = 24) -> list[str]:
    return ["".join(each for each, _ in line) for line in frame(seen, view, SETTING, width, height).lines]


# --- cells ---


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (free(0), DeviceSign.FREE),
        (used(0), DeviceSign.USED),
        (device(0, DeviceState.ALLOCATED, share=True), DeviceSign.SHARED),
        (device(0, DeviceState.PARTIALLY_ALLOCATED, share=True), DeviceSign.PARTLY),
        (device(0, DeviceState.UNAVAILABLE, TAINTED), DeviceSign.TAINTED),
        (device(0, DeviceState.UNAVAILABLE, COUNTERS_EXHAUSTED), DeviceSign.BLOCKED),
        (device(0, DeviceState.UNAVAILABLE, POOL_INCOMPLETE), DeviceSign.BROKEN),
        (device(0, DeviceState.UNKNOWN, HIDDEN_CLAIMS), DeviceSign.UNKNOWN),
    ],
)
def test_what_a_device_looks_like(given: DeviceUsage, kind: DeviceSign) -> None:
    assert kind_of(given) is kind


def test_signs_differ_without_colours() -> None:
    assert len({kind.sign[0] for kind in DeviceSign}) == len(DeviceSign)


def node_pool(devices: Sequence[DeviceUsage], summary: Summary | None = None) -> PoolOnNode:
    return PoolOnNode(PoolID(GPU, "n"), tuple(devices), summary or count([each.state for each in devices]))


@pytest.mark.parametrize(
    ("pools", "room", "drawn"),
    [
        ([node_pool([used(0), free(1)])], 2, "█░"),
        ([node_pool([used(0), free(1)]), node_pool([free(0)])], 4, "█░ ░"),
        (
            [node_pool([used(0), free(1)]), node_pool([free(0)])],
            3,
            "█1 ░2",
        ),  # counted, where there is no room
        ([node_pool([], Summary(9, 5, 3, 1, 2))], 20, "█3 ▄2 ░3 ▒1"),  # counts alone are known
        ([node_pool([])], 5, ""),
        ([], 5, ""),
    ],
)
def test_cells(pools: list[PoolOnNode], room: int, drawn: str) -> None:
    assert "".join(each for each, _ in cells(pools, room)) == drawn


def test_a_pool_of_which_even_counts_are_not_known() -> None:
    pool = replace(node_pool([], Summary(9, 5)), hidden=None)
    assert "".join(each for each, _ in cells([pool], 20)) == "█5 ?4"


# --- pictures ---

SMALL = overview(
    [
        pool_of("node-1", [used(0), device(1, DeviceState.PARTIALLY_ALLOCATED, share=True), free(2)]),
        pool_of("node-2", [device(0, DeviceState.UNAVAILABLE, TAINTED)]),
        pool_of("fabric", [free(0)], node_name=""),
        pool_of(
            "node-3",
            [device(0, DeviceState.UNAVAILABLE, POOL_INCOMPLETE)],
            complete=PoolFinding(False, "SlicesMissing", "1 of 2 slices found"),
        ),
    ],
    [waiting_pod(0), waiting_pod(1, "0/12 nodes: " + "8 have every gpu in use, 4 are cordoned, " * 4)],
    node_2="not ready",
)


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 12)])
def test_pictures_of_a_small_cluster(size: tuple[int, int]) -> None:
    lines = text(SMALL, TopView(), *size)
    assert len(lines) == size[1]
    assert all(len(line) <= size[0] for line in lines)
    same_as_golden(f"top-small-{size[0]}x{size[1]}.txt", "\n".join(lines).rstrip() + "\n")


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_pictures_of_a_thousand_nodes(size: tuple[int, int]) -> None:
    lines = text(fleet(1000), TopView(), *size)
    assert len(lines) == size[1]
    same_as_golden(f"top-large-{size[0]}x{size[1]}.txt", "\n".join(lines).rstrip() + "\n")


def test_help_and_notes() -> None:
    seen = replace(SMALL, notes=("you may list resourceclaims only in namespace team-a", "second"))
    assert "note: you may list resourceclaims only in namespace team-a (and 1 more: h)" in text(seen)
    lines = text(seen, TopView(help=True), height=40)
    assert {"KEYS", "DEVICES", "NOTES"} <= set(lines)
    assert "  second" in lines


def test_an_alarm_is_in_the_picture() -> None:
    setting = replace(SETTING, alarm="https://x does not answer: refused; trying again until it does")
    lines = frame(SMALL, TopView(), setting, 80, 24).lines
    assert [(setting.alarm, "bold red")] in lines


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        (Sort.NAME, "node-1"),
        (Sort.FREE, "node-1"),
        (Sort.USED, "node-1"),
        (Sort.TROUBLE, "node-2"),
    ],
)
def test_orders(sort: Sort, first: str) -> None:
    assert text(SMALL, TopView(sort=sort))[3].startswith(first)


def test_free_devices_first() -> None:
    assert text(fleet(9), TopView(sort=Sort.FREE))[3].startswith("node-0000")
    assert text(fleet(9), TopView(sort=Sort.USED))[3].startswith("node-0008")


@pytest.mark.parametrize(
    ("filter", "nodes", "pods"),
    [
        ("node-1", 1, 0),
        ("NODE-1", 1, 0),
        ("claim-0", 1, 0),  # by who has a device there
        ("gpu.example.com", 3, 0),
        ("train-1", 0, 1),
        ("cordoned", 0, 1),  # by what is said
        ("nothing", 0, 0),
    ],
)
def test_filters(filter: str, nodes: int, pods: int) -> None:
    lines = text(SMALL, TopView(filter=filter))
    assert any(line.startswith(f"NODES {nodes}") for line in lines)
    assert any(line.startswith(f"PENDING {pods}") for line in lines)
    assert f"only with “{filter}”" in lines[-1]


@given(
    width=st.integers(1, 220), height=st.integers(1, 60), nodes=st.integers(0, 40), pods=st.integers(0, 12),
    devices=st.integers(0, 20), offset=st.integers(0, 100), focus=st.sampled_from(TopPart),
)  # fmt: skip
def test_a_picture_fits_any_terminal(
    width: int, height: int, nodes: int, pods: int, devices: int, offset: int, focus: TopPart
) -> None:
    seen = replace(fleet(nodes, devices), pending=[waiting_pod(n, "why " * n) for n in range(pods)])
    view = TopView(focus=focus, offsets=dict.fromkeys(TopPart, offset))
    drawn = frame(seen, view, SETTING, width, height)
    assert len(drawn.lines) == height
    assert all(sum(len(each) for each, _ in line) <= width for line in drawn.lines)


def test_every_node_and_pod_can_be_scrolled_to() -> None:
    seen = replace(fleet(150), pending=[waiting_pod(n) for n in range(30)])
    for part, wanted in (
        (TopPart.NODES, "node-0149"),
        (TopPart.PENDING, "train-29"),
        (TopPart.POOLS, "node-0149"),
    ):
        view, found = TopView(focus=part), False
        for _ in range(600):
            drawn = frame(seen, view, SETTING, 80, 24)
            shown = "\n".join("".join(each for each, _ in line) for line in drawn.lines)
            found |= wanted in shown
            after = pressed(view, "down", drawn.extents)
            if after == view:
                break
            view = after
        assert found
        assert pressed(view, "up", drawn.extents) != view  # the end is not passed


def test_without_a_height_everything_is_there() -> None:
    lines = text(replace(fleet(300), pending=[waiting_pod(n) for n in range(300)]), height=None)
    assert sum(line.startswith("node-") for line in lines) == 600  # with a pool each
    assert sum(line.startswith("team-a/") for line in lines) == 300


def test_only_what_is_seen_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(each: DeviceUsage) -> DeviceSign:
        drawn.append(each.name)
        return kind_of(each)

    monkeypatch.setattr("allotment.cli.render.device_cell.kind_of", noted)
    text(fleet(1000), TopView(), 80, 24)
    assert 0 < len(drawn) < 24 * 8 * 4


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("2026-11-16T14:02:05Z", "6s"),
        ("2026-11-16T13:59:00Z", "3m"),
        ("2026-11-16T11:00:00Z", "3h"),
        ("2026-11-10T11:00:00Z", "6d"),
        ("2026-11-16T14:03:00Z", "0s"),  # another clock
        ("", ""),
        ("yesterday", ""),
    ],
)
def test_ages(since: str, words: str) -> None:
    assert age(since, NOW) == words


# --- keys ---


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\x1b", ["escape"]),
        (b"/gpu\r", ["/", "g", "p", "u", "enter"]),
        (b"\x7f\t", ["backspace", "tab"]),
        ("ü".encode(), ["ü"]),
        (b"\x1b[1;5C\x00\xff", []),  # nobody here knows those
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert keys_of(data) == keys


EXTENTS = {part: ListExtent(10, 100) for part in TopPart}


def after(*keys: str) -> TopView:
    view = TopView()
    for key in keys:
        view = pressed(view, key, EXTENTS)
    return view


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        (("q",), TopView(ended=True)),
        (("s",), TopView(sort=Sort.FREE)),
        (("s",) * 4, TopView()),
        (("tab",), TopView(focus=TopPart.PENDING)),
        (("down", "down", "up"), TopView(offsets={TopPart.NODES: 1})),
        (("up",), TopView(offsets={TopPart.NODES: 0})),
        (("page down",), TopView(offsets={TopPart.NODES: 9})),
        (("end",), TopView(offsets={TopPart.NODES: 90})),
        (("end", "down"), TopView(offsets={TopPart.NODES: 90})),
        (("end", "home"), TopView(offsets={TopPart.NODES: 0})),
        (("h",), TopView(help=True)),
        (("h", "escape"), TopView()),
        (("/", "q", "s"), TopView(filter="qs", typing="")),  # letters are letters while one types
        (("/", "a", "backspace", "b", "enter"), TopView(filter="b")),
        (("/", "a", "enter", "/", "b", "escape"), TopView(filter="a")),
        (("/", "a", "enter", "escape"), TopView()),
        (("x",), TopView()),
    ],
)
def test_what_keys_do(keys: tuple[str, ...], view: TopView) -> None:
    assert after(*keys) == view


# --- the command ---


def top(allot: Allot, *options: str, objects: tuple[Json, ...] = FLEET) -> Ran:
    return allot("top", "--offline", "-", *options, stdin=written(*objects))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents(allot: Allot, form: str) -> None:
    ran = top(allot, "-o", form)
    assert (ran.code, ran.err) == (0, "")
    same_as_golden(f"top-{form}.txt", ran.out)


def test_json_and_yaml_say_the_same(allot: Allot) -> None:
    ran = top(allot, "-o", "json", objects=(*HEALTHY, *WRONG))
    assert json.loads(ran.out) == yaml.safe_load(top(allot, "-o", "yaml", objects=(*HEALTHY, *WRONG)).out)


def test_in_a_pipe_it_is_one_plain_picture(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for options in ((), ("--once",)):
        ran = top(allot, *options)
        assert (ran.code, ran.err) == (0, "")
        assert "\x1b" not in ran.out
        first, rest = ran.out.split("\n", 1)  # has the time
        assert first.startswith(
            "allot top  5 nodes (1 without devices), 4 pools, 13 devices  saved manifests"
        )
        same_as_golden("top-table.txt", rest)


def test_reasons_are_those_of_explain(allot: Allot) -> None:
    [told] = json.loads(top(allot, "-o", "json").out)["pending"]
    explained = allot("explain", "pod", "wide", "--offline", "-", "-o", "json", stdin=written(*FLEET))
    assert (told["state"], told["reason"]) == tuple(
        json.loads(explained.out)[key] for key in ("state", "reason")
    )


TEMPLATE: Json = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "pair", "namespace": "team-a"},
    "spec": {"spec": team_claim("any", count=2)["spec"]},
}


@pytest.mark.parametrize(
    ("objects", "state", "words"),
    [
        ((waiting("p", template="pair"), TEMPLATE), "Fits", "fits on node n; nothing stands in its way"),
        ((waiting("p", template="none"),), "Waits", "there is no ResourceClaimTemplate team-a/none"),
        ((waiting("p", "nothing"),), "Waits", "nothing"),
        ((waiting("p", cpu="1"),), "Fits", "fits on node n"),
    ],
    ids=["from a template", "without its template", "without its claim", "no claims"],
)
def test_pods_of_other_kinds(allot: Allot, objects: tuple[Json, ...], state: str, words: str) -> None:
    fleet = (gpu_class(), reporting_node("n"), slice_of("n", "gpu-0", "gpu-1"), *objects)
    [told] = json.loads(top(allot, "-o", "json", objects=fleet).out)["pending"]
    assert told["state"] == state
    assert words in told["reason"]


def test_names_cannot_command_the_terminal(allot: Allot) -> None:
    hostile = slice_of("n", "a", pool="n\x1b[2J")
    ran = top(allot, objects=(hostile,))
    assert "\x1b" not in ran.out + ran.err
