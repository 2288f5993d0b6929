"""Field paths and errors as people read them."""

from allotment.api.fields import ErrorKind, FieldPath


def test_a_path_reads_as_one_would_write_it() -> None:
    path = FieldPath("spec").child("devices", "requests").index(0).child("exactly", "count")
    assert str(path) == "spec.devices.requests[0].exactly.count"
    assert str(FieldPath("spec", "attributes").key("a.b/c").child("int")) == "spec.attributes[a.b/c].int"
    assert repr(path) == "FieldPath('spec.devices.requests[0].exactly.count')"


def test_paths_are_values() -> None:
    path = FieldPath("spec")
    assert path.child("a") == FieldPath("spec", "a")
    assert len({path.child("a"), FieldPath("spec", "a"), path}) == 2
    assert str(path) == "spec"  # a child leaves its parent alone


def test_an_error_is_its_path_and_what_to_do() -> None:
    error = FieldPath("spec", "count").invalid("must be greater than zero", 0)
    assert str(error) == "spec.count: must be greater than zero"
    assert (error.kind, error.value) == (ErrorKind.INVALID, 0)
    assert str(FieldPath("a").too_many(33, 32)) == "a: must not have more than 32 entries, has 33"
    assert str(FieldPath("a").not_supported("x", ["y", "z"])) == "a: 'x' is not supported; use one of y, z"


def test_long_keys_and_values_are_shortened() -> None:
    assert len(str(FieldPath("a").key("k" * 10_000))) < 100
    assert len(str(FieldPath("a").duplicate("v" * 10_000))) < 200
