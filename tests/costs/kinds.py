"""The smallest object of each kind that a server accepts, for hostile ones to grow from."""

from __future__ import annotations

from typing import Any

from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from tests.costs.hostile import sample

Obj = dict[str, Any]

NAME = "a"
_POD = {"containers": [{"name": "main", "image": "example.com/main:1"}]}
_LABELS = {"app": "a"}
_WORKLOAD = {
    "selector": {"matchLabels": _LABELS},
    "template": {"metadata": {"labels": _LABELS}, "spec": _POD},
}
_CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
_ALPHA_CLAIM = {"resourceClassName": "gpu.example.com"}
_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
_SLICE = {
    "driver": "gpu.example.com",
    "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
    "allNodes": True,
    "devices": [{"name": "gpu-0"}],
}
WIDGET_SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]*$"}},
                "chosen": {
                    "type": "array",
                    "items": {"type": "string", "enum": [f"a{n}" for n in range(500)]},
                },
                "matched": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "anyOf": [{"pattern": f"(.{{0,{n}}}c)"} for n in range(100, 900, 100)],
                        "format": "email",
                    },
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "size": {"type": "integer", "default": 1, "minimum": 1},
                            "note": {
                                "type": "object",
                                "default": {"text": "x" * 1000},
                                "properties": {"text": {"type": "string"}},
                            },
                        },
                    },
                },
                "options": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 100}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {
                    "type": "array",
                    "items": {
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                        "x-kubernetes-int-or-string": True,
                    },
                },
                "checked": {
                    "type": "array",
                    "maxItems": 100,
                    "items": {"type": "string", "maxLength": 64},
                    "x-kubernetes-validations": [{"rule": "self.all(x, x.size() < 60)"}],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"words": {"type": "array", "items": {"type": "string"}}},
        },
    },
}
WIDGETS: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}

_CONTENT: dict[str, Obj] = {
    "Pod": {"spec": _POD},
    "Deployment": {"spec": _WORKLOAD},
    "ReplicaSet": {"spec": _WORKLOAD},
    "StatefulSet": {"spec": {**_WORKLOAD, "serviceName": "a"}},
    "DaemonSet": {"spec": _WORKLOAD},
    "Job": {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}},
    "CronJob": {
        "spec": {
            "schedule": "0 0 * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}},
        }
    },
    "ResourceClaim": {"spec": _CLAIM},
    "ResourceClaimTemplate": {"spec": {"spec": _CLAIM}},
    "ResourceSlice": {"spec": _SLICE},
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "Role": {"rules": [_RULE]},
    "ClusterRole": {"rules": [_RULE]},
    "RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "ClusterRoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "Service": {"spec": {"selector": _LABELS, "ports": [{"name": "http", "port": 80}]}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "PriorityClass": {"value": 10},
    "Event": {
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "Ok",
        "type": "Normal",
        "message": "m",
    },
    "StorageClass": {"provisioner": "example.com/disk"},
    "Secret": {"data": {"a": "YQ=="}},
    "ConfigMap": {"data": {"a": "b"}},
    "PodDisruptionBudget": {"spec": {"selector": {"matchLabels": _LABELS}, "minAvailable": 1}},
    "ResourceQuota": {"spec": {"hard": {"pods": "10"}}},
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}},
    "Node": {"status": {"capacity": {"cpu": "4"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/a"},
        }
    },
    "DeviceTaintRule": {
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com"},
            "taint": {"key": "a", "effect": "NoSchedule"},
        }
    },
    "Widget": {"spec": {"names": ["a"]}},
}
_OF_VERSION: dict[tuple[str, str], Obj] = {
    ("v1alpha2", "ResourceClaim"): {"spec": _ALPHA_CLAIM},
    ("v1alpha2", "ResourceClaimTemplate"): {"spec": {"spec": _ALPHA_CLAIM}},
}


def smallest(served: ServedResource) -> Obj:
    """A small object of the kind; accepted, where somebody has taken care of the kind above."""
    schema, kind = served.schema, served.resource.kind
    content = _OF_VERSION.get((served.version, kind)) or _CONTENT.get(kind)
    made: Obj = {"apiVersion": served.api_version, "kind": kind, "metadata": {"name": NAME}}
    if kind == "CustomResourceDefinition":
        made |= {"metadata": {"name": "gadgets.example.com"}, "spec": _gadgets()}
    elif content is not None:
        made |= content
    else:
        for name, field in schema.properties.items():
            if name not in ("apiVersion", "kind", "metadata", "status") and field.type in (
                "object",
                "string",
            ):
                made[name] = sample(field, 0)
    return made


def _gadgets() -> Obj:
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {**WIDGETS["spec"], "names": names}


def path_of(served: ServedResource) -> str:
    root = f"/apis/{served.api_version}" if served.group else f"/api/{served.version}"
    where = "/namespaces/default" if served.resource.namespaced else ""
    return f"{root}{where}/{served.resource.plural}"


def kinds(catalogue: ResourceCatalogue) -> list[ServedResource]:
    """Everything that can be created, in each of its versions."""
    found = [
        each
        for group, versions in catalogue.groups().items()
        for version in versions
        for each in catalogue.of_version(group, version)
        if isinstance(each, ServedResource) and "create" in each.resource.verbs
    ]
    return sorted(found, key=lambda each: (each.group, each.resource.kind, each.version))
