"""``allot top`` in a terminal: what a person sees while the cluster changes, and what is left of it afterwards."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.client.client import Client
from tests.cli.pseudo_terminal import in_terminal
from tests.cli.served import Served, gpu_pod
from tests.cli.test_explain import FLEET
from tests.cli.test_up import ask, greeting, up
from tests.insight.fleet import V1, gpu_class, reporting_node, slice_of, team_claim, written


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("top") / "data"
    with up(folder, "--no-scheduler", "--no-controllers") as process:
        greeting(process)
        server = Served(folder)
        server.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
            reporting_node("node-1"),
            gpu_class(),
            slice_of("node-1", "gpu-0", "gpu-1"),
        )
        yield server


def hold(server: Served, name: str, *devices: str) -> None:
    made = team_claim(name, *devices)

    async def steps(client: Client) -> None:
        claims = client.plain(V1, "resourceclaims")
        await claims.create({key: value for key, value in made.items() if key != "status"})
        await claims.patch(name, {"status": made["status"]}, "team-a", subresource="status")

    ask(server.admin, steps)


def remove(server: Served, name: str) -> None:
    async def steps(client: Client) -> None:
        claims = client.plain(V1, "resourceclaims")
        await claims.patch(name, {"status": {"allocation": None}}, "team-a", subresource="status")
        await claims.delete(name, "team-a")

    ask(server.admin, steps)


def saved(folder: Path) -> str:
    file = folder / "cluster.json"
    file.write_text(written(*FLEET))
    return str(file)


def test_changes_show_as_they_happen(fleet: Served) -> None:
    with in_terminal("top", "--kubeconfig", str(fleet.admin), "--interval", "0.1") as terminal:
        terminal.until(lambda seen: "node-1  ░░" in seen)
        hold(fleet, "mine", "gpu-0")
        terminal.until(lambda seen: "node-1  █░  1 of 2 used, 1 free" in seen)
        fleet.create(
            team_claim("two", count=2),
            gpu_pod("waits", "default-scheduler", namespace="team-a", resourceClaimName="two"),
        )
        terminal.until(lambda seen: "PENDING 1" in seen and "does not fit: 0/1 nodes" in seen)
        remove(fleet, "mine")
        terminal.until(lambda seen: "node-1  ░░" in seen and "fits on node node-1" in seen)
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.restored


def test_a_server_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server, bare = Served(tmp_path), ("--no-scheduler", "--no-controllers")
    with up(tmp_path, *bare, "--port", port) as process:
        greeting(process)
        server.create(reporting_node("node-1"), slice_of("node-1", "gpu-0"))
        with in_terminal("top", "--kubeconfig", str(server.admin), columns=160) as terminal:
            terminal.until(lambda seen: "node-1  ░" in seen)
            process.kill()
            seen = terminal.until(lambda seen: "does not answer" in seen)
            assert "node-1  ░" in seen  # the last picture stays
            with up(tmp_path, *bare, "--port", port) as again:
                greeting(again)
                terminal.until(lambda seen: "does not answer" not in seen)
                server.create(slice_of("node-2", "gpu-0"))
                terminal.until(lambda seen: "node-2  ░" in seen)
                terminal.press("q")
                assert terminal.ended() == 0


def test_keys_and_sizes(tmp_path: Path) -> None:
    with in_terminal("top", "--offline", saved(tmp_path), "--interval", "0.1", columns=70) as terminal:
        terminal.until(lambda seen: "NODES 4" in seen and "h help" in seen)
        before = terminal.picture.written
        terminal.press("/node-4\r")
        terminal.until(lambda seen: "NODES 1" in seen and "only with “node-4”" in seen)
        assert terminal.picture.written - before < 5000  # only what changed is written
        terminal.press("\x1b")
        terminal.until(lambda seen: "NODES 4" in seen)
        terminal.press("s")
        terminal.until(lambda seen: "sorted by free devices" in seen)
        for columns, lines in ((100, 30), (60, 10)):
            terminal.resize(columns, lines)
            terminal.until(lambda seen: "sorted by" in seen)
            assert "sorted by" in str(terminal.picture).splitlines()[lines - 1]
        terminal.press("h")
        terminal.until(lambda seen: "KEYS" in seen)
        terminal.press("hq")
        assert terminal.ended() == 0


@pytest.mark.parametrize("way", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_however_it_ends_the_terminal_is_as_it_was(tmp_path: Path, way: str) -> None:
    with in_terminal("top", "--offline", saved(tmp_path)) as terminal:
        terminal.until(lambda seen: "NODES" in seen)
        assert terminal.picture.alternate
        assert terminal.picture.cursor_hidden
        if way == "ctrl-c":
            terminal.press("\x03")
        else:
            terminal.process.send_signal(signal.Signals[way])
        assert terminal.ended() == 0
        assert terminal.restored


def test_a_stop_gives_the_terminal_back_and_going_on_takes_it_again(tmp_path: Path) -> None:
    with in_terminal("top", "--offline", saved(tmp_path)) as terminal:
        terminal.until(lambda seen: "NODES" in seen)
        terminal.press("\x1a")  # Ctrl-Z
        terminal.until(lambda _: not terminal.picture.alternate)
        terminal.stopped()
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(lambda seen: terminal.picture.alternate and "NODES" in seen)
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.restored


def test_a_mistake_of_ours_leaves_the_terminal_as_it_was_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised while the picture is drawn."""
    (tmp_path / "sitecustomize.py").write_text(
        "import allotment.cli.render.top_frame as it\n"
        "real = it.frame\n"
        "def frame(overview, view, *rest):\n"
        "    if view.help: raise RuntimeError('drawn wrong')\n"
        "    return real(overview, view, *rest)\n"
        "it.frame = frame\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with in_terminal("top", "--offline", saved(tmp_path)) as terminal:
        terminal.until(lambda seen: "NODES" in seen)
        terminal.press("h")
        assert terminal.ended() == 1
        assert terminal.restored
        assert "drawn wrong" in str(terminal.picture)


def test_a_server_that_is_not_there_is_told_in_one_sentence(tmp_path: Path) -> None:
    with in_terminal("top", "--kubeconfig", str(tmp_path / "none"), columns=300) as terminal:
        assert terminal.ended() == 2
        assert "does not exist" in str(terminal.picture)
        assert not terminal.picture.alternate
