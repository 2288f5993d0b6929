from allotment.client.bucket import Bucket


def test_a_burst_is_free_and_then_tokens_arrive_at_the_rate() -> None:
    bucket = Bucket(2.0, 3)
    assert [bucket.delay(10.0) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert bucket.delay(11.5) == 0  # both debts and one more token have been paid


def test_no_more_than_a_burst_is_saved_up() -> None:
    bucket = Bucket(1.0, 2)
    assert [bucket.delay(1000.0) for _ in range(3)] == [0, 0, 1.0]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    bucket = Bucket(1.0, 1)
    assert [bucket.delay(now) for now in (5.0, 4.0, 5.0)] == [0, 1.0, 1.0]
