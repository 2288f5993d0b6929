"""The served resources in each of their versions, by the group, version and plural that a path names.

The catalogue changes while the server runs, as CustomResourceDefinitions come and go. ``changes`` counts the changes, so
that derived documents (discovery, OpenAPI) can be rebuilt when needed.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType

from allotment.api.schema.conform import Conformed, conform
from allotment.api.schema.schema import Schema, schema_of
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.review import Review
from allotment.apiserver.store.record import Key, Obj


@dataclass(frozen=True, eq=False)
class ServedResource:
    """A resource in one of its versions. In the ``hub`` version, objects are sent as they are stored."""

    resource: Resource
    group: str
    version: str
    hub: bool
    to_hub: Callable[[Obj], Obj]
    from_hub: Callable[[Obj], Obj]
    deprecated: str = ""

    @property
    def warning(self) -> str:
        """A warning for users of this version, or empty."""
        if not self.deprecated or self.resource.schemas:  # custom kinds choose their words
            return self.deprecated
        return f"{self.api_version} {self.resource.kind} is {self.deprecated}"

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def schema(self) -> Schema:
        own = self.resource.schemas.get(self.version)
        return own if own is not None else schema_of(self.api_version, self.resource.kind)

    def conform(self, obj: Obj, stored: Obj | None = None) -> Conformed:
        """Brings a body into this form. Raises BadRequest if that is impossible.

        ``stored`` is a stored object in this form: parts that the body shares with it were checked when it was stored.
        """
        own = self.resource.readers.get(self.version)
        if own is not None:
            return own(obj)
        return conform(self.schema, obj, stored if self.hub else None)

    @property
    def id(self) -> str:
        """The plural with the requested group."""
        return f"{self.resource.plural}.{self.group}" if self.group else self.resource.plural

    def convert(self, obj: Obj, api_version: str) -> tuple[Obj, Schema] | None:
        """Converts an object of any form of this resource; returns it with its schema, or None if there is no such form."""
        forms = {form.api_version: form for form in _forms(self.resource)}
        if (wanted := forms.get(api_version)) is None:
            return None
        source = forms.get(obj.get("apiVersion", ""), self)
        return wanted.from_hub(source.to_hub(obj)), wanted.schema

    def key(self, namespace: str, name: str) -> Key:
        return Key(self.resource.id, namespace if self.resource.namespaced else "", name)


class ResourceCatalogue:
    """The served resources and reviews."""

    def __init__(self, resources: Iterable[Resource] = (), reviews: Iterable[Review] = ()) -> None:
        self._served: dict[tuple[str, str, str], ServedResource | Review] = {}
        self._resources: dict[str, Resource] = {}
        self.changes = 0
        for resource in resources:
            self.add(resource)
        for review in reviews:
            self.add_review(review)

    def add(self, resource: Resource) -> None:
        """Serves a resource, replacing one with the same group and plural."""
        self._forget(resource.id)
        self._resources[resource.id] = resource
        for served in _forms(resource):
            self._served[served.group, served.version, resource.plural] = served
        self.changes += 1

    def add_review(self, review: Review) -> None:
        self._served[review.group, review.version, review.plural] = review
        self.changes += 1

    def remove(self, resource_id: str) -> None:
        """Stops serving a resource. Its stored objects stay."""
        self._forget(resource_id)
        self.changes += 1

    def find(self, group: str, version: str, plural: str) -> ServedResource | Review | None:
        return self._served.get((group, version, plural))

    def resource(self, resource_id: str) -> Resource | None:
        """A resource by the plural with its group, which is also the store's key."""
        return self._resources.get(resource_id)

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """The resource for an apiVersion and kind, as in owner references."""
        for served in self._served.values():
            if isinstance(served, ServedResource) and (served.api_version, served.resource.kind) == (
                api_version,
                kind,
            ):
                return served
        return None

    @property
    def resources(self) -> tuple[Resource, ...]:
        return tuple(self._resources.values())

    @property
    def reviews(self) -> tuple[Review, ...]:
        return tuple(served for served in self._served.values() if isinstance(served, Review))

    def hub(self, resource: Resource) -> ServedResource:
        """A resource in the version in which it is stored, whether or not that version is served."""
        found = self._served.get((resource.group, resource.version, resource.plural))
        return found if isinstance(found, ServedResource) and found.hub else _hub(resource)

    def groups(self) -> dict[str, list[str]]:
        """Each group with its versions, the preferred one first. The core group has an empty name."""
        versions: dict[str, set[str]] = {}
        for group, version, _ in self._served:
            versions.setdefault(group, set()).add(version)
        return {group: sorted(versions[group], key=version_rank) for group in sorted(versions)}

    def of_version(self, group: str, version: str) -> list[ServedResource | Review]:
        """The resources that a group serves in one version, by plural."""
        found = [(key[2], served) for key, served in self._served.items() if key[:2] == (group, version)]
        return [served for _, served in sorted(found, key=lambda pair: pair[0])]

    def _forget(self, resource_id: str) -> None:
        self._resources.pop(resource_id, None)
        for key, served in list(self._served.items()):
            if isinstance(served, ServedResource) and served.resource.id == resource_id:
                del self._served[key]


def found_in(package: ModuleType) -> Iterator[Resource]:
    """The resources that the modules of a package define."""
    for module in pkgutil.iter_modules(package.__path__):
        found = importlib.import_module(f"{package.__name__}.{module.name}")
        yield from getattr(found, "RESOURCES", ())


_VERSION = re.compile(r"v([0-9]{1,9})(?:(alpha|beta)([0-9]{1,9}))?")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """For sorting: stable before beta before alpha, newer before older, anything else last by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)


def _forms(resource: Resource) -> Iterator[ServedResource]:
    if resource.hub_served:
        yield _hub(resource)
    for form in resource.versions:
        group = resource.group if form.group is None else form.group
        api_version = f"{group}/{form.version}" if group else form.version
        to_hub = form.to_hub or _renamed(resource.api_version)
        from_hub = form.from_hub or _renamed(api_version)
        own = replace(resource, **form.own) if form.own else resource
        yield ServedResource(own, group, form.version, False, to_hub, from_hub, form.deprecated)


def _hub(resource: Resource) -> ServedResource:
    return ServedResource(resource, resource.group, resource.version, True, _itself, _itself)


def _itself(obj: Obj) -> Obj:
    return obj


def _renamed(api_version: str) -> Callable[[Obj], Obj]:
    return lambda obj: {**obj, "apiVersion": api_version}
