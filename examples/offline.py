"""What Allotment does without any server, on the example cluster in this folder: `.venv/bin/python examples/offline.py`.

Every step is an ordinary command, printed before its output, so that you can go on from there by yourself.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
ALLOT = Path(sys.executable).with_name("allot")

STEPS: list[tuple[str, list[str]]] = [
    (
        """\
        What is there? Three nodes: ada has four large GPUs and a network card that is shared by bandwidth, bea has one
        GPU that can be cut into halves and quarters, cleo has four small ones. Selectors are CEL expressions; this one
        looks for at least 40Gi of memory, and for every device you see the value that it read.""",
        [
            "cel",
            'device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0',
            "-f",
            "examples/2-devices.yaml",
        ],
    ),
    (
        """\
        Who gets what? Nine pods and claims want devices. Two of them ask for more than there is: what do they lack?""",
        ["allocate", "-f", "examples"],
    ),
    (
        """\
        The same search serves the early partitionable model of KEP-4381, where a card is a tree of alternative parts
        and the use of one part locks its alternatives.""",
        ["allocate", "-f", "examples/semantic"],
    ),
]


def main() -> int:
    for number, (words, arguments) in enumerate(STEPS, start=1):
        rule = "=" * 110
        told = textwrap.fill(" ".join(words.split()), 110)
        print(f"{rule}\n{number}. {told}\n\n   $ .venv/bin/allot {shlex.join(arguments)}\n", flush=True)
        code = subprocess.run([str(ALLOT), *arguments], cwd=CHECKOUT, check=False).returncode
        if code not in (0, 1):  # 1 is an answer too: something does not fit
            return code
        print()
    print("More: docs/commands.md, `.venv/bin/allot allocate --help`, and --explain on any of the above.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
