"""How many random examples a test tries: a part of its full number in ``make test``, all of them in ``make soak``.

What a test does not say itself is 100, Hypothesis' own number. Every run draws new examples, so that the short runs of many
days add up to a long one; a failure is kept in ``.hypothesis`` and tried first from then on.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

BRIEF, THOROUGH = "brief", "thorough"
_FULL = 100
_PARTS = {BRIEF: 30, THOROUGH: _FULL}
_FEWEST = 20


def register() -> None:
    """The profiles, of which ``--hypothesis-profile`` chooses another than the brief one. Neither has a time limit, since
    speed is measured in ``make bench`` and never here, and a failing test prints how to repeat it."""
    for name, part in _PARTS.items():
        settings.register_profile(
            name,
            max_examples=part,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile(BRIEF)


def examples(full: int) -> int:
    """The number for this run, for a test whose own is another than 100. Few are not made fewer."""
    return max(min(full, _FEWEST), full * settings().max_examples // _FULL)
