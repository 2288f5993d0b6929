"""Containers of pods, as plain JSON: names, images, ports, mounts, and resource requirements.

A pod's containers may use the volumes and resource claims that the pod names, so those are arguments.
"""

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, label_key_problem
from allotment.api.quantity import Quantity, QuantityError
from allotment.api.text import some_of, trimmed
from allotment.api.validation.lists import named

Plain = Mapping[str, Any]

MAX_PORT: Final = 65535
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")

_PORT_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9](?:[a-z0-9]|-(?!-))*(?<!-)")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_WITHOUT_PROBES: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


class ClaimNames:
    """The claims that a pod names. Their list in error messages is built once, however many containers are wrong."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @cached_property
    def told(self) -> str:
        return f": {some_of(self._names)}" if self._names else " which is empty"


NO_CLAIMS: Final = ClaimNames()


def check_containers(
    spec: Plain, path: FieldPath, volumes: Collection[str], claims: ClaimNames
) -> Iterator[FieldError]:
    """Checks all containers of a pod spec: at least one ordinary container, and no name twice."""
    if not spec.get("containers"):
        yield path.child("containers").required()
    seen: set[str] = set()
    for list_name in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            here = path.child(list_name).index(index)
            yield from _check_container(container, here, volumes, claims)
            if list_name == "initContainers" and container.get("restartPolicy") != "Always":
                yield from _check_set_up(container, here)
            name = container.get("name") or ""
            if name in seen:
                yield here.child("name").duplicate(name)
            if name:
                seen.add(name)


def _check_container(
    container: Plain, path: FieldPath, volumes: Collection[str], claims: ClaimNames
) -> Iterator[FieldError]:
    yield from named(container.get("name") or "", path.child("name"), dns_label_problem)
    image = container.get("image") or ""
    if not image:
        yield path.child("image").required()
    elif trimmed(image) != image:
        yield path.child("image").invalid("must not have leading or trailing whitespace", image)
    yield from one_of(container, "terminationMessagePolicy", MESSAGE_POLICIES, path)
    yield from one_of(container, "imagePullPolicy", PULL_POLICIES, path)
    yield from _check_ports(container.get("ports") or (), path.child("ports"))
    for index, variable in enumerate(container.get("env") or ()):
        yield from _check_variable(variable, path.child("env").index(index))
    yield from _check_mounts(container.get("volumeMounts") or (), path.child("volumeMounts"), volumes)
    yield from check_requirements(container.get("resources") or {}, path.child("resources"), claims)


def _check_set_up(container: Plain, path: FieldPath) -> Iterator[FieldError]:
    for name in _WITHOUT_PROBES:
        if container.get(name) is not None:
            yield path.child(name).forbidden(
                "may not be set for init containers without restartPolicy=Always"
            )


def _check_ports(ports: Sequence[Plain], path: FieldPath) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = path.index(index)
        if name := port.get("name"):
            if len(name) > 15 or not _PORT_NAME.fullmatch(name):
                yield here.child("name").invalid(
                    "must be at most 15 lower-case letters, digits and single '-', with a letter", name
                )
            elif name in names:
                yield here.child("name").duplicate(name)
            names.add(name)
        if not port.get("containerPort"):
            yield here.child("containerPort").required()
        for field in ("containerPort", "hostPort"):
            if (number := port.get(field) or 0) and not 1 <= number <= MAX_PORT:
                yield here.child(field).invalid(f"must be between 1 and {MAX_PORT}, inclusive", number)
        yield from one_of(port, "protocol", PROTOCOLS, here)


def _check_variable(variable: Plain, path: FieldPath) -> Iterator[FieldError]:
    name = variable.get("name") or ""
    if not name:
        yield path.child("name").required()
    elif "=" in name or not all(" " <= letter <= "~" for letter in name):
        yield path.child("name").invalid("must consist of printable ASCII characters other than '='", name)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield path.child("valueFrom").invalid("may not be specified when `value` is not empty", "")
    given = sum(1 for value in source.values() if value is not None)
    if given != 1:
        yield path.child("valueFrom").invalid(
            "may not have more than one field specified at a time" if given else "must specify one source",
            "",
        )


def _check_mounts(mounts: Sequence[Plain], path: FieldPath, volumes: Collection[str]) -> Iterator[FieldError]:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here = path.index(index)
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield here.child("name").required()
        if name not in volumes:
            yield here.child("name").not_found("", name)
        if not place:
            yield here.child("mountPath").required()
        if place in places:
            yield here.child("mountPath").invalid("must be unique", place)
        places.add(place)


def check_requirements(
    resources: Plain, path: FieldPath, claims: ClaimNames = NO_CLAIMS
) -> Iterator[FieldError]:
    """Checks requests, limits and claims of a container or a pod."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    amounts: dict[str, Quantity] = {}
    for name, amount in limits.items():
        yield from check_resource_name(name, path.child("limits").key(name))
        limit = yield from check_amount(name, amount, path.child("limits").key(name))
        if limit is not None:
            amounts[name] = limit
    for name, amount in requests.items():
        yield from check_resource_name(name, path.child("requests").key(name))
        request = yield from check_amount(name, amount, path.child("requests").key(name))
        if request is not None:
            yield from _compare(name, request, amounts.get(name), path)
    yield from _check_claims(resources.get("claims") or (), path.child("claims"), claims)


def _compare(name: str, request: Quantity, limit: Quantity | None, path: FieldPath) -> Iterator[FieldError]:
    if limit is None:
        if not _overcommitted(name):
            yield path.child("limits").required("Limit must be set for non overcommitable resources")
    elif request != limit and not _overcommitted(name):
        yield path.child("requests").invalid(f"must be equal to {name} limit of {limit}", str(request))
    elif request > limit:
        yield path.child("requests").invalid(
            f"must be less than or equal to {name} limit of {limit}", str(request)
        )


def _overcommitted(name: str) -> bool:
    """Whether a request may be below its limit, as for the node's own resources except huge pages."""
    return "/" not in name.removeprefix("kubernetes.io/") and not name.startswith("hugepages-")


def check_resource_name(name: str, path: FieldPath) -> Iterator[FieldError]:
    """Requires the name of a resource that containers request by number: the node's own, or one with a domain."""
    if problem := label_key_problem(name):
        yield path.invalid(problem, name)
    elif "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        yield path.invalid("must be a standard resource for containers", name)


def check_amount(name: str, amount: object, path: FieldPath) -> Generator[FieldError, None, Quantity | None]:
    """Errors of a quantity. The generator returns the quantity, or None if the value is not one."""
    try:
        quantity = Quantity.from_json(amount)
    except QuantityError as exc:
        yield path.invalid(str(exc), amount)
        return None
    if quantity.sign < 0:
        yield path.invalid("must be greater than or equal to 0", str(quantity))
    if "/" in name and not name.startswith("kubernetes.io/") and quantity.milli_value() % 1000:
        yield path.invalid("must be an integer", str(quantity))
    return quantity


def _check_claims(used: Sequence[Plain], path: FieldPath, claims: ClaimNames) -> Iterator[FieldError]:
    seen: dict[str, set[str]] = {}  # the named requests by claim; "" for the claim as a whole
    for index, use in enumerate(used):
        name, request = use.get("name") or "", use.get("request") or ""
        here = path.index(index)
        if not name:
            yield here.required()
            continue
        if request and (problem := dns_label_problem(request)):
            yield here.child("request").invalid(problem, request)
        others = seen.setdefault(name, set())
        if request in others or "" in others or (others and not request):
            yield here.duplicate(f"{name}/{request}" if request in others and request else name)
        others.add(request)
        if name not in claims:
            yield here.not_found(f"must be one of the names in pod.spec.resourceClaims{claims.told}", name)


def one_of(obj: Plain, name: str, choices: Sequence[str], path: FieldPath) -> Iterator[FieldError]:
    """Requires that a field is present and has one of the allowed values."""
    value = obj.get(name)
    if not value:
        yield path.child(name).required()
    elif value not in choices:
        yield path.child(name).not_supported(value, choices)
