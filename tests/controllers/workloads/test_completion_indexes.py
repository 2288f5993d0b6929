"""Indexes of jobs in their short form."""

from hypothesis import given
from hypothesis import strategies as st

from allotment.controllers.workloads.completion_indexes import indexed, parsed, written


def test_the_short_form_is_upstream_s() -> None:
    assert written([]) == ""
    assert written([4, 2]) == "2,4"
    assert written([0, 1, 3, 4, 5, 9]) == "0,1,3-5,9"


@given(st.sets(st.integers(0, 60)))
def test_what_is_written_is_read_again(indexes: set[int]) -> None:
    assert parsed(written(indexes), 61) == indexes


def test_what_is_no_index_or_beyond_the_end_is_left_out() -> None:
    assert parsed("0-99999999999,x,3-y,-1,,7", 5) == {0, 1, 2, 3, 4}
    assert parsed("9" * 5000 + ",3", 5) == {3}


def test_numbers_that_are_repeated_are_read_once() -> None:
    assert parsed(",".join(["0-99999"] * 3_000), 100_000) == set(range(100_000))  # else takes minutes
    assert parsed("3,1-4,2", 5) == {3, 4}


def test_a_pod_is_told_its_index_unless_it_says_otherwise() -> None:
    own = {"name": "own", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "7"}]}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}, own]}}
    made = indexed(pod, "work", 2)
    label = "batch.kubernetes.io/job-completion-index"
    assert made["metadata"] == {"labels": {"a": "b", label: "2"}, "annotations": {label: "2"}}
    assert made["spec"]["hostname"] == "work-2"
    main, other = made["spec"]["containers"]
    assert main["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{label}']"
    assert other == own
    assert pod["metadata"] == {"labels": {"a": "b"}}, "the template is shared"
