"""What is told of objects that are invalid."""

from allotment.api.fields import FieldPath
from allotment.api.status import MAX_TOLD, invalid


def test_errors_without_end_are_counted_and_not_all_told() -> None:
    errors = [FieldPath("data").key(str(number)).invalid("no", "x") for number in range(MAX_TOLD + 7)]
    error = invalid("ConfigMap", "a", errors)
    assert len(error.to_status()["details"]["causes"]) == MAX_TOLD
    assert str(error).endswith(", and 7 more]")
