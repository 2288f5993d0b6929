"""Names that may be misspelt or missing when a pod fits nowhere. These are facts about names; the scheduler is not asked.

Examples: a class that does not exist, a driver that publishes nothing, an attribute or a value that no device has, a label
that no node has. Each hint names the existing name that is most similar.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.features import ALL
from allotment.allocator.selector import SelectorTest
from allotment.allocator.semantic_carrier import is_carrier
from allotment.api.likeness import near
from allotment.api.text import few
from allotment.insight.explain.pod_changes import labels_there, largest, unmet_affinity
from allotment.usage.changes import ChangeKind

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.api.resource import DeviceAttribute, DeviceSelector, ResourceClaim, ResourceSlice
    from allotment.scheduler.cluster import Cluster

MOST_HINTS = 8
_NAMES_OFFERED = 4
_SELECTORS = 64
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_TEXT = r"""(?:"[^"\n]*"(?!")|'[^'\n]*'(?!'))"""
_ATTRIBUTE = r"""(?:\.\s*\??\s*(?P<name>[A-Za-z_]\w*)|\[\s*\??\s*["'](?P<key>[A-Za-z_]\w*)["']\s*\])"""
_OF = r"""attributes\s*\[\s*["'](?P<domain>[^"']+)["']\s*\]\s*"""
_EQUALS = (
    re.compile(
        rf"""(?:{_OF})?{_ATTRIBUTE}(?:\.orValue\({_TEXT}\))?\s*(?:==\s*(?P<one>{_TEXT})|in\s*\[(?P<any>[^\]]*)\])"""
    ),
    re.compile(rf"""(?P<one>{_TEXT})\s*==\s*device\.{_OF}{_ATTRIBUTE}"""),
)
"""An attribute and the texts with which it is compared, on either side; for a bare name the domain is unknown."""
_NOT_ATTRIBUTES = frozenset(("driver",))


def hints(
    pod: Pod,
    claims: Sequence[ResourceClaim],
    cluster: Cluster,
    slices: Iterable[ResourceSlice],
    *,
    told: Container[ChangeKind] = (),
) -> list[str]:
    """Distinct sentences, the most useful first. Names that the remedies in ``told`` already cover are left out. Claims that
    carry a v1alpha2 claim name no device classes and no devices of slices; ``semantic_hints`` is for these."""
    published = _Published(slices)
    claims = [each for each in claims if not is_carrier(each)]
    found = dict.fromkeys(
        (
            *_of_claim_names(pod, cluster),
            *_of_classes(claims, cluster),
            *_of_claims(claims, published),
            *(
                hint
                for selector in _selectors(claims, cluster)[:_SELECTORS]
                for hint in _of_selector(selector, published)
            ),
            *(_of_labels(pod, cluster) if ChangeKind.NODE not in told else ()),
            *(_of_affinity(pod, cluster) if ChangeKind.NODE not in told else ()),
            *(largest(pod, cluster) if ChangeKind.RESOURCES not in told else ()),
        )
    )
    return list(found)[:MOST_HINTS]


class _Published:
    """The attributes, their values and the capacities of the devices, by driver."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.drivers: set[str] = set()
        self.values: dict[str, dict[str, None]] = {}  # by ``domain/name``; only texts
        self.capacities: set[str] = set()  # ``domain/name``
        for each in slices:
            self.drivers.add(each.spec.driver)
            for device in each.spec.devices:
                for name, value in device.attributes.items():
                    known = self.values.setdefault(name if "/" in name else f"{each.spec.driver}/{name}", {})
                    known.update(dict.fromkeys(_texts(value)))
                self.capacities.update(
                    name if "/" in name else f"{each.spec.driver}/{name}" for name in device.capacity
                )
        self.domains = {name.partition("/")[0] for name in (*self.values, *self.capacities)}

    def named(self, name: str) -> list[str]:
        """The values of all attributes of this name, in any domain."""
        return sorted(
            {each for key, values in self.values.items() if key.endswith(f"/{name}") for each in values}
        )


def _texts(value: DeviceAttribute) -> tuple[str, ...]:
    return (value.string_value,) if value.string_value is not None else ()


def _of_claim_names(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Claims that the pod names and that do not exist: namespaces that have one of that name, or similar names in the pod's
    namespace."""
    known = [(each.metadata.namespace, each.metadata.name) for each in cluster.claims.objects.values()]
    own = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name
        if name is None or (own, name) in known:
            continue
        elsewhere = [namespace for namespace, other in known if other == name]
        if elsewhere:
            yield f"claim {name} is in {few(sorted(elsewhere), _NAMES_OFFERED)}, but a pod can only use claims of its own namespace"
        elif like := near(name, (other for namespace, other in known if namespace == own)):
            yield f"there is no claim {own}/{name}{like}"


def _of_classes(claims: Sequence[ResourceClaim], cluster: Cluster) -> Iterator[str]:
    for name in _classes(claims):
        if name and name not in cluster.classes and cluster.classes:
            like = (
                near(name, cluster.classes, least=0.7)
                or f"; there is {few(sorted(cluster.classes), _NAMES_OFFERED)}"
            )
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
        others = (
            near(driver, published.drivers, least=0.8)
            or f"; drivers that do: {few(sorted(published.drivers), _NAMES_OFFERED)}"
        )
        yield f"no driver {driver} publishes anything{others if published.drivers else '; no driver does'}"
    for read in sorted(SelectorTest(expression, ALL).reads, key=repr):
        kind, domain, name = read if len(read) == 3 else ("", None, None)
        if domain is not None and name is not None and domain not in drivers - published.drivers:
            yield from _of_name(kind, domain, name, published)
    for pattern in _EQUALS:
        for match in pattern.finditer(expression):
            yield from _of_values(match, published)


def _of_name(kind: str, domain: str, name: str, published: _Published) -> Iterator[str]:
    """Attributes and capacities that no device has."""
    of_kind = {"attributes": published.values, "capacity": published.capacities}.get(kind)
    if of_kind is None or f"{domain}/{name}" in of_kind:
        return
    if domain not in published.domains | published.drivers:
        yield f"no device has an attribute or capacity of {domain}{near(domain, published.domains, least=0.8)}"
        return
    what, other = ("attribute", "capacity") if kind == "attributes" else ("capacity", "attributes")
    like = near(name, _of_domain(domain, of_kind))
    if f"{domain}/{name}" in published.values or f"{domain}/{name}" in published.capacities:
        like = f'; there is device.{other}["{domain}"].{name}'
    yield f"no device has {what} {domain}/{name}{like}"


def _of_values(match: re.Match[str], published: _Published) -> Iterator[str]:
    """Values with which an attribute is compared and that no device has."""
    found = match.groupdict()
    name, domain = found["name"] or found["key"], found["domain"]
    values = [text[1:-1] for text in re.findall(_TEXT, found["one"] or found.get("any") or "")]
    if domain is None:
        there = published.named(name) if name not in _NOT_ATTRIBUTES else []
    else:
        there = sorted(published.values.get(f"{domain}/{name}", ()))
    if values and there and not set(values).intersection(there):
        like = next(
            filter(None, (near(value, there) for value in values)),
            f"; there is {few(sorted(there), _NAMES_OFFERED)}",
        )
        quoted = " or ".join(f'"{value}"' for value in values[:_NAMES_OFFERED])
        yield f"no device has {name} {quoted}{like}"


def _of_claims(claims: Sequence[ResourceClaim], published: _Published) -> Iterator[str]:
    """Names of attributes in constraints, and names of capacities in requests."""
    for claim in claims:
        for constraint in claim.spec.devices.constraints:
            for each in (constraint.match_attribute, constraint.distinct_attribute):
                if each is not None:
                    domain, _, name = each.rpartition("/")
                    yield from _of_name("attributes", domain, name, published)
        for request in claim.spec.devices.requests:
            for wish in (request.exactly, *request.first_available):
                for name in wish.capacity.requests if wish is not None and wish.capacity is not None else ():
                    plain = {each.rpartition("/")[2] for each in published.capacities}
                    if published.capacities and name.rpartition("/")[2] not in plain:
                        yield f"no device has capacity {name}{near(name, plain)}"


def _of_domain(domain: str, names: Iterable[str]) -> list[str]:
    return [name.rpartition("/")[2] for name in names if name.startswith(f"{domain}/")]


def _of_labels(pod: Pod, cluster: Cluster) -> Iterator[str]:
    for key, value in sorted(pod.spec.node_selector.items()):
        if not any(info.labels.get(key) == value for info in cluster.nodes.values()):
            yield f"node selector {key}={value}: {labels_there(key, value, cluster)}"


def _of_affinity(pod: Pod, cluster: Cluster) -> Iterator[str]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        yield from (f"node affinity {each}" for each in unmet_affinity(affinity.required, cluster))
