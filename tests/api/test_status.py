"""What the message says about invalid objects."""

from allotment.api.fields import FieldPath
from allotment.api.status import MAX_NAME, MAX_TOLD, MAX_VALUES, invalid


def test_errors_without_end_are_counted_and_not_all_told() -> None:
    errors = [FieldPath("data").key(str(number)).invalid("no", "x") for number in range(MAX_TOLD + 7)]
    error = invalid("ConfigMap", "a", errors)
    assert len(error.to_status()["details"]["causes"]) == MAX_TOLD
    assert str(error).endswith(", and 7 more]")


def test_values_without_end_are_cut_however_many_errors_are_about_them() -> None:
    owners = [{"name": "x" * 100, "uid": str(number)} for number in range(2_000)]
    error = invalid("Pod", "a", [FieldPath("metadata").invalid("only one", owners)] * MAX_TOLD)
    assert len(str(error)) < 2 * MAX_VALUES
    assert all(cause["message"].endswith(": only one") for cause in error.details["causes"])


def test_a_name_without_end_is_cut_in_the_message_and_in_the_details() -> None:
    error = invalid("ConfigMap", "x" * 3_000_000, [FieldPath("metadata.name").invalid("too long", "x")])
    assert len(str(error.to_status())) < 3 * MAX_NAME
    assert error.details["name"].startswith("xxx")
    assert invalid("ConfigMap", "x" * 253, []).details["name"] == "x" * 253
