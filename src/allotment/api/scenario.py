"""A scenario: steps to be tried on a cluster in thought, and what is expected of them. It is written in files only.

Each step is read for itself (``autoscaler.scenario``), so that all that is wrong with a scenario can be told at once: ``steps``
are as they were written, and :class:`Step` is the form of each.
"""

from __future__ import annotations

from typing import Any, ClassVar

from allotment.api.meta import ApiStruct, Int64, ObjectMeta, stated

API_VERSION = "allotment.dev/v1"


class Scenario(ApiStruct, frozen=True, kw_only=True):
    """Steps, tried one after another."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("Scenario")
    metadata: ObjectMeta = ObjectMeta()
    steps: tuple[Any, ...] = ()


class AddNodes(ApiStruct, frozen=True, kw_only=True):
    """Nodes to add, with their devices: exactly one of type, like, manifests and file says what they are."""

    type: str | None = None  # an instance type of the catalogue
    pool: str | None = None  # the node pool, or the node group, that a machine of the type comes from
    zone: str | None = None  # where; absent: where it is cheapest
    capacity_type: str | None = None  # on-demand, spot or reserved; absent: the cheapest
    like: str | None = None  # a node that exists, of which copies are made
    name: str | None = None  # the beginning of the new nodes' names
    count: Int64 | None = None  # how many; absent: 1
    manifests: tuple[Any, ...] = ()  # Nodes and the slices that they publish
    file: str | None = None  # the same, in a file beside the scenario


class OneNode(ApiStruct, frozen=True, kw_only=True):
    """A node by its name."""

    SHORT_FORM: ClassVar[str | None] = "name"

    name: str = stated("")


class RemoveNode(ApiStruct, frozen=True, kw_only=True):
    """A node to take away."""

    SHORT_FORM: ClassVar[str | None] = "name"

    name: str = stated("")
    force: bool | None = None  # true: also while its devices are in use, as if the machine broke down


class Submit(ApiStruct, frozen=True, kw_only=True):
    """Objects to create: exactly one of manifests and file."""

    SHORT_FORM: ClassVar[str | None] = "file"

    manifests: tuple[Any, ...] = ()
    file: str | None = None


class DeleteStep(ApiStruct, frozen=True, kw_only=True):
    """An object to delete."""

    kind: str = stated("")
    namespace: str | None = None  # absent: default
    name: str = stated("")


class ScaleStep(ApiStruct, frozen=True, kw_only=True):
    """A workload that is to have another number of pods."""

    kind: str = stated("")
    namespace: str | None = None  # absent: default
    name: str = stated("")
    replicas: Int64 | None = None


class TaintDevice(ApiStruct, frozen=True, kw_only=True):
    """Devices that get a taint, by driver, pool and name, each absent one matching all; or a rule as it would be applied."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    key: str | None = None
    value: str | None = None
    effect: str | None = None  # NoSchedule or NoExecute
    rule: Any = None  # a DeviceTaintRule, in place of all others


class ResizePool(ApiStruct, frozen=True, kw_only=True):
    """A pool that is to have another number of devices."""

    driver: str = stated("")
    pool: str = stated("")
    devices: Int64 | None = None  # how many it has then
    like: str | None = None  # the device that new ones are copies of; absent: the last
    force: bool | None = None  # true: also devices that are in use go


class Counts(ApiStruct, frozen=True, kw_only=True):
    """How many pods there are, of all."""

    running: Int64 | None = None
    pending: Int64 | None = None


class Expect(ApiStruct, frozen=True, kw_only=True):
    """What must hold after a step. Pods are given by name, in ``default`` unless a namespace comes before a slash; a ``*`` stands
    for anything, and then at least one pod must match."""

    running: tuple[str, ...] = ()  # these have a node
    pending: tuple[str, ...] = ()  # these are there and have none
    counts: Counts | None = None
    refused: bool | None = None  # true: the step itself must be refused


class Step(ApiStruct, frozen=True, kw_only=True):
    """One verb, or none and only what is expected."""

    name: str | None = None  # for people
    add_nodes: AddNodes | None = None
    remove_node: RemoveNode | None = None
    drain_node: OneNode | None = None
    submit: Submit | None = None
    delete: DeleteStep | None = None
    scale: ScaleStep | None = None
    taint_device: TaintDevice | None = None
    resize_pool: ResizePool | None = None
    expect: Expect | None = None
