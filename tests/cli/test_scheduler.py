"""``allot scheduler``: alone against a server, what it would do, and what it says when it cannot."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.cli.served import Served, component, gpu_claim, gpu_class, gpu_pod, gpus, interrupted, said, served
from tests.cli.test_up import ask
from tests.command_line import Allot, same_as_golden

__all__ = ["served"]  # a fixture

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process leave its logs alone."""
    monkeypatch.setattr("allotment.daemons.log.set_up", lambda level: None)


@pytest.fixture(scope="module")
def cluster(served: Served) -> Served:
    """A node with two devices; three pods that want one for the scheduler ``rehearsed``, one for ``alone``."""
    served.create(gpu_class(), *gpus("ada", 2))
    for name in ("first", "second", "third"):
        served.create(gpu_claim(name), gpu_pod(name, "rehearsed", resourceClaimName=name))
    served.create(gpu_claim("only"), gpu_pod("only", "alone", resourceClaimName="only"))
    return served


def versions(served: Served) -> dict[str, str]:
    async def steps(client):  # type: ignore[no-untyped-def]  # as ``ask`` takes it
        listed = [
            await client.plain(*kind).list()
            for kind in (("v1", "pods"), ("resource.k8s.io/v1", "resourceclaims"))
        ]
        return {
            f"{obj.get('kind')}{obj['metadata']['uid']}": obj["metadata"]["resourceVersion"]
            for each in listed
            for obj in each.items
        }

    found: dict[str, str] = ask(served.admin, steps)
    return found


def test_a_dry_run_tells_who_would_get_what_and_writes_nothing(allot: Allot, cluster: Served) -> None:
    before = versions(cluster)
    ran = allot(
        "scheduler",
        "--dry-run",
        "--name",
        "rehearsed",
        "--kubeconfig",
        cluster.kubeconfig("allotment:scheduler"),
    )
    assert (ran.code, ran.err) == (1, "")
    same_as_golden("scheduler-dry-run.txt", ran.out)
    assert versions(cluster) == before


def test_a_dry_run_for_programs(allot: Allot, cluster: Served) -> None:
    ran = allot(
        "scheduler",
        "--dry-run",
        "-o",
        "json",
        "--name",
        "alone",
        "--kubeconfig",
        cluster.kubeconfig("allotment:scheduler"),
    )
    assert ran.code == 0
    assert json.loads(ran.out) == {
        "pods": [
            {
                "namespace": "default",
                "name": "only",
                "fits": True,
                "node": "ada",
                "devices": ["gpu.example.com/ada/gpu-0"],
                "message": None,
            }
        ]
    }


def test_a_dry_run_with_nothing_to_do(allot: Allot, cluster: Served) -> None:
    ran = allot(
        "scheduler", "--dry-run", "--name", "idle", "--kubeconfig", cluster.kubeconfig("allotment:scheduler")
    )
    assert (ran.code, ran.out) == (0, "No pod waits for this scheduler.\n")


def test_alone_it_binds_pods_serves_its_numbers_and_gives_its_lease_back(cluster: Served) -> None:
    kubeconfig = cluster.kubeconfig("allotment:scheduler")
    with component(
        "scheduler", "--kubeconfig", kubeconfig, "--name", "alone", "--metrics-port", "0"
    ) as process:
        url = said(process, "metrics are at").split()[-1]
        bound = cluster.until(
            "pods", lambda obj: obj["metadata"]["name"] == "only" and obj["spec"].get("nodeName")
        )
        assert bound["spec"]["nodeName"] == "ada"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert 'result="scheduled"} 1.0' in answer.read().decode()
        with urllib.request.urlopen(url.replace("/metrics", "/healthz"), timeout=60) as answer:
            assert answer.read() == b"ok\n"
        assert interrupted(process) == 0
    lease = cluster.until(
        "leases", lambda obj: obj["metadata"]["name"] == "allotment-scheduler", "coordination.k8s.io/v1"
    )
    assert not lease["spec"].get("holderIdentity")


def test_without_rights_it_says_which_are_missing(allot: Allot, cluster: Served) -> None:
    ran = allot("scheduler", "--kubeconfig", cluster.kubeconfig("jane"))
    assert ran.code == 1
    assert "scheduler lacks rights: it may not list,watch nodes; list,watch namespaces;" in ran.err
    assert "docs/control-plane.md" in ran.err


def test_a_dry_run_without_rights(allot: Allot, cluster: Served) -> None:
    ran = allot("scheduler", "--dry-run", "--kubeconfig", cluster.kubeconfig("jane"))
    assert ran.code == 2
    assert 'User "jane" cannot list resource' in ran.err


def test_a_dry_run_with_a_configuration_that_is_wrong_is_no_answer(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kind: Nothing")
    ran = allot("scheduler", "--dry-run", "--config", str(tmp_path / "config.yaml"))
    assert ran.code == 2
    assert "config.yaml" in ran.err


def test_a_metrics_port_in_use_is_named(allot: Allot, cluster: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = allot(
            "scheduler", "--kubeconfig", cluster.kubeconfig("allotment:scheduler"), "--metrics-port", port
        )
    assert ran.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "--metrics-port" in ran.err


def test_a_server_that_does_not_answer_is_named(allot: Allot, cluster: Served, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = cluster.admin.read_text()
    start = config.index("https://127.0.0.1:")
    gone = config[:start] + f"https://127.0.0.1:{port}" + config[config.index("\n", start) :]
    (tmp_path / "gone").write_text(gone)
    ran = allot("scheduler", "--kubeconfig", str(tmp_path / "gone"))
    assert ran.code == 1
    assert f"cannot reach https://127.0.0.1:{port}" in ran.err
    assert "Traceback" not in ran.err


def test_a_kubeconfig_that_is_not_there_is_named(allot: Allot, tmp_path: Path) -> None:
    ran = allot("scheduler", "--kubeconfig", str(tmp_path / "none"))
    assert ran.code == 1
    assert f"{tmp_path}/none does not exist" in ran.err


BAD = {
    "an unknown field": ("profile: []", "profile"),
    "a wrong value": ("backoff: {initialSeconds: soon}", "backoff.initialSeconds"),
    "an unknown plugin": (
        "profiles: [{schedulerName: x, plugins: {disabled: [Nothing]}}]",
        "profiles[0].plugins.disabled[0]",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", [("scheduler", "--config"), ("up", "--scheduler-config")])
def test_a_bad_configuration_names_file_and_field(
    allot: Allot, tmp_path: Path, command: tuple[str, str], name: str
) -> None:
    line, field = BAD[name]
    (tmp_path / "c.yaml").write_text(f"apiVersion: allotment.dev/v1\nkind: SchedulerConfiguration\n{line}\n")
    ran = allot(command[0], command[1], str(tmp_path / "c.yaml"))
    assert ran.code == 1
    assert f"{tmp_path}/c.yaml" in ran.err
    assert field in ran.err


def test_a_configuration_that_is_not_there(allot: Allot, tmp_path: Path) -> None:
    ran = allot("scheduler", "--config", str(tmp_path / "none"))
    assert ran.code == 1
    assert f"{tmp_path}/none cannot be read" in ran.err


def test_a_name_needs_one_profile(allot: Allot, tmp_path: Path) -> None:
    text = "apiVersion: allotment.dev/v1\nkind: SchedulerConfiguration\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n"
    (tmp_path / "c.yaml").write_text(text)
    ran = allot("scheduler", "--config", str(tmp_path / "c.yaml"), "--name", "x")
    assert ran.code == 2
    assert "no more than one profile" in ran.err


@pytest.mark.parametrize("command", ["up", "demo", "scheduler", "controllers"])
def test_help(allot: Allot, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ran = allot(command, "--help")
    assert ran.code == 0
    same_as_golden(f"help-{command}.txt", ran.out)


# --- recording and replaying ---


@pytest.fixture(scope="module")
def recording(cluster: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a scheduler recorded that bound a pod with a device."""
    file = tmp_path_factory.mktemp("recording") / "run"
    cluster.create(gpu_claim("noted"), gpu_pod("noted", "recorded", resourceClaimName="noted"))
    options = ("--kubeconfig", cluster.kubeconfig("allotment:scheduler"), "--name", "recorded")
    with component("scheduler", *options, "--record", str(file)) as process:
        cluster.until("pods", lambda obj: obj["metadata"]["name"] == "noted" and obj["spec"].get("nodeName"))
        assert interrupted(process) == 0
    return file


def test_a_recorded_run_leads_to_the_same_decisions_without_a_cluster(allot: Allot, recording: Path) -> None:
    text = recording.read_text()
    assert '"instruction":"Bind"' in text
    ran = allot("scheduler", "--replay", str(recording))
    events, instructions = text.count('\n{"event"'), text.count('\n{"instruction"')
    told = f"The same: {events:,} events lead to the same {instructions:,} instructions.\n"
    assert (ran.code, ran.out, ran.err) == (0, told, "")


def test_a_replay_shows_the_first_decision_that_differs(
    allot: Allot, recording: Path, tmp_path: Path
) -> None:
    lines = recording.read_text().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines, 1) if '"instruction":"Bind"' in line)
    lines[number - 1] = lines[number - 1].replace('"node":"ada"', '"node":"bea"')
    (tmp_path / "run").write_text("".join(lines))
    ran = allot("scheduler", "--replay", str(tmp_path / "run"))
    first, recorded, now = ran.out.splitlines()
    assert (ran.code, first) == (1, f"The decisions differ at line {number}:")
    assert recorded.startswith('recorded: {"instruction": "Bind"')
    assert '"node": "bea"' in recorded
    assert now.removeprefix("now:      ") == recorded.removeprefix("recorded: ").replace("bea", "ada")


def test_a_replay_with_another_name_is_of_a_scheduler_that_decides_nothing(
    allot: Allot, recording: Path
) -> None:
    ran = allot("scheduler", "--replay", str(recording), "--name", "other")
    assert ran.code == 1
    assert ran.out.splitlines()[2] == "now:      no instruction"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "line 1 does not begin a scheduler's recording"),
        (b"kind: Pod", "line 1 does not begin a scheduler's recording"),
        (b"\xff", "cannot be replayed: 'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_recording_cannot_be_replayed(
    allot: Allot, tmp_path: Path, text: bytes, words: str
) -> None:
    (tmp_path / "run").write_bytes(text)
    ran = allot("scheduler", "--replay", str(tmp_path / "run"))
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_recording_with_a_broken_line_cannot_be_replayed(
    allot: Allot, recording: Path, tmp_path: Path
) -> None:
    first, *_ = recording.read_text().splitlines()
    (tmp_path / "run").write_text(f"{first}\nnothing\n")
    ran = allot("scheduler", "--replay", str(tmp_path / "run"))
    assert ran.code == 2
    assert "line 2 of the log is no JSON" in ran.err


def test_a_recording_that_cannot_be_written_is_told_before_anything_runs(
    allot: Allot, tmp_path: Path
) -> None:
    ran = allot("scheduler", "--record", str(tmp_path / "gone" / "run"))
    assert ran.code == 1
    assert "run cannot be written: No such file or directory" in ran.err


def test_one_thing_at_a_time(allot: Allot, recording: Path) -> None:
    ran = allot("scheduler", "--dry-run", "--replay", str(recording))
    assert ran.code == 2
    assert "--dry-run, --record and --replay exclude each other" in ran.err
