"""Expressions on devices: answered once per distinct projection, in three values, with the values they read."""

import pytest

from allotment.allocator import selector as module
from allotment.allocator.features import ALL, Features
from allotment.allocator.selector import SelectorTest
from allotment.api.resource import Device as DeviceSpec
from allotment.api.resource import DeviceAttribute
from tests.allocator.build import DRIVER, device, mine, placed, version

MODEL = f'{mine("model")} == "a"'


def test_yes_no_and_why_not() -> None:
    asks = SelectorTest(MODEL, ALL).ask
    assert asks(placed(device("d", model="a"))) is True
    assert asks(placed(device("d", model="b"))) is False
    assert "CEL runtime error: no such key: model" in str(asks(placed(device("d"))))


def test_an_expression_that_does_not_compile_answers_every_device_alike() -> None:
    broken = SelectorTest("device.driver ==", ALL)
    assert str(broken.ask(placed(device("d")))).startswith("CEL compile error: ")
    assert broken.parts == ()
    assert broken.read_by(placed(device("d"))) == ""


def test_devices_that_agree_on_what_is_read_are_one_evaluation() -> None:
    subject = SelectorTest(MODEL, ALL)
    for number in range(50):
        assert subject.ask(placed(device(f"d{number}", model="a", uuid=f"uuid-{number}"))) is True
    assert len(subject._answers) == 1
    subject.ask(placed(device("d", model="b")))
    assert len(subject._answers) == 2


@pytest.mark.parametrize(
    ("expression", "first", "second"),
    [
        pytest.param(
            f'"model" in device.attributes["{DRIVER}"]',
            device("d", model="a"),
            device("d"),
            id="whether it is there",
        ),
        pytest.param(
            f'device.attributes["{DRIVER}"].exists(name, name == "x")',
            device("d", x=1),
            device("d", y=1),
            id="any name",
        ),
        pytest.param(f"{mine('x')} == 1", device("d", x=1), device("d", x=2), id="whole numbers"),
        pytest.param(
            f'device.capacity["{DRIVER}"].m.compareTo(quantity("2")) > 0',
            device("d", capacity={"m": "3"}),
            device("d", capacity={"m": "1"}),
            id="capacity",
        ),
        pytest.param(
            "device.allowMultipleAllocations",
            device("d", shared=True),
            device("d", shared=False),
            id="shared or not",
        ),
        pytest.param(f"{mine('x')}.size() == 1", device("d", x=[1]), device("d", x=[1, 2]), id="lists"),
    ],
)
def test_devices_that_differ_in_what_is_read_are_asked_one_by_one(
    expression: str, first: DeviceSpec, second: DeviceSpec
) -> None:
    """In either order: an answer that was remembered for the wrong device would show."""
    for order in ((first, second), (second, first)):
        subject = SelectorTest(expression, ALL)
        answers = {id(each): subject.ask(placed(each)) for each in order}
        assert answers[id(first)] is True
        assert answers[id(second)] is False


def test_the_driver_decides_what_a_bare_name_means() -> None:
    subject = SelectorTest(MODEL, ALL)
    assert subject.ask(placed(device("d", model="a"))) is True
    assert "no such key" in str(subject.ask(placed(device("d", model="a"), driver="other.example.com")))
    qualified = device("d", attributes={f"{DRIVER}/model": "a"})
    assert subject.ask(placed(qualified, driver="other.example.com")) is True


def test_an_attribute_that_cannot_be_read_fails_every_expression() -> None:
    """Upstream converts all attributes of a device before it evaluates anything."""
    subject = SelectorTest("true", ALL)
    assert subject.ask(placed(device("d", x=1))) is True
    assert "attribute x" in str(subject.ask(placed(device("d", x=DeviceAttribute()))))
    assert "attribute x" in str(subject.ask(placed(device("d", x=version("1.x")))))


def test_an_expression_that_was_stored_still_compiles_when_its_feature_is_off() -> None:
    """New ones are refused at admission, which is not the allocator's business."""
    off = Features(ConsumableCapacity=False)
    assert SelectorTest("device.allowMultipleAllocations", off).ask(placed(device("d"))) is False


def test_answers_are_forgotten_rather_than_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERS_REMEMBERED", 4)
    subject = SelectorTest(f"{mine('uuid')} != 'x'", ALL)
    for number in range(20):
        assert subject.ask(placed(device("d", uuid=f"u{number}"))) is True
    assert len(subject._answers) <= 4


def test_the_values_that_were_read_for_people() -> None:
    subject = SelectorTest(
        f'{mine("size")} > 1 && {mine("tags")}.size() > 0 && device.driver == "x" && '
        f'device.capacity["{DRIVER}"].m.compareTo(quantity("2")) > 0 && has({mine("gone")})',
        ALL,
    )
    told = subject.read_by(placed(device("d", size=3, tags=["p", "q"], capacity={"m": "40Gi"})))
    assert sorted(told.split(", ")) == [f"driver={DRIVER}", "gone=(none)", "m=40Gi", "size=3", "tags=p,q"]
