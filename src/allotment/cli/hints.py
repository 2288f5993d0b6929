"""What may be misspelt or missing where a pod fits nowhere: facts about names, found by looking, not by asking the scheduler.

A class that is not there, a driver that publishes nothing, an attribute or a value that no device has, a label that no node has, and for
each what there is that is most like it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.features import ALL
from allotment.allocator.selector import Selector
from allotment.api.likeness import near
from allotment.cli.pod_changes import labels_there, largest
from allotment.usage.changes import Kind

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.api.resource import DeviceAttribute, DeviceSelector, ResourceClaim, ResourceSlice
    from allotment.scheduler.cluster import Cluster

MOST = 8
_NAMED = 4
_SELECTORS = 64
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_EQUALS = re.compile(r"""\.\s*(?P<name>[A-Za-z_][\w]*)\s*==\s*(?P<quote>["'])(?P<value>[^"']*)(?P=quote)""")
_NOT_ATTRIBUTES = frozenset(("driver",))


def hints(
    pod: Pod,
    claims: Sequence[ResourceClaim],
    cluster: Cluster,
    slices: Iterable[ResourceSlice],
    *,
    told: Container[Kind] = (),
) -> list[str]:
    """Sentences, the most telling first, each once. Of what ``told`` remedies are about, these say enough."""
    published = _Published(slices)
    found = dict.fromkeys(
        (
            *_of_classes(claims, cluster),
            *(
                hint
                for selector in _selectors(claims, cluster)[:_SELECTORS]
                for hint in _of_selector(selector, published)
            ),
            *(_of_labels(pod, cluster) if Kind.NODE not in told else ()),
            *(largest(pod, cluster) if Kind.RESOURCES not in told else ()),
        )
    )
    return list(found)[:MOST]


class _Published:
    """Which attributes devices have, with which values, by driver."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.drivers: set[str] = set()
        self.values: dict[str, dict[str, None]] = {}  # by ``domain/name``; texts only
        for each in slices:
            self.drivers.add(each.spec.driver)
            for device in each.spec.devices:
                for name, value in device.attributes.items():
                    known = self.values.setdefault(name if "/" in name else f"{each.spec.driver}/{name}", {})
                    known.update(dict.fromkeys(_texts(value)))

    def named(self, name: str) -> list[str]:
        """The values of all attributes of this name, whatever their domain."""
        return sorted(
            {each for key, values in self.values.items() if key.endswith(f"/{name}") for each in values}
        )


def _texts(value: DeviceAttribute) -> tuple[str, ...]:
    return (value.string_value,) if value.string_value is not None else ()


def _of_classes(claims: Sequence[ResourceClaim], cluster: Cluster) -> Iterator[str]:
    for name in _classes(claims):
        if name and name not in cluster.classes and (like := near(name, cluster.classes)):
            yield f"there is no device class {name}{like}"


def _classes(claims: Sequence[ResourceClaim]) -> list[str]:
    wishes = (
        wish
        for claim in claims
        for request in claim.spec.devices.requests
        for wish in (request.exactly, *request.first_available)
        if wish is not None
    )
    return list(dict.fromkeys(wish.device_class_name for wish in wishes))


def _selectors(claims: Sequence[ResourceClaim], cluster: Cluster) -> list[str]:
    """The expressions of the claims and of their classes."""
    found: list[DeviceSelector] = []
    for name in _classes(claims):
        if name in cluster.classes:
            found += cluster.classes[name].spec.selectors
    for claim in claims:
        for request in claim.spec.devices.requests:
            for wish in (request.exactly, *request.first_available):
                found += wish.selectors if wish is not None else ()
    return list(dict.fromkeys(each.cel.expression for each in found if each.cel is not None))


def _of_selector(expression: str, published: _Published) -> Iterator[str]:
    drivers = set(_DRIVER.findall(expression))
    for driver in sorted(drivers - published.drivers):
        others = near(driver, published.drivers, least=0.8) or f"; those that do: {_few(published.drivers)}"
        yield f"no driver {driver} publishes anything{others if published.drivers else '; no driver does'}"
    for read in sorted(Selector(expression, ALL).reads, key=repr):
        domain, name = (read[1], read[2]) if len(read) == 3 and read[0] == "attributes" else (None, None)
        if domain is None or name is None:
            continue
        key = f"{domain}/{name}"
        if key in published.values or (domain not in published.drivers and not _of_domain(domain, published)):
            continue
        yield f"no device has attribute {key}{near(name, _of_domain(domain, published))}"
    for match in _EQUALS.finditer(expression):
        name, value = match["name"], match["value"]
        values = published.named(name) if name not in _NOT_ATTRIBUTES else []
        if values and value not in values:
            yield f'no device has {name} "{value}"{near(value, values) or f"; there is {_few(values)}"}'


def _of_domain(domain: str, published: _Published) -> list[str]:
    return [key.rpartition("/")[2] for key in published.values if key.startswith(f"{domain}/")]


def _of_labels(pod: Pod, cluster: Cluster) -> Iterator[str]:
    for key, value in sorted(pod.spec.node_selector.items()):
        if not any(info.labels.get(key) == value for info in cluster.nodes.values()):
            yield f"node selector {key}={value}: {labels_there(key, value, cluster)}"


def _few(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
