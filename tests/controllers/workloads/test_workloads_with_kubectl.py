"""What people do with workloads, with the real kubectl: it waits, looks and undoes as with any cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from allotment.api.core import Pod
from allotment.api.status import NotFound
from allotment.controllers.workloads.deployments import Deployments
from allotment.controllers.workloads.jobs import Jobs
from allotment.controllers.workloads.replica_sets import ReplicaSets
from tests.controllers.cluster import Cluster, running_cluster
from tests.controllers.workloads.workload_objects import HERE, Kubelet, deployment, job
from tests.corpus import unavailable
from tests.kubectl.command import Kubectl, installed

PROGRAMS = installed()
Command = Callable[..., Awaitable[str]]


@pytest.fixture(params=list(PROGRAMS) or ["none"])
def program(request: pytest.FixtureRequest) -> Path:
    if not PROGRAMS:
        unavailable("kubectl (run `make kubernetes`, which needs Go, or install it)")
    return PROGRAMS[request.param]


async def run_pods(kubelet: Kubelet, phase: Callable[[Pod], str]) -> None:
    """Starts or ends every pod as it comes, until cancelled."""
    news, begun = asyncio.Event(), set[str]()
    kubelet.seen.on_change(lambda _old, _new: news.set())
    while True:
        for each in kubelet.alive():
            if each.metadata.uid not in begun:
                begun.add(each.metadata.uid)
                word = phase(each)
                with suppress(NotFound):
                    await kubelet.phase(each.metadata.name, word, ready=word == "Running")
        await news.wait()
        news.clear()


def with_kubectl(
    folder: Path,
    program: Path,
    scenario: Callable[[Cluster, Command], Awaitable[None]],
    phase: Callable[[Pod], str] = lambda _: "Running",
) -> None:
    async def run() -> None:
        async with running_cluster(folder, port=0) as cluster:
            cluster.server.write_kubeconfig()
            kubectl = Kubectl(program, cluster.server.folder.kubeconfig, folder, HERE)
            part = cluster.component()
            kinds = (Deployments, ReplicaSets, Jobs)
            await part.start(*(kind(part.client, part.informers, part.recorder) for kind in kinds))
            nodes = asyncio.create_task(run_pods(Kubelet(cluster), phase))
            try:
                await scenario(cluster, lambda *words, **more: asyncio.to_thread(kubectl, *words, **more))
            finally:
                nodes.cancel()
                await asyncio.gather(nodes, return_exceptions=True)

    asyncio.run(run())


def test_a_rollout_is_followed_and_undone(tmp_path: Path, program: Path) -> None:
    async def scenario(cluster: Cluster, kubectl: Command) -> None:
        await kubectl("apply", "-f", "-", stdin=deployment())
        told = await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        assert told.endswith('deployment "web" successfully rolled out\n')
        await kubectl("set", "image", "deployment/web", "main=two")
        await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        history = await kubectl("rollout", "history", "deployment/web")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
        await kubectl("rollout", "undo", "deployment/web")
        await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        await kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
        row = (await kubectl("get", "deployment", "web")).splitlines()[1].split()
        assert row[:4] == ["web", "3/3", "3", "3"]
        images = {each.spec.containers[0].image for each in Kubelet(cluster).alive()}
        assert images == {"one"}

    with_kubectl(tmp_path, program, scenario)


def test_a_job_is_waited_for(tmp_path: Path, program: Path) -> None:
    async def scenario(cluster: Cluster, kubectl: Command) -> None:
        await kubectl("apply", "-f", "-", stdin=job(completions=3, parallelism=2))
        await kubectl("wait", "--for=condition=complete", "job/work", "--timeout=30s")
        row = (await kubectl("get", "job", "work")).splitlines()[1].split()
        assert row[:3] == ["work", "Complete", "3/3"]
        assert "Completed" in await kubectl("describe", "job", "work")
        await kubectl("delete", "job", "work", "--timeout=30s")
        await cluster.eventually(lambda: len(cluster.seen.of(Pod)) == 0)

    with_kubectl(tmp_path, program, scenario, lambda _: "Succeeded")
