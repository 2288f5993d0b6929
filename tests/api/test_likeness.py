import pytest

from allotment.api.likeness import near

NAMES = ["gpu-small", "gpu-large", "nic"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu-smal", "; did you mean gpu-small?"),
        ("GPU-LARGE", "; did you mean gpu-large?"),
        ("gpu-", "; did you mean gpu-small or gpu-large?"),
        ("nick", "; did you mean nic?"),
        ("fpga", ""),
        ("", ""),
    ],
)
def test_a_name_that_does_not_exist_may_be_a_slip(name: str, words: str) -> None:
    assert near(name, NAMES) == words


def test_the_caller_says_how_alike_names_must_be() -> None:
    assert near("nick", NAMES, least=0.9) == ""
    assert near("nic", ()) == ""
