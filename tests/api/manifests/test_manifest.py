"""Manifests as people write them: what is in them, where it stands, and what is wrong with it."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.codec import ApiError, decode, encode, to_builtins
from allotment.api.core import Pod
from allotment.api.manifests.manifest import ManifestError, read_manifest
from allotment.api.resource import ResourceClaim, ResourceSlice
from tests.corpus import FOLDER, unavailable

MANIFESTS = FOLDER.parent / "manifests"

WITHOUT_API_VERSION = "device-taints-tolerations_device-taint-pod-noschedule_4-pod-not-scheduled.yaml"
"""A slip in the example; kubectl refuses it as well."""

SLICE = """\
# two devices
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: a
spec:
  driver: gpu.example.com
  devices:
  - name: gpu-0
    attributes:
      gpu.example.com/model:
        string: a100
  - name: gpu-1
"""


# --- real manifests ---


def manifest_files() -> list[Any]:
    return sorted(MANIFESTS.glob("*.yaml"), key=lambda path: path.name) or [None]


@pytest.mark.parametrize("path", manifest_files(), ids=lambda path: path.stem[-60:] if path else "absent")
def test_real_manifests_survive_the_round_trip(path: Any) -> None:
    if path is None:
        unavailable("../shared/manifests")
    if path.name == WITHOUT_API_VERSION:
        with pytest.raises(ManifestError, match="apiVersion: must be a string, such as v1"):
            read_manifest(path.read_text(), path.name)
        return
    found = read_manifest(path.read_text(), path.name)
    assert found
    for located in found:
        assert located.unknown_fields() == []
        if located.obj is None:
            assert located.kind in ("PodGroup", "Deployment")
            continue
        assert decode(type(located.obj), encode(located.obj)) == located.obj
        if not isinstance(located.obj, Pod):  # of pods, we read only a part
            assert to_builtins(located.obj) == {
                **located.raw,
                "apiVersion": to_builtins(located.obj)["apiVersion"],
            }


# --- forms ---


def test_an_object_knows_what_it_is_and_where_it_stands() -> None:
    (located,) = read_manifest(SLICE, "slices.yaml")
    assert isinstance(located.obj, ResourceSlice)
    assert located.obj.spec.devices[1].name == "gpu-1"
    assert (located.kind, located.api_version) == ("ResourceSlice", "resource.k8s.io/v1")
    assert (located.source, located.line) == ("slices.yaml", 2)
    assert located.raw["spec"]["driver"] == "gpu.example.com"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("metadata.name", 5),
        ("spec.devices", 8),
        ("spec.devices[0]", 9),
        ("spec.devices[0].attributes[gpu.example.com/model].string", 12),
        ("spec.devices[0].attributes[gpu.example.com/model].int", 11),  # not there: what is around it
        ("spec.devices[1].name", 13),
        ("spec.devices[7].name", 8),
        ("spec.devices[x]", 8),
        ("spec.nodeName", 6),
        ("status[", 2),
    ],
)
def test_the_line_of_a_field(path: str, line: int) -> None:
    (located,) = read_manifest(SLICE, "slices.yaml")
    assert located.line_of(path) == line
    assert str(located.error(path, "is odd")) == f"slices.yaml:{line}: {path + ': ' if path else ''}is odd"


def test_objects_that_are_written_inside_of_others_have_their_own_lines() -> None:
    text = "kind: Box\napiVersion: v1\nboth:\n  kind: List\n  items:\n  - {kind: Node, apiVersion: v1}\n  - {kind: Pod, apiVersion: v1, spec: 3}\none:\n  kind: Pod\n  apiVersion: v1\n  speck: {}\n"
    (box,) = read_manifest(text, "box.yaml")
    (inner,) = box.inside("one")
    assert (inner.kind, inner.line, inner.line_of("kind")) == ("Pod", 8, 9)
    assert [str(each) for each in inner.unknown_fields()] == [
        "box.yaml:11: speck: unknown field (did you mean spec?)"
    ]
    with pytest.raises(ManifestError, match=r"box.yaml:7: spec: must be an object"):
        box.inside("both")
    assert [each.kind for each in box.inside("both.items[0]")] == ["Node"]


def test_documents_are_counted_by_line_and_empty_ones_left_out() -> None:
    found = read_manifest(f"---\n---\n{SLICE}---\n# nothing\n---\n{SLICE}", "x")
    assert [located.line for located in found] == [4, 20]
    assert found[1].line_of("spec.devices[1].name") == 31


@pytest.mark.parametrize("text", ["", "\n", "---\n", "# only a comment\n", "---\n---\n"])
def test_a_manifest_may_be_empty(text: str) -> None:
    assert read_manifest(text, "x") == []


LIST = """\
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
  {"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Pod",
     "metadata": {"name": "b"}}]}]}
"""


def test_lists_are_unfolded() -> None:
    found = read_manifest(LIST, "x")
    assert [located.obj.metadata.name for located in found if isinstance(located.obj, Pod)] == ["a", "b"]
    assert [located.line for located in found] == [2, 4]
    assert found[1].line_of("metadata.name") == 5


def test_the_items_of_a_typed_list_need_not_say_what_they_are() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimList\nitems:\n- metadata: {name: a}\n"
    (located,) = read_manifest(text, "x")
    assert isinstance(located.obj, ResourceClaim)
    assert located.line == 4


def test_a_kind_that_we_do_not_know_is_handed_on() -> None:
    (located,) = read_manifest("apiVersion: apps/v1\nkind: Deployment\nspec: {odd: 1}\n", "x")
    assert located.obj is None
    assert located.raw["spec"] == {"odd": 1}
    assert located.unknown_fields() == []


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_older_versions_of_the_group_are_held_in_v1(version: str) -> None:
    exact = {"deviceClassName": "gpu", "count": 2}
    request = {"name": "r", **(exact if version == "v1beta1" else {"exactly": exact})}
    raw = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [request]}},
    }
    (located,) = read_manifest(str(raw).replace("'", '"'), "x")
    assert isinstance(located.obj, ResourceClaim)
    assert located.obj.api_version == "resource.k8s.io/v1"
    assert located.api_version == f"resource.k8s.io/{version}"
    assert located.raw == raw
    assert located.obj.spec.devices.requests[0].exactly is not None
    assert located.obj.spec.devices.requests[0].exactly.count == 2
    assert located.unknown_fields() == []


def test_numbers_as_kubectl_reads_them() -> None:
    text = SLICE.replace("string: a100", "int: 1e3")
    (located,) = read_manifest(text, "x")
    assert isinstance(located.obj, ResourceSlice)
    assert located.obj.spec.devices[0].attributes["gpu.example.com/model"].int_value == 1000


# --- errors ---


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            SLICE.replace("string: a100", "string: 100"),
            "x.yaml:12: spec.devices[0].attributes[gpu.example.com/model].string: must be a string, but is the number 100",
        ),
        (
            SLICE.replace("io/v1", "io/v1alpha3"),
            "x.yaml:2: apiVersion: ResourceSlice is not known in resource.k8s.io/v1alpha3; "
            "use resource.k8s.io/v1, resource.k8s.io/v1beta2 or resource.k8s.io/v1beta1",
        ),
        ("kind: Pod\n", "x.yaml:1: apiVersion: must be a string, such as v1"),
        ("kind: Odd\n", "x.yaml:1: apiVersion: must be a string"),
        ("apiVersion: v1\nkind: 5\n", "x.yaml:2: kind: must be a string that says what the object is"),
        ("a: 1\n", "x.yaml:1: kind: must be a string that says what the object is"),
        (
            "\n[]",
            'x.yaml:2: is a bare list, not an object; wrap the objects as {"apiVersion": "v1", "kind": "List", "items": […]}',
        ),
        (
            "- a\n",
            'x.yaml:1: is a bare list, not an object; wrap the objects as {"apiVersion": "v1", "kind": "List", "items": […]}',
        ),
        ("\nhello", "x.yaml:2: is not an object with apiVersion and kind"),
        ("apiVersion: v1\nkind: List\nitems:\n- 5\n", "x.yaml:4: is not an object with apiVersion and kind"),
        ("a: b: c", "x.yaml:1: not valid YAML: mapping values are not allowed in this context"),
        (
            '{"apiVersion": "v1", "kind": "Pod",\n"spec":\n{"priority": "high"}}',
            'x.yaml:3: spec.priority: must be a whole number of 64 bits, but is the string "high"',
        ),
    ],
)
def test_an_error_says_where_it_is(text: str, complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest(text, "x.yaml")
    assert str(caught.value) == complaint
    assert isinstance(caught.value, ApiError)


def test_unknown_fields_have_a_line_and_a_guess() -> None:
    (located,) = read_manifest(SLICE.replace("string: a100", "stringg: a100").replace("driver:", "zzz:"), "x")
    assert [str(complaint) for complaint in located.unknown_fields()] == [
        "x:7: spec.zzz: unknown field",
        "x:12: spec.devices[0].attributes[gpu.example.com/model].stringg: unknown field (did you mean string?)",
    ]


@given(
    st.lists(st.sampled_from([*SLICE.splitlines(), *LIST.splitlines(), "---", "- &a", "*a", "<<: *a", "\t"]))
)
def test_any_mix_of_lines_is_read_or_refused(lines: list[str]) -> None:
    with suppress(ManifestError):
        for located in read_manifest("\n".join(lines), "x"):
            assert located.line >= 1
            located.unknown_fields()
