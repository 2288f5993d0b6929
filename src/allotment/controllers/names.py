"""The names of controllers, for a choice among them: ``allot controllers --only``, feature gates, the suite.

They are separate from the suite, so that a command may list them without loading a single controller.
"""

from typing import Final

CLAIMS, DEVICE_TAINTS, POOLS, PARAMETERS, WORKLOADS, NODES, VOLUMES, OVERLAYS, SIMULATION = NAMES = (
    "claims",
    "device-taints",
    "pools",
    "parameters",
    "workloads",
    "nodes",
    "volumes",
    "overlays",
    "simulation",
)
MACHINES, AUTOSCALING = ON_REQUEST = ("machines", "autoscaling")
"""The controllers that run only on request."""
ALL: Final = (*NAMES, *ON_REQUEST)
