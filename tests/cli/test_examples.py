"""The examples do what their comments say; what the commands print is kept, to be looked at when it changes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.checkout import CHECKOUT
from tests.command_line import Allot, same_as_golden

MEMORY = 'device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0'

OUTPUTS = [
    ("examples.txt", 1, ["allocate", "-f", "examples"]),
    ("examples-explained.txt", 1, ["allocate", "-f", "examples", "--explain"]),
    ("examples.yaml", 1, ["allocate", "-f", "examples", "-o", "yaml"]),
    ("examples-explained.json", 1, ["allocate", "-f", "examples", "-o", "json", "--explain"]),
    ("examples-one-node.txt", 1, ["allocate", "-f", "examples", "--node", "cleo"]),
    ("semantic.txt", 0, ["allocate", "-f", "examples/semantic"]),
    ("semantic.yaml", 0, ["allocate", "-f", "examples/semantic", "-o", "yaml"]),
    ("cel.txt", 0, ["cel", MEMORY, "-f", "examples/2-devices.yaml"]),
    ("cel.json", 0, ["cel", MEMORY, "-f", "examples/2-devices.yaml", "-o", "json"]),
    ("cel-semantic.txt", 0, ["cel", 'quantities["memory"] >= "16Gi"', "-f", "examples/semantic"]),
]


@pytest.mark.parametrize(("golden", "code", "arguments"), OUTPUTS, ids=[name for name, _, _ in OUTPUTS])
def test_output_is_as_it_was(allot: Allot, golden: str, code: int, arguments: list[str]) -> None:
    ran = allot(*arguments)
    assert ran.err == ""
    assert ran.code == code
    same_as_golden(golden, ran.out)


def test_best_fit_spares_the_whole_gpu_that_first_fit_breaks(allot: Allot) -> None:
    claims = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: any}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
"""
    given = {}
    for strategy in ("first-fit", "best-fit"):
        files = [
            "-f",
            "examples/1-nodes.yaml",
            "-f",
            "examples/2-devices.yaml",
            "-f",
            "examples/3-classes.yaml",
        ]
        ran = allot(
            "allocate", *files, "-f", "-", "--node", "bea", "--strategy", strategy, "-o", "json", stdin=claims
        )
        (claim,) = json.loads(ran.out)["items"]
        (given[strategy],) = [r["device"] for r in claim["status"]["allocation"]["devices"]["results"]]
    assert given == {"first-fit": "gpu-0", "best-fit": "quarter-0"}


def test_the_answer_is_input_again_and_then_changes_nothing(allot: Allot, tmp_path: Path) -> None:
    first = allot("allocate", "-f", "examples", "-o", "yaml")
    (tmp_path / "claims.yaml").write_text(first.out)
    files = [f"examples/{name}.yaml" for name in ("1-nodes", "2-devices", "3-classes")]
    options = [part for file in [*files, str(tmp_path / "claims.yaml")] for part in ("-f", file)]
    second = allot("allocate", *options, "-o", "yaml")
    before, after = yaml.safe_load(first.out), yaml.safe_load(second.out)
    assert sorted(map(str, after["items"])) == sorted(map(str, before["items"]))


def test_the_order_of_documents_makes_no_difference(allot: Allot) -> None:
    documents = [
        document
        for path in sorted((CHECKOUT / "examples").glob("*.yaml"))
        for document in path.read_text().split("\n---\n")
    ]
    there = allot("allocate", "-f", "-", stdin="\n---\n".join(documents))
    back = allot("allocate", "-f", "-", stdin="\n---\n".join(reversed(documents)))
    assert there.out == back.out == allot("allocate", "-f", "examples").out


def test_a_file_that_is_named_twice_is_read_once(allot: Allot) -> None:
    once = allot("allocate", "-f", "examples")
    assert allot("allocate", "-f", "examples", "-f", "examples/../examples/4-workloads.yaml") == once


def test_the_offline_example_runs_and_shows_its_commands() -> None:
    ran = subprocess.run(
        [sys.executable, str(CHECKOUT / "examples" / "offline.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "$ .venv/bin/allot allocate -f examples" in ran.stdout
    assert "What does not fit (2)" in ran.stdout
