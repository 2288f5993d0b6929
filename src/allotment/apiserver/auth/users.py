"""The users that the components are on the embedded server. Each has a role of the same name."""

from typing import Final

SCHEDULER: Final = "allotment:scheduler"
CONTROLLERS: Final = "allotment:controllers"
AUTOSCALER: Final = "allotment:autoscaler"
"""Controllers that launch and end machines, in a process of their own."""
DASHBOARD: Final = "allotment:dashboard"
VIEWER: Final = "allotment:viewer"
"""A person who may look at devices and machines."""
