"""Simulated nodes: the work of a kubelet and of device drivers, for a fleet that does not exist.

The objects themselves control the simulation, so that any manifest can make a fleet:

* a node with the label ``allotment.dev/simulated: "true"`` is simulated; remove the label and the node falls silent, as after
  a power failure;
* a pod with the annotation ``allotment.dev/run-seconds: "N"`` ends N seconds after it started, with the exit code of
  ``allotment.dev/exit-code`` (0 unless it says otherwise). A simulated container is never restarted. Without the annotation
  a pod runs until it is deleted;
* a ResourceSlice with the annotation ``allotment.dev/binding-seconds: "N"`` has a driver that makes the binding conditions
  of its devices true N seconds after they were allocated.
"""
