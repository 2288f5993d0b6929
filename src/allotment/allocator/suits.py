"""Judges which devices suit an ask, one by one and only when the search reaches them.

A device is *selectable* if it passes the class's and the request's expressions, reaches the node, and its policy can serve
the requested capacity. It is *allowed* if nothing else about the device itself forbids it, such as a taint, a disabled
feature, or something that the node lacks. The search itself handles use, counters and constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.allocator.capacity import consumption
from allotment.allocator.errors import AllocationError, ClaimError
from allotment.allocator.nodeselector import node_matches
from allotment.allocator.phrases import HAVE_TAINT
from allotment.allocator.phrases import taint as written
from allotment.allocator.selector import NotKnownYet, SelectorTest
from allotment.allocator.taint import blocking_taint

if TYPE_CHECKING:
    from allotment.allocator.effort import Effort
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.request import Ask
    from allotment.allocator.selector import Criterion
    from allotment.allocator.site import Site
    from allotment.api.quantity import Quantity
    from allotment.api.resource import DeviceCapacity

NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature that a node declares if it supports skipping a driver's node operations."""


UNITS_A_STEP = 100
"""The cost of an expression that takes about as long as a step."""


def ask_ahead(ask: Ask, site: Site, effort: Effort) -> None:
    """Evaluates the expensive expressions of an ask on all devices of a site, so that a search need not, which cannot pause in
    the middle of a judgement. Raises Paused between two evaluations; those so far are cached."""
    if not any(isinstance(test, SelectorTest) and test.expensive for test in ask.tests):
        return
    for device in site.devices:
        for test in ask.tests:
            if isinstance(test, SelectorTest) and test.expensive and not test.knows(device):
                effort.take(0)
                before = test.spent
                answer = test.ask(device)
                effort.took((test.spent - before) // UNITS_A_STEP)
            else:
                answer = test.ask(device)
            if answer is not True and not isinstance(answer, NotKnownYet):
                break


class Suitability:
    """The judgement of one shape of ask on the devices of a site.

    Invariant: ``selectable``, ``allowed`` and ``errors`` speak of ``known`` devices only.
    """

    __slots__ = ("_ask", "_site", "allowed", "amounts", "errors", "known", "selectable", "unsure")

    def __init__(self, ask: Ask, site: Site) -> None:
        self._ask = ask
        self._site = site
        self.known = 0
        self.selectable = 0
        self.allowed = 0
        self.errors: dict[int, AllocationError] = {}  # judging these raises an error
        self.unsure: dict[int, NotKnownYet] = {}  # not selectable until their machine runs, then perhaps
        # capacity that the ask takes of a selectable device
        self.amounts: dict[int, dict[str, Quantity]] = {}

    def judge(self, position: int) -> bool:
        """Whether the ask may have the device, apart from use. Raises the errors of its expressions."""
        bit = 1 << position
        if not self.known & bit:
            self._look_at(position, bit)
        if self.errors and position in self.errors:
            raise self.errors[position]
        return bool(self.selectable & self.allowed & bit)

    def judge_all(self) -> None:
        """Judges every device; raises nothing."""
        for position in range(len(self._site.devices)):
            if not self.known >> position & 1:
                self._look_at(position, 1 << position)

    @property
    def possible(self) -> int:
        """Devices that suit, that raise errors, or that are not judged yet."""
        possible = ~self.known | (self.selectable & self.allowed)
        for position in self.errors:
            possible |= 1 << position
        return possible

    def _look_at(self, position: int, bit: int) -> None:
        self.known |= bit
        device = self._site.devices[position]
        try:
            failed = self.fails(device)
            if isinstance(failed, NotKnownYet):
                self.unsure[position] = failed
            if failed is not None or not self._serves(position, device):
                return
        except AllocationError as exc:
            self.errors[position] = exc
            return
        self.selectable |= bit
        if self.forbids(device) is None:
            self.allowed |= bit

    def fails(self, device: PooledDevice) -> Criterion | str | None:
        """Why the device is not selectable, for example the first expression that it fails; None if it is.

        Raises AllocationError if an expression cannot be evaluated.
        """
        spec = device.spec
        if spec.binding_conditions and not self._site.features.DeviceBindingAndStatus:
            return "have binding conditions, and the feature is off"
        ask, unsure = self._ask, None
        for number, test in enumerate(ask.tests):
            answer = test.ask(device)
            if answer is not True:
                if answer is False:
                    return test
                if not isinstance(answer, NotKnownYet):
                    raise ClaimError(f"{ask.places[number]} on device {device.id}: {answer}")
                unsure = NotKnownYet(f"cannot be known to fit yet: {answer}")
        if device.slice.spec.per_device_node_selection and not node_matches(
            self._site.node, spec.node_name, spec.all_nodes, spec.node_selector
        ):
            return "do not reach this node"
        return unsure

    def _serves(self, position: int, device: PooledDevice) -> bool:
        """Whether the device's capacity can serve the ask when nobody else has any. Notes how much it takes."""
        capacity, wanted = device.spec.capacity, self._ask.capacity
        features = self._site.features
        if not features.ConsumableCapacity or not (capacity or wanted):
            return True
        if not wanted and not self._site.shareable >> position & 1 and _plain(capacity):
            return True
        try:
            amounts = consumption(wanted, capacity, fractional=features.FractionalCapacityRange)
        except ClaimError as exc:
            raise ClaimError(
                f"request {self._ask.name}: checking capacity for device {device.id}: {exc}"
            ) from exc
        if amounts is None or any(amounts[name] > offer.value for name, offer in capacity.items()):
            return False
        self.amounts[position] = amounts
        return True

    def forbids(self, device: PooledDevice) -> str | None:
        """Why a selectable device is not allowed, whatever is in use; None if it is."""
        features, spec = self._site.features, device.spec
        if device.slice.spec.skip_node_operations:
            if not features.OptionalNodeOperations:
                return "skip node operations, and the feature is off"
            if NODE_OPERATIONS not in self._site.node.status.declared_features:
                return f"need a node that declares {NODE_OPERATIONS}"
        if spec.consumes_counters and not features.PartitionableDevices:
            return "consume counters, and the feature is off"
        if spec.taints and features.DeviceTaints:
            taint = blocking_taint(spec.taints, self._ask.tolerations)
            if taint is not None:
                return f"{HAVE_TAINT}{written(taint)}"
        return None


def _plain(capacity: Mapping[str, DeviceCapacity]) -> bool:
    """Whether taking all of it needs no arithmetic."""
    return all(offer.request_policy is None and offer.value.nanos >= 0 for offer in capacity.values())
