"""Defaults in the spec of a pod, for pods and for the templates in workloads.

Templates get fewer defaults than pods: only pods get requests from limits, service links and host ports, so that a change
of these rules does not restart every deployment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.quantity import Quantity, QuantityError
from allotment.apiserver.store.record import Obj

_SPEC = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_VOLUMES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def complete_pod(pod: Obj) -> None:
    """All defaults of a pod."""
    spec = pod.setdefault("spec", {})
    complete_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def spell_out_label_keys(pod: Obj) -> None:
    """Turns ``matchLabelKeys`` into tests of the pod's own labels, once, when it is created: schedulers read the selector."""
    spec, labels = pod["spec"], pod["metadata"].get("labels")
    if not labels:
        return
    for term in (*_affinity_terms(spec), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(name) or ():
                if key in labels:
                    test = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector.setdefault("matchExpressions", []).append(test)


def _affinity_terms(spec: Obj) -> Iterator[Obj]:
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        yield from pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def complete_whole(spec: Obj) -> None:
    """What a pod requests as a whole where it says so in part: what its containers request together, else its limits.

    For new pods, whose quantities may still be wrong; then nothing is filled in, and validation will say which.
    """
    whole = spec.get("resources")
    if not whole or not (whole.get("requests") or whole.get("limits")):
        return
    try:
        together = _together(spec)
    except QuantityError:
        return
    wished = {name: amount for name, amount in (whole.get("limits") or {}).items() if _of_whole(name)}
    whole["requests"] = {**wished, **together, **(whole.get("requests") or {})}


def _together(spec: Obj) -> dict[str, str]:
    """The sum over containers that run side by side, or what one for set-up needs, if that is more."""
    totals: dict[str, Quantity] = {}
    peaks: dict[str, Quantity] = {}
    for list_name in ("containers", "initContainers"):
        for container in spec.get(list_name) or ():
            beside = list_name == "containers" or container.get("restartPolicy") == "Always"
            for name, amount in (container["resources"].get("requests") or {}).items():
                quantity = Quantity.from_json(amount)
                if not _of_whole(name) or name.startswith("hugepages-"):
                    continue
                if beside:
                    totals[name] = totals[name] + quantity if name in totals else quantity
                elif name not in peaks or peaks[name] < quantity:
                    peaks[name] = quantity
    for name, peak in peaks.items():
        if name not in totals or totals[name] < peak:
            totals[name] = peak
    return {name: str(total) for name, total in totals.items()}


def _of_whole(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def complete_template(template: Obj) -> None:
    """All defaults of a pod template."""
    complete_spec(template.setdefault("spec", {}))


def complete_spec(spec: Obj) -> None:
    """The defaults that pods and templates share."""
    for name, value in _SPEC.items():
        if spec.get(name) in (None, ""):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the second is an old name of the first
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        _complete_volume(volume)
    for container in containers(spec):
        complete_container(container)


def containers(spec: Obj) -> Iterator[Obj]:
    """Every container of a pod, the ones for set-up and debugging included."""
    for name in _CONTAINER_LISTS:
        yield from spec.get(name) or ()


def complete_container(container: Obj) -> None:
    """The defaults of one container."""
    _fill(container, "terminationMessagePath", "/dev/termination-log")
    _fill(container, "terminationMessagePolicy", "File")
    _fill(container, "imagePullPolicy", _pull_policy(container.get("image") or ""))
    if container.get("resources") is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        _fill(port, "protocol", "TCP")
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            for field, value in _PROBE.items():
                if not probe.get(field):
                    probe[field] = value
            _complete_handler(probe)
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _complete_handler(handler)
    for variable in container.get("env") or ():
        _complete_reference(variable.get("valueFrom"))


def _complete_handler(handler: Obj) -> None:
    if (request := handler.get("httpGet")) is not None:
        _fill(request, "path", "/")
        _fill(request, "scheme", "HTTP")
    if (call := handler.get("grpc")) is not None and call.get("service") is None:
        call["service"] = ""


def _complete_reference(source: Obj | None) -> None:
    if source and source.get("fieldRef"):
        _fill(source["fieldRef"], "apiVersion", "v1")
    if source and source.get("resourceFieldRef"):
        _fill(source["resourceFieldRef"], "divisor", "0")


def _complete_volume(volume: Obj) -> None:
    if len(volume) <= 1:  # a name and no source
        volume["emptyDir"] = {}
    for name in _VOLUMES_WITH_MODE:
        if (source := volume.get(name)) is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    if (host := volume.get("hostPath")) is not None:
        host.setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _complete_reference(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if (token := source.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _complete_reference(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _pull_policy(image: str) -> str:
    """Images that name no version, or ``latest``, are pulled each time."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2] or "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def _fill(obj: Obj, name: str, value: Any) -> None:
    if not obj.get(name):
        obj[name] = value
