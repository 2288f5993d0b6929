"""Settings for all tests: random tests have no time limit, since speed is measured in ``make bench`` and never here,
and a failing one prints how to repeat it."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "allotment",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("allotment")
