"""The other objects of its namespace that a pod needs, which its node must therefore be able to read."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.apiserver.store.record import Obj

CLAIMS = "resourceclaims.resource.k8s.io"


def references(pod: Obj) -> Iterator[tuple[str, str]]:
    """Resource, with its group, and name of each object."""
    spec = pod.get("spec") or {}
    for resource, name in (*_from_spec(spec), *_from_volumes(spec), *_claims(pod)):
        if name:
            yield resource, name


def _from_spec(spec: Obj) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName", "")
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name", "")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            for source in container.get("envFrom") or ():
                yield from _named(source, configMapRef="configmaps", secretRef="secrets")
            for variable in container.get("env") or ():
                yield from _named(
                    variable.get("valueFrom") or {}, configMapKeyRef="configmaps", secretKeyRef="secrets"
                )


def _from_volumes(spec: Obj) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        yield "secrets", (volume.get("secret") or {}).get("secretName", "")
        yield from _named(volume, configMap="configmaps")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _named(source, configMap="configmaps", secret="secrets")


def _claims(pod: Obj) -> Iterator[tuple[str, str]]:
    """Claims that a pod names itself, or that were made for it from templates."""
    status = pod.get("status") or {}
    for claim in (pod.get("spec") or {}).get("resourceClaims") or ():
        yield CLAIMS, claim.get("resourceClaimName", "")
        yield CLAIMS, (claim.get("source") or {}).get("resourceClaimName", "")
    for made in status.get("resourceClaimStatuses") or ():
        yield CLAIMS, made.get("resourceClaimName", "")
    extended = status.get("extendedResourceClaimStatus") or {}
    yield CLAIMS, extended.get("resourceClaimName", "")


def _named(source: Obj, **kinds: str) -> Iterator[tuple[str, str]]:
    """For each of the fields that ``source`` has, the resource that the field refers to and the name in it."""
    for field, resource in kinds.items():
        yield resource, (source.get(field) or {}).get("name", "")
