"""The real kubectl, as a person would type it: one server's kubeconfig, a cache of its own, and a namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from tests.kubernetes.control_plane import Absent, programs

PATIENCE = 60.0  # seconds for a command to end


def installed() -> dict[str, Path]:
    """The kubectls at hand, by where they come from: the one that ``make kubernetes`` builds, and the one on the PATH."""
    found: dict[str, Path] = {}
    try:
        built = programs() / "kubectl"
    except Absent:
        built = None
    if built is not None and built.exists():
        found["built"] = built
    on_path = shutil.which("kubectl")
    if on_path is not None:
        found["path"] = Path(on_path)
    return found


class Failed(AssertionError):
    """The command ended with another code than expected."""


@dataclass(frozen=True)
class Kubectl:
    """``namespace`` is added to every command where it is set."""

    program: Path
    kubeconfig: Path
    home: Path
    namespace: str = ""

    def within(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def __call__(self, *arguments: str, stdin: Any = None, code: int = 0) -> str:
        """Runs a command and returns what it prints, both streams. ``stdin`` is a manifest: an object, or a list of them."""
        text = stdin if isinstance(stdin, str) else _manifest(stdin)
        done = subprocess.run(
            self._line(arguments),
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            env=self._environment(),
            check=False,
        )
        if done.returncode != code:
            raise Failed(f"kubectl {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    @contextmanager
    def following(self, *arguments: str) -> Iterator[IO[str]]:
        """A command that goes on, and its output; it is ended on the way out."""
        process = subprocess.Popen(
            self._line(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment(),
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def _line(self, arguments: tuple[str, ...]) -> list[str]:
        place = ["--namespace", self.namespace] if self.namespace else []
        return [str(self.program), "--kubeconfig", str(self.kubeconfig), *place, *arguments]

    def _environment(self) -> dict[str, str]:
        """Nothing of the user's own configuration, and a discovery cache for this server alone. Garbage stays where it is,
        as kubectl lives too shortly for collecting it to pay."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        return {**kept, "HOME": str(self.home), "KUBECACHEDIR": str(self.home / "cache"), "GOGC": "off"}


def _manifest(objects: Any) -> str | None:
    if objects is None:
        return None
    if isinstance(objects, list):
        objects = {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(objects)
