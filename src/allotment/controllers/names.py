"""What controllers are called where somebody chooses among them: ``allot controllers --only``, feature gates, the suite.

Apart from the suite, so that a command may list them without loading a single controller.
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
"""Those that run only where somebody asks for them."""
ALL: Final = (*NAMES, *ON_REQUEST)
