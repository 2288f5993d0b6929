"""Writes ``constraints.txt``: every package that Allotment needs, in one version, with the hashes of all its files.

``make lock`` runs it, after a change of the requirements in ``pyproject.toml``; with ``UPGRADE=1`` newer versions are taken too.
pip says which packages those are; the hashes are those that the package index gives for each file of a version, so that the
result serves every platform and every Python. The index is the one that pip uses here, and its name is not written down.

The first part is what it takes to build and run; after the line that says so comes what it takes to develop besides.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "constraints.txt"
HEAD = "# Written by `make lock`. To build and run:\n"
BESIDES = "# To develop besides:\n"
LINK = re.compile(r'href="[^"#]*?([^"/#]+)#sha256=([0-9a-f]{64})')
"""To a file, on a page of the index (PEP 503)."""

EDITABLE = "editables"
"""What hatchling needs to install a package in place, which it says only when it is asked."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument(
        "--upgrade", action="store_true", help="take the newest versions, not those that are pinned now"
    )
    upgrade = options.parse_args().upgrade
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pinned = {} if upgrade else versions(TARGET.read_text())
    everything = resolve([".[dev]", *build, EDITABLE], pinned)
    run = resolve([".", *build, EDITABLE], everything)
    besides = {name: version for name, version in everything.items() if name not in run}
    TARGET.write_text(HEAD + spelled(run) + BESIDES + spelled(besides))


def versions(text: str) -> dict[str, str]:
    """The versions that a file pins, by name."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def resolve(requirements: Iterable[str], pinned: dict[str, str]) -> dict[str, str]:
    """What pip would install, by name."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in pinned.items())
        constraints.flush()
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--report", "-", "--constraint", constraints.name, *requirements]
        report = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    found = (package["metadata"] for package in report["install"])
    return {each["name"]: each["version"] for each in found if each["name"] != "allotment"}


def spelled(packages: dict[str, str]) -> str:
    """The lines of a requirements file."""
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(
            lambda package: hashes(*package), sorted(packages.items(), key=lambda each: each[0].lower())
        )
        return "".join(found)


def hashes(name: str, version: str) -> str:
    """One package with the hashes of all files of its version."""
    with urllib.request.urlopen(f"{index()}/{canonical(name)}/", timeout=60) as answer:
        files = LINK.findall(answer.read().decode())
    digests = {digest for file, digest in files if belongs(unquote(file), name, version)}
    if not digests:
        raise SystemExit(f"the index has no file of {name} {version} with a hash")
    return (
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in sorted(digests))])
        + "\n"
    )


def belongs(file: str, name: str, version: str) -> bool:
    """Whether a file is a wheel or source package of that version."""
    if file.endswith(".whl"):
        of, its = file.split("-")[:2]
    else:
        of, _, its = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", file).rpartition("-")
    return canonical(of) == canonical(name) and its.replace("_", "-") == version.replace("_", "-")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def index() -> str:
    """Of pip: as it is configured, or its own."""
    configured = os.environ.get("PIP_INDEX_URL") or pip("config", "get", "global.index-url")
    if not configured:
        program = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
        configured = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
    return configured.strip().rstrip("/")


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
