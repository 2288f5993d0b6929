"""Asks the real Kubernetes allocator, a Go program that ``make upstream`` builds outside the checkout.

The program serves one JSON object a line for as long as its input is open, so an ``Oracle`` starts one process per
command at the first question and keeps it. Where the program is absent, ``find()`` says why; the ``upstream`` fixture
of this folder then skips, or fails where CI=true.
"""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.checkout import CHECKOUT


class Absent(Exception):
    """The program is not there; the message says what to do."""


def find() -> Path:
    """Where the built program lies. Make knows: the path depends on the version and the sources."""
    made = subprocess.run(
        ["make", "-s", "upstream-path"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise Absent(f"make upstream-path failed: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    if not path.exists():
        raise Absent(
            f"the upstream allocator is not built ({path} is absent): run `make upstream`, which needs Go"
        )
    return path


class Oracle:
    """One conversation with the program; not for use from several threads.

    Answers are those of ``allot allocate --ndjson`` and ``allot cel --ndjson``; ``allocate`` adds ``timeout: true``
    where the search took longer than ``timeout`` seconds.
    """

    def __init__(self, program: Path, timeout: float = 2.0, allocator: str = "experimental") -> None:
        self._arguments = [str(program), f"-timeout={timeout}s", f"-allocator={allocator}"]
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def allocate(self, problem: dict[str, Any]) -> dict[str, Any]:
        return self._ask("allocate", problem)

    def bench(self, problem: dict[str, Any]) -> dict[str, Any]:
        """Times of finding a node: ``problem`` has ``nodes`` instead of ``node``, and how often to ``repeat``."""
        return self._ask("bench", problem)

    def cel(self, question: dict[str, Any]) -> dict[str, Any]:
        return self._ask("cel", question)

    def _ask(self, command: str, question: dict[str, Any]) -> dict[str, Any]:
        return self.ask_line(command, json.dumps(question))

    def ask_line(self, command: str, line: str) -> dict[str, Any]:
        """The answer to one line as it is, which may be broken."""
        process = self._processes.get(command) or self._start(command)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        reply = process.stdout.readline()
        if not reply:
            raise RuntimeError(f"the upstream program died with exit code {process.wait()}")
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self._arguments, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._processes[command] = process
        return process

    def close(self) -> None:
        for process in self._processes.values():
            process.communicate()
        self._processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
