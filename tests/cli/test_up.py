"""``allot up`` and its companions, as processes: what a person sees, and what they leave behind."""

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from allotment.api.codec import to_builtins
from allotment.api.status import Forbidden, NotFound, Unauthorized
from allotment.cli.options.data_folder import folder_of
from allotment.client.client import Client
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from allotment.client.transport import Call
from allotment.insight.errors import Failure
from tests.autoscaler.build import pool, type_
from tests.command_line import Allot
from tests.corpus import unavailable

ALLOT = Path(sys.executable).with_name("allot")
PATIENCE = 60


BARE = ("--no-scheduler", "--no-controllers")
"""Where they are not the point: they take longer to start than the server."""


def ended(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process, which ends by itself."""
    return subprocess.run(
        [ALLOT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A server in a process, ended with the block."""
    command = [str(ALLOT), "up", "--data-dir", str(folder), "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def greeting(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if "Ctrl-C" in line:
            return lines
    assert process.stderr is not None
    pytest.fail(f"it did not start: {process.stderr.read()}")


def ask(kubeconfig: Path, steps: Any) -> Any:
    async def run() -> Any:
        async with Client(HttpTransport(load(kubeconfig)), manager="test") as client:
            return await steps(client)

    return asyncio.run(run())


@dataclass(frozen=True)
class Running:
    """A server in a process, for tests that leave it as it is."""

    folder: Path
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One without components, which also takes a token."""
    folder = tmp_path_factory.mktemp("running")
    (folder / "tokens.csv").write_text('s3cret,ci,u1,"builders,system:masters"\n')
    with up(folder / "data", *BARE, "--token-file", str(folder / "tokens.csv")) as process:
        greeting(process)
        yield Running(folder / "data", process)


def config_map(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}}


def test_it_prints_the_two_lines_that_a_person_needs_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    with up(tmp_path / "data") as process:
        lines = greeting(process)
        assert f"export KUBECONFIG={tmp_path}/data/kubeconfig" in lines
        assert any(line.startswith("kubectl get") for line in lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_on_a_terminal_reaches_every_process_and_all_end_without_a_warning(tmp_path: Path) -> None:
    command = [str(ALLOT), "up", "--demo", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        greeting(process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "stopping ...\n")


def test_the_kubeconfig_is_private_and_works_and_what_was_written_is_there_after_a_restart(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with up(folder, *BARE) as process:
        greeting(process)
        assert stat.S_IMODE((folder / "kubeconfig").stat().st_mode) == 0o600
        ask(folder / "kubeconfig", lambda client: client.plain("v1", "configmaps").create(config_map("kept")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    with up(folder, *BARE) as process:
        greeting(process)
        found = ask(
            folder / "kubeconfig", lambda client: client.plain("v1", "configmaps").get("kept", "default")
        )
        assert found["data"] == {"k": "v"}


@dataclass(frozen=True)
class DemoRun:
    """What the first start of the demo in a folder said and had, until Ctrl-C ended it."""

    folder: Path
    greeted: list[str]
    names: set[str]
    notebook: str  # the node where it runs
    code: int


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    folder = tmp_path_factory.mktemp("demo") / "data"
    with up(folder, "--demo") as process:
        greeted = greeting(process)
        names = ask(folder / "kubeconfig", nodes_and_slices)
        notebook = ask(folder / "kubeconfig", where_notebook_runs)
        process.send_signal(signal.SIGINT)
        return DemoRun(folder, greeted, names, notebook, process.wait(PATIENCE))


async def nodes_and_slices(client: Client) -> set[str]:
    slices = await client.plain("resource.k8s.io/v1", "resourceslices", namespaced=False).list()
    nodes = await client.plain("v1", "nodes", namespaced=False).list()
    assert all(
        condition["lastHeartbeatTime"] for node in nodes.items for condition in node["status"]["conditions"]
    )
    return {obj["metadata"]["name"] for obj in nodes.items + slices.items}


async def where_notebook_runs(client: Client) -> str:
    async with asyncio.timeout(PATIENCE):
        async with client.plain("v1", "pods").watch("demo", initial_events=True) as events:
            async for event in events:
                pod = event.object or {"metadata": {"name": ""}}
                if pod["metadata"]["name"] == "notebook-1" and pod["status"].get("phase") == "Running":
                    return str(pod["spec"]["nodeName"])
    raise AssertionError("the watch ended")


def test_the_demo_has_nodes_and_devices_and_can_be_started_again(demo_run: DemoRun, tmp_path: Path) -> None:
    wanted = {"ada", "bea", "cleo", "ada-gpu", "bea-gpu-counters"}
    assert wanted <= demo_run.names
    folder = tmp_path / "data"
    shutil.copytree(demo_run.folder, folder)
    with up(folder, "--demo") as process:
        greeting(process)
        assert wanted <= ask(folder / "kubeconfig", nodes_and_slices)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_simulated_nodes_are_played_without_the_demo_too(tmp_path: Path) -> None:
    """A folder that the demo was in goes on when it is started plainly."""
    label = {"allotment.dev/simulated": "true"}
    container = {"name": "c", "image": "i"}
    with up(tmp_path / "data") as process:
        greeting(process)

        async def runs(client: Client) -> None:
            pods = client.plain("v1", "pods")
            await client.plain("v1", "nodes", namespaced=False).create(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": label}}
            )
            await pods.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p", "namespace": "default"},
                    "spec": {"nodeName": "n", "containers": [container]},
                }
            )
            async with asyncio.timeout(PATIENCE), pods.watch("default", initial_events=True) as events:
                async for event in events:
                    if event.object and event.object.get("status", {}).get("phase") == "Running":
                        return
            raise AssertionError("the watch ended")

        ask(tmp_path / "data" / "kubeconfig", runs)


def test_the_demo_brings_workloads_that_run(demo_run: DemoRun) -> None:
    assert "kubectl get pods,resourceclaims -n demo -o wide" in demo_run.greeted
    assert demo_run.notebook
    assert demo_run.code == 0


def test_pools_are_counted_unless_their_feature_gate_is_off(tmp_path: Path) -> None:
    """Off, the controller is not there: it has no numbers. On again in the same folder, it counts what was there already."""
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }

    async def numbers(client: Client) -> str:
        return (await client.transport.call(Call("GET", "/metrics"))).body.decode()

    async def off(client: Client) -> None:
        await client.plain("resource.k8s.io/v1", "resourceslices", namespaced=False).create(slice_)
        told = await numbers(client)
        assert "allotment_semantic_claims_allocated" in told  # other controllers have theirs
        assert "resourcepool_controller" not in told
        assert not (
            await client.plain("resource.k8s.io/v1beta2", "resourcepools", namespaced=False).list()
        ).items

    async def on(client: Client) -> None:
        assert "resourcepool_controller" in await numbers(client)
        pools = client.plain("resource.k8s.io/v1beta2", "resourcepools", namespaced=False)
        async with asyncio.timeout(PATIENCE), pools.watch(initial_events=True) as events:
            async for event in events:
                if event.object and event.object.get("spec", {}).get("driver") == "gpu.example.com":
                    return
        raise AssertionError("the watch ended")

    gate = "DRAResourceAvailabilityVisibility"
    for value, look in (("false", off), ("true", on)):
        with up(tmp_path / "data", "--no-scheduler", "--feature-gates", f"{gate}={value}") as process:
            greeting(process)
            ask(tmp_path / "data" / "kubeconfig", look)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


def test_with_autoscale_machines_of_the_catalogue_come_for_pods(tmp_path: Path) -> None:
    catalogue = [
        type_("t", {"a": "1"}),
        pool("p", template={"metadata": {"annotations": {"allotment.dev/boot-seconds": "0"}}}),
    ]
    file = tmp_path / "types.json"
    file.write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [to_builtins(each) for each in catalogue]})
    )

    async def runs(client: Client) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        pods = client.plain("v1", "pods")
        await pods.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [container]},
            }
        )
        async with asyncio.timeout(PATIENCE), pods.watch("default", initial_events=True) as events:
            async for event in events:
                node = (event.object or {}).get("spec", {}).get("nodeName")
                if node and event.object and event.object["status"].get("phase") == "Running":
                    break
        [claim] = (await client.plain("karpenter.sh/v1", "nodeclaims", namespaced=False).list()).items
        assert node == claim["metadata"]["name"]
        told = (await client.transport.call(Call("GET", "/metrics"))).body.decode()
        assert (
            'allotment_autoscaling_machines_total{source="p",type="t"} 1.0' in told
        )  # of a process of its own
        assert "scheduler_pending_pods" in told
        families = [line for line in told.splitlines() if line.startswith("# TYPE")]
        assert len(families) == len(set(families))  # as Prometheus wants it, of all processes together

    with up(tmp_path / "data", "--autoscale", "--catalog", str(file)) as process:
        greeting(process)
        ask(tmp_path / "data" / "kubeconfig", runs)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


REFUSED = {
    "machines that nobody launches": (
        ["--autoscale", "--no-controllers"],
        "--autoscale needs the controllers",
    ),
    "a demo without controllers": (["--demo", "--no-controllers"], "--demo needs the controllers"),
    "a configuration for no scheduler": (
        ["--no-scheduler", "--scheduler-config", "x"],
        "--scheduler-config has no effect",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_contradict_each_other(tmp_path: Path, allot: Allot, name: str) -> None:
    arguments, words = REFUSED[name]
    tried = allot("up", "--data-dir", str(tmp_path / "data"), *arguments)
    assert tried.code == 2
    assert words in tried.err


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("allotment.scheduler.driver.Driver.run", "the scheduler failed: ZeroDivisionError: oh"),
        ("allotment.controllers.controller.Controller.run", "the controllers failed: ZeroDivisionError: oh"),
        ("allotment.client.recorder.Recorder.run", "writing events failed: ZeroDivisionError: oh"),
    ],
)
def test_a_part_that_fails_ends_it_all_and_says_so(tmp_path: Path, broken: str, words: str) -> None:
    owner, _, method = broken.rpartition(".")
    module, _, name = owner.rpartition(".")
    (tmp_path / "sitecustomize.py").write_text(
        f"from {module} import {name}\n"
        f"async def fail(self): raise ZeroDivisionError('oh')\n"
        f"{name}.{method} = fail\n"
    )
    ran = subprocess.run(
        [ALLOT, "up", "--port", "0", "--data-dir", tmp_path / "data"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},  # for the process of the components too
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 1
    *_, error, hint = ran.stderr.strip().splitlines()
    assert error == f"Error: {words}"
    assert "everything has stopped" in hint


def test_scheduler_and_controllers_are_a_process_whose_end_is_the_end_of_all(tmp_path: Path) -> None:
    with up(tmp_path / "data") as process:
        greeting(process)
        numbers = ask(
            tmp_path / "data" / "kubeconfig", lambda client: client.send(Call("GET", "/metrics"))
        ).body.decode()
        assert "\napiserver_request_total{" in numbers
        assert "\nscheduler_pending_pods{" in numbers
        (other,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(other), signal.SIGKILL)
        _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "Error: the process of scheduler and controllers ended with -9" in told


def test_autoscaling_is_a_process_whose_end_is_the_end_of_all(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--autoscale", "--no-scheduler") as process:
        greeting(process)
        others = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (scaling,) = [
            each for each in others if b'"autoscaling"' in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
        os.kill(int(scaling), signal.SIGKILL)
        _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "Error: the process of autoscaling ended with -9" in told
    assert not any(Path(f"/proc/{each}").exists() for each in others)


def test_a_second_instance_is_told_who_has_the_folder(running: Running) -> None:
    second = ended("up", "--data-dir", running.folder, "--port", "0")
    assert second.returncode == 1
    assert f"in use by process {running.process.pid}" in second.stderr


def test_a_port_in_use_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tried = ended("up", "--data-dir", tmp_path / "data", "--port", port)
    assert tried.returncode == 1
    assert f"127.0.0.1:{port} is in use" in tried.stderr
    assert "--port 0" in tried.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tried = ended("up", "--data-dir", tmp_path / "file" / "data", "--port", "0")
    assert tried.returncode == 1
    assert str(tmp_path / "file") in tried.stderr
    assert "Traceback" not in tried.stderr


def test_credentials_are_issued_for_a_user_and_grant_nothing_by_themselves(
    running: Running, tmp_path: Path, allot: Allot
) -> None:
    issued = allot("kubeconfig", "--user", "jane", "--group", "dev", "--data-dir", str(running.folder))
    assert issued.code == 0
    (tmp_path / "jane").write_text(issued.out)

    async def who(client: Client) -> Any:
        with pytest.raises(Forbidden, match='User "jane" cannot list resource "pods"'):
            await client.plain("v1", "pods").list("default")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        reviews = client.plain("authentication.k8s.io/v1", "selfsubjectreviews", namespaced=False)
        return (await reviews.create(review))["status"]["userInfo"]

    found = ask(tmp_path / "jane", who)
    assert (found["username"], found["groups"]) == ("jane", ["dev", "system:authenticated"])


def test_tokens_come_from_a_file(running: Running, tmp_path: Path) -> None:
    config = yaml.safe_load((running.folder / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": "s3cret"}
    (tmp_path / "ci").write_text(yaml.safe_dump(config))
    found = ask(
        tmp_path / "ci", lambda client: client.plain("v1", "configmaps").create(config_map("by-token"))
    )
    assert found["metadata"]["uid"]
    config["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "ci").write_text(yaml.safe_dump(config))
    with pytest.raises(Unauthorized):
        ask(tmp_path / "ci", lambda client: client.plain("v1", "configmaps").list("default"))


def test_a_token_file_that_is_none_is_named(tmp_path: Path, allot: Allot) -> None:
    (tmp_path / "tokens").write_text("only-a-token\n")
    tried = allot(
        "up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--token-file", str(tmp_path / "tokens")
    )
    assert tried.code == 1
    assert f"{tmp_path}/tokens, line 1" in tried.err


def test_credentials_without_a_server_say_how_to_start_one(tmp_path: Path, allot: Allot) -> None:
    tried = allot("kubeconfig", "--user", "jane", "--data-dir", str(tmp_path / "none"))
    assert tried.code == 1
    assert "allot up" in tried.err
    assert not (tmp_path / "none").exists()


def test_a_backup_made_while_it_runs_brings_back_what_was_lost(tmp_path: Path, allot: Allot) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    maps = ("v1", "configmaps")
    with up(folder, *BARE) as process:
        greeting(process)
        ask(folder / "kubeconfig", lambda client: client.plain(*maps).create(config_map("before")))
        assert allot("backup", str(backup), "--data-dir", str(folder)).code == 0
        ask(folder / "kubeconfig", lambda client: client.plain(*maps).create(config_map("after")))
        refused = allot("restore", str(backup), "--data-dir", str(folder))
        assert refused.code == 1
        assert "in use by process" in refused.err
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    assert allot("restore", str(backup), "--data-dir", str(folder)).code == 0
    with up(folder, *BARE) as process:
        greeting(process)
        ask(folder / "kubeconfig", lambda client: client.plain(*maps).get("before", "default"))
        with pytest.raises(NotFound):
            ask(folder / "kubeconfig", lambda client: client.plain(*maps).get("after", "default"))


def test_a_damaged_backup_is_refused_and_the_store_stays(tmp_path: Path, allot: Allot) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    with up(folder, *BARE) as process:
        greeting(process)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    before = (folder / "store.db").read_bytes()
    backup.write_bytes(os.urandom(10_000))
    refused = allot("restore", str(backup), "--data-dir", str(folder))
    assert refused.code == 1
    assert "nothing was restored" in refused.err
    assert (folder / "store.db").read_bytes() == before


def test_with_verbose_every_request_is_a_line_of_json(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with up(folder, *BARE, "--verbose") as process:
        greeting(process)
        with pytest.raises(NotFound):
            ask(folder / "kubeconfig", lambda client: client.plain("v1", "configmaps").get("none", "default"))
        process.send_signal(signal.SIGTERM)
        _, written = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    (asked,) = [line for line in lines if line["path"].endswith("/configmaps/none")]
    assert (asked["method"], asked["status"], asked["user"]) == ("GET", 404, "admin")


@pytest.mark.parametrize(("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_the_kubeconfig_has_an_address_that_clients_reach(tmp_path: Path, host: str, reached: str) -> None:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        unavailable(f"the address {host}")
    with up(tmp_path / "data", *BARE, "--host", host, "--name", "gpus.example.com") as process:
        (line,) = [line for line in greeting(process) if "serves" in line]
        assert f"https://{reached}:" in line
        ask(tmp_path / "data" / "kubeconfig", lambda client: client.read("/version"))
    certificate = x509.load_pem_x509_certificate((tmp_path / "data/pki/server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gpus.example.com" in names.get_values_for_type(x509.DNSName)


def test_an_empty_host_is_refused(tmp_path: Path, allot: Allot) -> None:
    tried = allot("up", "--data-dir", str(tmp_path / "data"), "--host", "")
    assert tried.code == 2
    assert "--host" in tried.err


def serves(process: subprocess.Popen[Any], folder: Path) -> None:
    """Waits until a server answers that prints nothing one could wait for."""
    for _ in range(PATIENCE * 10):
        if (folder / "kubeconfig").exists() or process.poll() is not None:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    ask(folder / "kubeconfig", lambda client: client.read("/version"))


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)], ids=["output", "all"])
def test_it_runs_with_standard_streams_closed(tmp_path: Path, closed: tuple[int, ...]) -> None:
    folder = tmp_path / "data"
    redirections = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    script = f'exec "$0" up --port 0 --data-dir "$1" {redirections}'
    process = subprocess.Popen(["sh", "-c", script, str(ALLOT), str(folder)], stderr=subprocess.PIPE)
    try:
        serves(process, folder)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def test_it_stops_in_order_when_its_terminal_closes(tmp_path: Path) -> None:
    with up(tmp_path / "data") as process:
        greeting(process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE) == 0


def test_a_file_that_is_no_backup_is_named_and_nothing_changes(tmp_path: Path, allot: Allot) -> None:
    (tmp_path / "note").write_text("no backup, this")
    tried = allot("restore", str(tmp_path / "note"), "--data-dir", str(tmp_path / "data"))
    assert tried.code == 1
    assert f"{tmp_path}/note is not a valid backup: it is not a database" in tried.err
    assert "allot restore" not in tried.err


def test_a_kubeconfig_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "kubeconfig").mkdir(parents=True)  # in the way of the file
    tried = ended("up", "--data-dir", folder, "--port", "0")
    assert tried.returncode == 1
    assert f"{folder}/kubeconfig cannot be written" in tried.stderr
    assert "Traceback" not in tried.stderr


def test_without_a_home_it_asks_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(Failure, match="no home folder"):
        folder_of(None)


def test_it_serves_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    reader, writer = os.pipe()
    os.close(reader)
    command = [str(ALLOT), "up", "--data-dir", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    try:
        serves(process, folder)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=PATIENCE)
        assert "stopping" in told  # it was still there
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
