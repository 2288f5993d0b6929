"""A scenario: steps to simulate on a copy of a cluster, and the expected results. Only files contain scenarios.

``autoscaler.scenario`` reads each step on its own, so that it can report all faults of a scenario at once: ``steps`` are
plain values as written, and :class:`Step` is the form of each.
"""

from __future__ import annotations

from typing import Any, ClassVar

from allotment.api.meta import ApiStruct, Int64, ObjectMeta, stated

API_VERSION = "allotment.dev/v1"


class Scenario(ApiStruct, frozen=True, kw_only=True):
    """Steps, simulated one after another."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("Scenario")
    metadata: ObjectMeta = ObjectMeta()
    steps: tuple[Any, ...] = ()


class AddNodes(ApiStruct, frozen=True, kw_only=True):
    """Nodes to add, with their devices. Exactly one of type, like, manifests and file describes them."""

    type: str | None = None  # an instance type of the catalogue
    pool: str | None = None  # the node pool, or the node group, that a machine of the type comes from
    zone: str | None = None  # the zone; the cheapest one when absent
    capacity_type: str | None = None  # on-demand, spot or reserved; the cheapest one when absent
    like: str | None = None  # an existing node to copy
    name: str | None = None  # the prefix of the new nodes' names
    count: Int64 | None = None  # how many nodes; 1 when absent
    manifests: tuple[Any, ...] = ()  # Nodes and the slices that they publish
    file: str | None = None  # the same, in a file next to the scenario


class OneNode(ApiStruct, frozen=True, kw_only=True):
    """A node by its name."""

    SHORT_FORM: ClassVar[str | None] = "name"

    name: str = stated("")


class RemoveNode(ApiStruct, frozen=True, kw_only=True):
    """A node to remove."""

    SHORT_FORM: ClassVar[str | None] = "name"

    name: str = stated("")
    # true: remove it even while its devices are in use, as if the machine broke down
    force: bool | None = None


class Submit(ApiStruct, frozen=True, kw_only=True):
    """Objects to create, given by exactly one of manifests and file."""

    SHORT_FORM: ClassVar[str | None] = "file"

    manifests: tuple[Any, ...] = ()
    file: str | None = None


class DeleteStep(ApiStruct, frozen=True, kw_only=True):
    """An object to delete."""

    kind: str = stated("")
    namespace: str | None = None  # absent: default
    name: str = stated("")


class ScaleStep(ApiStruct, frozen=True, kw_only=True):
    """A workload whose number of pods changes."""

    kind: str = stated("")
    namespace: str | None = None  # absent: default
    name: str = stated("")
    replicas: Int64 | None = None


class TaintDevice(ApiStruct, frozen=True, kw_only=True):
    """Devices that get a taint, selected by driver, pool and name, where an absent field matches all; or a whole rule."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    key: str | None = None
    value: str | None = None
    effect: str | None = None  # NoSchedule or NoExecute
    rule: Any = None  # a DeviceTaintRule, instead of all other fields


class ResizePool(ApiStruct, frozen=True, kw_only=True):
    """A pool whose number of devices changes."""

    driver: str = stated("")
    pool: str = stated("")
    devices: Int64 | None = None  # the new number of devices
    like: str | None = None  # the device to copy for new ones; the last one when absent
    force: bool | None = None  # true: devices that are in use go too


class Counts(ApiStruct, frozen=True, kw_only=True):
    """The expected numbers of pods."""

    running: Int64 | None = None
    pending: Int64 | None = None


class Expect(ApiStruct, frozen=True, kw_only=True):
    """What must hold after a step.

    Pods are named as ``name``, in ``default``, or as ``namespace/name``. A ``*`` matches anything; then at least one pod
    must match.
    """

    running: tuple[str, ...] = ()  # pods that have a node
    pending: tuple[str, ...] = ()  # pods that exist and have no node
    counts: Counts | None = None
    refused: bool | None = None  # true: the simulation must refuse the step itself


class Step(ApiStruct, frozen=True, kw_only=True):
    """One action, or none and only expectations."""

    name: str | None = None  # a title for people
    add_nodes: AddNodes | None = None
    remove_node: RemoveNode | None = None
    drain_node: OneNode | None = None
    submit: Submit | None = None
    delete: DeleteStep | None = None
    scale: ScaleStep | None = None
    taint_device: TaintDevice | None = None
    resize_pool: ResizePool | None = None
    expect: Expect | None = None
