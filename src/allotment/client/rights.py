"""Asks the server, before a component starts, for the rights that it needs: one message instead of endless retries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from allotment.api.rights import grant
from allotment.client.client import Client
from allotment.client.form import ResourcePath

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Right:
    """One right in the terms of RBAC; ``resource`` may name a subresource after a slash."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def thing(self) -> str:
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{where} {self.name}" if self.name else where


def words(rights: Iterable[Right]) -> list[str]:
    """Rights as text, grouped by resource: ``list,watch pods``."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.thing, []).append(right.verb)
    return [f"{','.join(found)} {thing}" for thing, found in verbs.items()]


def reading(resources: Iterable[ResourcePath]) -> list[Right]:
    """The rights to follow these resources in all namespaces."""
    return [
        Right(verb, each.api_version.rpartition("/")[0], each.plural)
        for each in resources
        for verb in ("list", "watch")
    ]


def granted(lines: Iterable[str], namespace: str = "") -> list[Right]:
    """Each right in lines as ``api.rights`` has them; those that name no namespace in the one given."""
    return [
        Right(verb, group, resource, each.namespace or namespace, name)
        for each in map(grant, lines)
        for verb in each.verbs
        for group in each.groups
        for resource in each.resources
        for name in each.names or ("",)
    ]


async def missing(client: Client, rights: Iterable[Right]) -> list[Right]:
    """The rights that the client lacks. Raises the server's error if it does not answer such questions."""
    reviews = client.plain("authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def allowed(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in asked.items() if value}},
        }
        async with gate:
            answer = await reviews.create(review)
        return bool((answer.get("status") or {}).get("allowed"))

    unique = list(dict.fromkeys(rights))
    answers = await asyncio.gather(*map(allowed, unique))
    return [right for right, yes in zip(unique, answers, strict=True) if not yes]
