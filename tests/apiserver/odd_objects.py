"""Objects that are odd and that the server nevertheless accepts: whatever somebody with the right to write may store.

Each starts from one that the real server took (``registry/kinds/upstream.jsonl``). Its metadata get owners that are gone or of
unknown kinds, finalizers, and annotations that controllers read, with values that are none of theirs. Then every part
of it is mixed with random values of its schema, mostly with something left out. Most of what comes of it is refused;
the caller stores the rest.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from allotment.api.schema.schema import Schema, schema_of
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.store.record import Obj
from tests.apiserver.registry.kinds.record import NAMESPACE, cases
from tests.builders import plain

_TRIES = 4
_HOW_MANY, _MOST = {"replicas", "parallelism", "completions", "max"}, 5
"""What would keep controllers at work for ever if it were large."""

WORDS = (
    "",
    "a",
    "True",
    "False",
    "Ready",
    "Complete",
    "FailureTarget",
    "Running",
    "Failed",
    "1-",
    "x,3-1",
    "None",
)
NUMBERS = (0, 1, 3, -1, 2**31 - 1)
QUANTITIES = ("0", "1", "-1", "500m", "1Ei", "1e18", "0.000000001")
TIMES = ("2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
ANNOTATIONS = (
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/revision-history",
    "batch.kubernetes.io/job-completion-index",
    "controller.kubernetes.io/pod-deletion-cost",
    "resource.kubernetes.io/pod-claim-name",
    "resource.kubernetes.io/extended-resource-claim",
    "scheduling.k8s.io/group-name",
    "pv.kubernetes.io/bind-completed",
    "allotment.dev/simulated",
)
VALUES = (
    "",
    "x",
    "-1",
    "99999999999999999999",
    "9223372036854775807",
    "\N{ARABIC-INDIC DIGIT FIVE}",
    "1e3",
    "null",
)
LABELS = {"allotment.dev/simulated": "true", "app": "web", "job-name": "x"}
OWNERS = (
    ("v1", "ConfigMap"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("unknown.example.com/v9", "Nothing"),
    ("example.com/v1", "Widget"),
)


@dataclass(frozen=True)
class Odd:
    """An object to be created, and statuses to be written to it afterwards until one is accepted."""

    resource: Resource
    obj: Obj
    statuses: tuple[Obj, ...]


def odd_objects(resources: dict[str, Resource], dice: Random, namespace: str) -> Iterator[Odd]:
    """One for each object that the real server took; ``resources`` are by plural and group."""
    for number, (id_, base) in enumerate((*bases(), *early_bases())):
        resource = resources.get(id_)
        if resource is None or resource.plural == "namespaces":
            continue
        obj = copy.deepcopy(base)
        schema = schema_of(resource.api_version, resource.kind)
        metadata = obj["metadata"]
        metadata["name"] = f"{metadata['name']}-{number}"
        if metadata.get("namespace") == NAMESPACE:
            metadata["namespace"] = namespace
        _decorate(metadata, dice)
        for name, inner in schema.properties.items():
            if name not in ("apiVersion", "kind", "metadata", "status") and dice.random() < 0.3:
                obj[name] = mixed(obj.get(name), inner, dice)
        for name in _HOW_MANY & obj.get("spec", {}).keys():
            obj["spec"][name] = min(obj["spec"][name], _MOST)
        status = schema.properties.get("status") if resource.status else None
        tries = _TRIES if status is not None else 0
        yield Odd(resource, obj, tuple(value(status, dice, 6) for _ in range(tries) if status is not None))


def bases() -> Iterator[tuple[str, Obj]]:
    """Objects with the ids of their resources: of Kubernetes' plain kinds, then of those with devices and machines."""
    for case in cases():
        if "object" in case["created"]:
            yield _id(case["plural"], case["object"]), case["object"]
    for plural, obj in (
        ("resourceclaims", plain.claim("claim")),
        ("resourceslices", plain.resource_slice("slice", devices=2)),
        ("deviceclasses", plain.device_class("gpu.example.com")),
        ("resourceclaimtemplates", _device("ResourceClaimTemplate", {"spec": plain.claim("x")["spec"]})),
        ("devicetaintrules", _device("DeviceTaintRule", {"taint": {"key": "k", "effect": "NoExecute"}})),
        ("nodepools", _machine("karpenter.sh/v1", "NodePool", _POOL)),
        ("nodeclaims", _machine("karpenter.sh/v1", "NodeClaim", _CLAIM)),
        ("nodeoverlays", _machine("karpenter.sh/v1alpha1", "NodeOverlay", {"weight": 1, "price": "1.0"})),
        ("nodegroups", _machine("allotment.dev/v1", "NodeGroup", _GROUP)),
    ):
        yield _id(plural, obj), obj


def early_bases() -> Iterator[tuple[str, Obj]]:
    """Objects of KEP-4381's early kinds, with a slice for node ``n``, and of others that only we hold against the schema."""
    early, card = (
        "resource.k8s.io/v1alpha2",
        {"name": "c", "attributes": [{"name": "memory", "quantity": "8Gi"}]},
    )
    cards: Obj = {
        "nodeName": "n",
        "driverName": "cards.example.com",
        "partitionable": {"resourceInstances": [card]},
    }
    wanted: Obj = {
        "driverName": "cards.example.com",
        "partitionable": {"required": [{"name": "a", "selector": "true"}]},
    }
    for plural, obj in (
        ("noderesourceslices", _machine(early, "NodeResourceSlice", cards)),
        (
            "resourceclasses",
            {**_plain(early, "ResourceClass"), "driverName": "cards.example.com", "semanticParameters": True},
        ),
        ("resourceclaimparameters", {**_plain(early, "ResourceClaimParameters"), "requests": [wanted]}),
        (
            "resourceclassparameters",
            {
                **_plain(early, "ResourceClassParameters"),
                "filters": [{"driverName": "cards.example.com", "partitionable": {"selector": "true"}}],
            },
        ),
        (
            "resourcepoolstatusrequests",
            _machine("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", {"driver": "gpu.example.com"}),
        ),
        (
            "podtemplates",
            {
                **_plain("v1", "PodTemplate"),
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        ),
        (
            "ingresses",
            _machine(
                "networking.k8s.io/v1",
                "Ingress",
                {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
            ),
        ),
    ):
        yield _id(plural, obj), obj


_REFERENCE = {"group": "allotment.dev", "kind": "NodeClass", "name": "default"}
_CLAIM: Obj = {"requirements": [], "nodeClassRef": _REFERENCE}
_POOL: Obj = {"template": {"spec": _CLAIM}}
_GROUP: Obj = {"min": 0, "max": 1, "template": {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}}


def _device(kind: str, spec: Obj) -> Obj:
    return _machine("resource.k8s.io/v1", kind, spec)


def _machine(api_version: str, kind: str, spec: Obj) -> Obj:
    return {**_plain(api_version, kind), "spec": spec}


def _plain(api_version: str, kind: str) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.lower()}}


def _id(plural: str, obj: Obj) -> str:
    group = obj["apiVersion"].rpartition("/")[0]
    return f"{plural}.{group}" if group else plural


def _decorate(metadata: Obj, dice: Random) -> None:
    if dice.random() < 0.7:
        metadata["annotations"] = {name: dice.choice(VALUES) for name in dice.sample(ANNOTATIONS, 5)}
    if dice.random() < 0.5:
        metadata["labels"] = {**(metadata.get("labels") or {}), **LABELS}
    if dice.random() < 0.5:
        metadata["finalizers"] = dice.sample(
            ["example.com/hold", "orphan", "batch.kubernetes.io/job-tracking"], 2
        )
    owners: list[Obj] = [
        {"apiVersion": version, "kind": kind, "name": dice.choice("ab"), "uid": dice.choice(("u", "v"))}
        for version, kind in dice.sample(OWNERS, dice.randrange(3))
    ]
    if owners and dice.random() < 0.5:
        owners[0] |= {"controller": True, "blockOwnerDeletion": True}
    if owners:
        metadata["ownerReferences"] = owners


def mixed(base: Any, schema: Schema, dice: Random) -> Any:
    """The value with one part of it, at any depth, replaced by a random one."""
    if isinstance(base, dict) and schema.properties and dice.random() < 0.8:
        name = dice.choice([*schema.properties, *base])
        inner = schema.properties.get(name)
        return base if inner is None else {**base, name: mixed(base.get(name), inner, dice)}
    if isinstance(base, list) and base and schema.items is not None and dice.random() < 0.8:
        return [mixed(base[0], schema.items, dice), *base[1:]]
    return value(schema, dice, 3)


def value(schema: Schema, dice: Random, depth: int) -> Any:
    """A random value of a schema, of whose members about half are left out."""
    if schema.properties:
        names = [name for name in schema.properties if dice.random() < 0.5] if depth else []
        return {name: value(schema.properties[name], dice, depth - 1) for name in names}
    if schema.type == "object":
        inner = schema.additional
        return {} if inner is None or not depth else {dice.choice(WORDS[1:5]): value(inner, dice, depth - 1)}
    if schema.type == "array":
        inner = schema.items
        return (
            []
            if inner is None or not depth
            else [value(inner, dice, depth - 1) for _ in range(dice.randrange(3))]
        )
    match schema.type:
        case "string" if schema.format == "byte":
            return "eA=="
        case "string":
            return dice.choice([*schema.enum, *WORDS] if schema.enum else WORDS)
        case "integer" | "number":
            return dice.choice(NUMBERS)
        case "int-or-string":
            return dice.choice((*NUMBERS, "50%", "x%", ""))
        case "quantity":
            return dice.choice(QUANTITIES)
        case "time":
            return dice.choice(TIMES)
        case "boolean":
            return dice.random() < 0.5
    return {"a": 1}
