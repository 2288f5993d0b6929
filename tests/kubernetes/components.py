"""The real kube-scheduler and kube-controller-manager on a server of ours, each with its own identity over TLS.

They run with their defaults where a test does not need otherwise: protobuf as the content type that they prefer, list by
watch, leader election. Switched off are their own ports and the controllers of kinds that we do not serve.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.kubernetes.control_plane import FEATURES, programs

CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "serviceaccount-controller",
)
COMPONENTS = ("kube-scheduler", "kube-controller-manager")

_COMPLAINT = re.compile(
    r"^E\d{4}|[Ff]ailed to (list|watch)|unexpected|unable to decode|no kind .* is registered|[Ff]orbidden",
    re.M,
)
_FINE = (
    "The manifest file is empty",  # of pods that a kubelet would run
    "is not as new as written version",  # a controller whose cache has not seen its own write yet: it tries again
    "object has been modified",  # two controllers at one object: the second tries again
    "might have been modified",  # both garbage collectors at one object, ours and theirs
    "not found",  # an object that was deleted under a controller
)


@contextlib.contextmanager
def components(kubeconfig: Callable[[str], str], folder: Path) -> Iterator[dict[str, Path]]:
    """Both running, and where each logs. ``kubeconfig`` issues one for a user. Raises Absent where they are not built."""
    where = programs()
    logs = {name: folder / f"{name}.log" for name in COMPONENTS}
    with contextlib.ExitStack() as stack:
        for name, log in logs.items():
            config = folder / f"{name}.kubeconfig"
            config.write_text(kubeconfig(f"system:{name}"))
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(
                [where / name, *_flags(name, config)], stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )
            stack.callback(_end, process)
        yield logs


def complaints(log: Path) -> list[str]:
    """What a component has to say against the server."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if _COMPLAINT.search(line) and not any(fine in line for fine in _FINE)]


def _flags(name: str, config: Path) -> list[str]:
    flags = [
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--secure-port=0",
        f"--feature-gates={','.join(f'{feature}=true' for feature in FEATURES)}",
    ]
    if name == "kube-controller-manager":
        flags.append(f"--controllers={','.join(CONTROLLERS)}")
    return flags


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
