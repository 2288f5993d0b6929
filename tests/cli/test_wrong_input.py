"""What is wrong with the input is said with its place, all at once, and the exit code is 2."""

from pathlib import Path

import pytest

from allotment.insight.errors import MAX_COMPLAINTS
from tests.command_line import Allot

CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
"""

CASES = {
    "a misspelt field": (
        CLAIM + "          deviceClassName: gpu\n          cuont: 2\n",
        "stdin:10: spec.devices.requests[0].exactly.cuont: unknown field (did you mean count?)",
    ),
    "a value that is not allowed": (
        CLAIM + "          deviceClassName: gpu\n          count: -1\n",
        "stdin:10: spec.devices.requests[0].exactly.count: must be greater than zero",
    ),
    "a value of the wrong type": (
        CLAIM + "          deviceClassName: gpu\n          count: two\n",
        'stdin:10: spec.devices.requests[0].exactly.count: must be a whole number of 64 bits, but is the string "two"',
    ),
    "an expression that does not compile": (
        CLAIM
        + "          deviceClassName: gpu\n          selectors:\n            - cel: {expression: device.drivr == 'x'}\n",
        "stdin:11: spec.devices.requests[0].exactly.selectors[0].cel.expression: does not compile: line 1, column 7: "
        "undefined field 'drivr'\n | device.drivr == 'x'\n | ......^",
    ),
    "broken YAML": ("kind: Pod\n  x: [\n", "stdin:2: not valid YAML"),
    "no kind": ("a: b", "stdin:1: kind: must be a string"),
    "a version that does not exist": (
        "apiVersion: resource.k8s.io/v7\nkind: ResourceClaim\n",
        "stdin:1: apiVersion: ResourceClaim is not known in resource.k8s.io/v7; use resource.k8s.io/v1",
    ),
    "a pod that names neither claim nor template": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims:\n    - name: a\n",
        "stdin:6: spec.resourceClaims[0]: needs exactly one of resourceClaimName and resourceClaimTemplateName",
    ),
    "a node without a name": ("apiVersion: v1\nkind: Node\n", "metadata.name: is required"),
    "the same object twice": (
        "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}",
        "stdin:3: metadata.name: Node n1 is already in stdin:1",
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES.keys())
def test_the_message_names_file_line_and_field(allot: Allot, text: str, message: str) -> None:
    ran = allot("allocate", "-f", "-", stdin=text)
    assert message in ran.err
    assert ran.code == 2
    assert ran.out == ""


def test_all_complaints_come_at_once_in_the_order_of_lines(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [")
    wrong = CLAIM.replace("{name: c}", "{name: C}") + "          count: -1\n"
    (tmp_path / "b.yaml").write_text(wrong)
    ran = allot("allocate", "-f", str(tmp_path), "-f", str(tmp_path / "none.yaml"))
    assert ran.code == 2
    heads = [line.removeprefix(str(tmp_path)).split(": ")[0] for line in ran.err.splitlines()]
    assert heads == ["/a.yaml:2", "/none.yaml", "/b.yaml:3", "/b.yaml:8", "/b.yaml:9"]


def test_the_number_of_complaints_is_bounded(allot: Allot) -> None:
    many = "\n---\n".join(["{apiVersion: v1, kind: Node}"] * 200)
    ran = allot("allocate", "-f", "-", stdin=many)
    assert len(ran.err.splitlines()) == MAX_COMPLAINTS + 1
    assert "more" in ran.err.splitlines()[-1]


def test_lenient_notes_unknown_fields_and_goes_on(allot: Allot) -> None:
    ran = allot("allocate", "--lenient", "-f", "-", stdin=CASES["a misspelt field"][0])
    assert "note: stdin:10: spec.devices.requests[0].exactly.cuont: unknown field" in ran.out
    assert ran.code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["allocate"], "give manifests with -f"),
        (["cel"], "give an expression"),
        (["cel", "true"], "no slices given: name a file or folder with -f"),
        (["allocate", "-f", "examples", "--node", "zed"], "known are ada, bea, cleo"),
        (["allocate", "-f", "examples", "--strategy", "worst-fit"], "'first-fit', 'best-fit'"),
        (["allocate", "-f", "nowhere.yaml"], "nowhere.yaml: no such file or directory"),
        (["allocate", "-f", "tests/cli/golden"], "kind: must be a string"),
        (["alocate"], "No such command 'alocate'"),
        (["explain", "train-0"], "No such command 'train-0'; begin with one of claim, pod"),
    ],
)
def test_wrong_arguments_say_what_to_do(allot: Allot, arguments: list[str], message: str) -> None:
    ran = allot(*arguments)
    assert message in ran.err
    assert ran.code == 2


def test_a_folder_without_manifests_is_a_mistake(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    ran = allot("allocate", "-f", str(tmp_path))
    assert "has no .yaml, .yml or .json files" in ran.err
    assert ran.code == 2


def test_text_that_is_not_utf8_is_refused(allot: Allot) -> None:
    ran = allot("allocate", "-f", "-", stdin=b"\xff")
    assert "is not UTF-8 text" in ran.err
    assert ran.code == 2


def test_control_characters_do_not_reach_the_terminal(allot: Allot) -> None:
    slices = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.example.com
  nodeName: n1
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: dev, attributes: {model: {string: "\\e[31mred"}}}]
"""
    ran = allot("cel", 'device.attributes["d.example.com"].model == "x"', "-f", "-", stdin=slices)
    assert "\x1b" not in ran.out
    assert "\\x1b[31mred" in ran.out
    assert ran.code == 1
