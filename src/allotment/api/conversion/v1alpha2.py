"""ResourceClaim and ResourceClaimTemplate of v1alpha2 (KEP-4381 semantic parameters) as v1 and back, without loss.

**v1alpha2 in v1: the carrier.** v1 must fail closed: a scheduler that knows only v1 must not allocate such a claim. In
v1 the claim has one request, whose deviceClassName is the resource class; no DeviceClass of that name exists. An opaque
configuration for the driver ``CARRIER`` holds what v1 has no field for. An allocation appears in v1's results, one
device for each instance, so that v1 counts it; each handle is an opaque configuration beside them. If there is no
allocation, the rest of the status becomes an annotation (``LEFT_OVER``).

**v1 in v1alpha2: wrapped.** Any other v1 object shows whatever v1alpha2 can express, and an annotation (``WRAPPED``)
holds all of it. On the way back the annotation counts, except for changes to the visible part: reservations, or a
removed allocation.

**Why nothing is lost.** We read a v1 object as a carrier only if converting the result back gives exactly the same
object; otherwise we wrap it whole. See docs/decisions/0003-one-claim-two-forms.md.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from allotment.api.conversion import Document, renamed
from allotment.api.resource import API_VERSION as V1

API_VERSION = "resource.k8s.io/v1alpha2"

CARRIER = "v1alpha2.allotment.dev"
"""The driver of opaque configurations that carry v1alpha2 content; nothing else acts on them."""
WRAPPED = "v1.allotment.dev/object"
LEFT_OVER = "v1alpha2.allotment.dev/status"
REQUEST = "claim"
"""The name of the one request of a carrier."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")
_IN_V1 = ("allocation", "reservedFor")


def to_v1(document: Document) -> Document:
    """A claim or template of v1alpha2 as one of v1."""
    wrapped = _annotation(document, WRAPPED)
    if isinstance(wrapped, dict):
        return _unwrapped(document, wrapped)
    return _carrier(document)


def from_v1(document: Document) -> Document:
    """A claim or template of v1 as one of v1alpha2."""
    return as_carried(document) or _wrapped(document)


def as_carried(document: Document) -> Document | None:
    """The v1alpha2 form of a v1 object that carries one; None for every other object of v1."""
    spec = document.get("spec")
    inner = spec.get("spec") if _is_template(document) and isinstance(spec, dict) else spec
    if CARRIER not in _drivers(inner):
        return None
    read = _read_template(document) if _is_template(document) else _read_claim(document)
    return read if read is not None and _carrier(read) == document else None


def carries(claim: Document) -> bool:
    """Whether a claim of v1 carries one of v1alpha2, judged by its configuration alone."""
    return CARRIER in _drivers(claim.get("spec"))


def default_carried_spec(spec: Any) -> None:
    """Fills in the allocationMode of a carrier's spec in place; leaves other specs alone."""
    if CARRIER not in _drivers(spec):
        return
    for entry in spec["devices"]["config"]:
        parameters = _inner(entry, "opaque", "parameters")
        if isinstance(parameters, dict) and parameters.get("kind") == "ResourceClaimSpec":
            parameters["allocationMode"] = parameters.get("allocationMode") or "WaitForFirstConsumer"


def device_name(id: str) -> str:
    """The v1 name of an instance: its id if that is a DNS label, else a label that no other id gets."""
    if _LABEL.fullmatch(id):
        return id
    digest = hashlib.sha256(id.encode()).hexdigest()[:16]
    readable = _NOT_IN_LABELS.sub("-", id.lower())[-44:].strip("-")
    return f"{readable}--{digest}" if readable else digest


# --- v1alpha2 in v1 ---


def _carrier(document: Document) -> Document:
    if _is_template(document):
        spec = document.get("spec")
        if isinstance(spec, dict) and "spec" in spec:
            document = {**document, "spec": {**spec, "spec": _carrier_spec(spec["spec"])}}
        return renamed(document, V1)
    carried = renamed(document, V1)
    if "spec" in document:
        carried["spec"] = _carrier_spec(document["spec"])
    if isinstance(document.get("status"), dict):
        carried["status"], left = _carrier_status(document["status"])
        if left:
            carried["metadata"] = _annotated(carried, LEFT_OVER, left)
    return carried


def _carrier_spec(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    parameters = {name: value for name, value in spec.items() if name != "resourceClassName"}
    exactly = {"allocationMode": "ExactCount", "count": 1}
    if "resourceClassName" in spec:
        exactly = {"deviceClassName": spec["resourceClassName"], **exactly}
    return {
        "devices": {
            "requests": [{"name": REQUEST, "exactly": exactly}],
            "config": [{"opaque": _opaque("ResourceClaimSpec", parameters)}],
        }
    }


def _carrier_status(status: Document) -> tuple[Document, Document]:
    """The v1 status, and the parts of the v1alpha2 status that it has no place for."""
    carried = {name: status[name] for name in ("reservedFor",) if name in status}
    left = {name: value for name, value in status.items() if name not in _IN_V1}
    allocation = status.get("allocation")
    if not isinstance(allocation, dict):
        return carried, left | ({"allocation": allocation} if "allocation" in status else {})
    handles = allocation.get("resourceHandles")
    in_entries = (
        ("availableOnNodes", "resourceHandles") if isinstance(handles, list) else ("availableOnNodes",)
    )
    rest = {name: value for name, value in allocation.items() if name not in in_entries}
    told: Document = {"allocation": rest, "status": left}
    if isinstance(handles, list):
        told["handles"] = len(handles)  # absent and empty are not the same
    config = [_opaque("AllocationResult", told)]
    config += [_opaque("ResourceHandle", {"handle": handle}) for handle in handles or () if "handles" in told]
    devices: Document = {"config": [{"source": "FromClaim", "opaque": opaque} for opaque in config]}
    results = _results(handles, status.get("driverName"))
    if results:
        devices["results"] = results
    carried["allocation"] = {"devices": devices}
    if "availableOnNodes" in allocation:
        carried["allocation"]["nodeSelector"] = allocation["availableOnNodes"]
    return carried, {}


def _results(handles: Any, driver: Any) -> list[Document]:
    """One v1 result for each instance that the scheduler allocated."""
    results: list[Document] = []
    for handle in handles if isinstance(handles, list) else ():
        data = handle.get("semanticData") if isinstance(handle, dict) else None
        model = data.get("partitionable") if isinstance(data, dict) else None
        instances = model.get("instances") if isinstance(model, dict) else None
        for instance in instances if isinstance(instances, list) else ():
            id = instance.get("id") if isinstance(instance, dict) else instance
            results.append(
                {
                    "request": REQUEST,
                    "driver": handle.get("driverName") or driver or "",
                    "pool": data.get("nodeName", "") if isinstance(data, dict) else "",
                    "device": device_name(id) if isinstance(id, str) else "",
                }
            )
    return results


def _opaque(kind: str, content: Document) -> Document:
    return {"driver": CARRIER, "parameters": {"apiVersion": API_VERSION, "kind": kind, **content}}


# --- a carrier read back; any step that does not recognise its input gives None, and the whole is wrapped ---


def _read_template(document: Document) -> Document | None:
    spec = _read_spec(document["spec"]["spec"])
    if spec is None:
        return None
    return {**renamed(document, API_VERSION), "spec": {**document["spec"], "spec": spec}}


def _read_claim(document: Document) -> Document | None:
    read, spec = renamed(document, API_VERSION), _read_spec(document.get("spec"))
    if spec is None:
        return None
    read["spec"] = spec
    if isinstance(document.get("status"), dict):
        left = _annotation(document, LEFT_OVER)
        status = _read_status(document["status"], left if isinstance(left, dict) else {})
        if status is None:
            return None
        read["status"] = status
        if isinstance(left, dict):
            read["metadata"] = _without_annotation(document, LEFT_OVER)
    return read


def _read_spec(spec: Any) -> Document | None:
    parameters = _parameters(_inner(spec, "devices", "config"), "ResourceClaimSpec")
    requests = _inner(spec, "devices", "requests")
    if len(parameters) != 1 or not isinstance(requests, list) or len(requests) != 1:
        return None
    name = _inner(requests[0], "exactly", "deviceClassName")
    return ({"resourceClassName": name} if name is not None else {}) | parameters[0]


def _read_status(status: Document, left: Document) -> Document | None:
    read = {name: status[name] for name in ("reservedFor",) if name in status} | left
    if "allocation" not in status:
        return read
    config = _inner(status["allocation"], "devices", "config")
    told = _parameters(config, "AllocationResult")
    if len(told) != 1 or not all(isinstance(told[0].get(part), dict) for part in ("allocation", "status")):
        return None
    allocation = dict(told[0]["allocation"])
    if "handles" in told[0]:
        handles = [each.get("handle") for each in _parameters(config, "ResourceHandle")]
        allocation["resourceHandles"] = handles
    if "nodeSelector" in status["allocation"]:
        allocation["availableOnNodes"] = status["allocation"]["nodeSelector"]
    return {**read, **told[0]["status"], "allocation": allocation}


def _parameters(config: Any, kind: str) -> list[Document]:
    """The contents of one kind that a list of configurations carries."""
    found = []
    for entry in config if isinstance(config, list) else ():
        parameters = _inner(entry, "opaque", "parameters")
        if isinstance(parameters, dict) and parameters.get("kind") == kind:
            found.append({n: value for n, value in parameters.items() if n not in ("apiVersion", "kind")})
    return found


def _drivers(spec: Any) -> list[Any]:
    config = _inner(spec, "devices", "config")
    return [_inner(entry, "opaque", "driver") for entry in config] if isinstance(config, list) else []


# --- v1 in v1alpha2 ---


def _wrapped(document: Document) -> Document:
    content: Document = {name: document[name] for name in ("spec", "status") if name in document}
    shown = renamed(document, API_VERSION) | _shown(document)
    shown["metadata"] = _annotated(document, WRAPPED, content)
    return shown


def _shown(document: Document) -> Document:
    """The part of a v1 object's content that v1alpha2 can express."""
    content: Document = {}
    if _is_template(document):
        spec = document.get("spec")
        outer = spec if isinstance(spec, dict) else {}
        content["spec"] = {**outer, "spec": _shown_spec(outer.get("spec"))}
    else:
        content["spec"] = _shown_spec(document.get("spec"))
    status = document.get("status")
    if isinstance(status, dict):
        content["status"] = _shown_status(status)
    return content


def _shown_spec(spec: Any) -> Document:
    requests = _inner(spec, "devices", "requests")
    first = requests[0] if isinstance(requests, list) and requests else {}
    alternatives = _inner(first, "firstAvailable")
    if isinstance(alternatives, list) and alternatives:
        name = _inner(alternatives[0], "deviceClassName")
    else:
        name = _inner(first, "exactly", "deviceClassName")
    return {
        "resourceClassName": name if isinstance(name, str) else "",
        "allocationMode": "WaitForFirstConsumer",
    }


def _shown_status(status: Document) -> Document:
    shown = {name: status[name] for name in ("reservedFor",) if name in status}
    allocation = status.get("allocation")
    if isinstance(allocation, dict):
        results = _inner(allocation, "devices", "results")
        data: dict[str, list[Any]] = {}
        for result in results if isinstance(results, list) else ():
            data.setdefault(str(_inner(result, "driver") or ""), []).append(result)
        handles = [{"driverName": driver, "data": _json(mine)} for driver, mine in data.items()]
        shown["allocation"] = {"resourceHandles": handles, "shareable": True}
        if "nodeSelector" in allocation:
            shown["allocation"]["availableOnNodes"] = allocation["nodeSelector"]
    return shown


def _unwrapped(document: Document, content: Document) -> Document:
    """The v1 object out of its wrapping. A visible part that differs from what we would show was edited, and counts."""
    whole = renamed(document, V1)
    whole["metadata"] = _without_annotation(document, WRAPPED)
    for name in ("spec", "status"):
        whole.pop(name, None)
    whole |= content
    shown = _shown(whole)
    if document.get("spec") != shown["spec"]:
        whole["spec"] = _carrier({"kind": document.get("kind"), "spec": document.get("spec")})["spec"]
    status, was = document.get("status"), shown.get("status", {})
    if isinstance(status, dict) and status != was:
        stored = content.get("status")
        whole["status"] = _changed_status(status, was, stored if isinstance(stored, dict) else {})
    elif "status" not in document:
        whole.pop("status", None)
    return whole


def _changed_status(status: Document, was: Document, stored: Document) -> Document:
    changed = {name: value for name, value in stored.items() if name not in _IN_V1}
    written, _ = _carrier_status(status)
    for name in _IN_V1:
        source = stored if status.get(name) == was.get(name) else written
        if name in source:
            changed[name] = source[name]
    return changed


# --- small things ---


def _is_template(document: Document) -> bool:
    return document.get("kind") == "ResourceClaimTemplate"


def _inner(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _annotation(document: Document, name: str) -> Any:
    """The JSON in an annotation; None if there is none."""
    text = _inner(document, "metadata", "annotations", name)
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _annotated(document: Document, name: str, value: Document) -> Document:
    """The metadata with one more annotation."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    return {**metadata, "annotations": {**annotations, name: _json(value)}}


def _without_annotation(document: Document, name: str) -> Document:
    annotations = {key: value for key, value in document["metadata"]["annotations"].items() if key != name}
    metadata = {key: value for key, value in document["metadata"].items() if key != "annotations"}
    return metadata | ({"annotations": annotations} if annotations else {})
