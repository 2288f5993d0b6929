"""The scope of a watch: all of a resource, one namespace of it, or a name."""

from __future__ import annotations

from allotment.apiserver.store.record import Key

Scope = Key
"""A key in which an empty namespace covers every namespace, and an empty name every name."""


def scopes(key: Key) -> tuple[tuple[str, str, str], ...]:
    """Every scope that covers a key, each once: plain tuples, which are found under the scopes that equal them."""
    resource, namespace, name = key
    if not namespace:
        return (key, (resource, "", ""))
    return (key, (resource, namespace, ""), (resource, "", ""), (resource, "", name))


def covers(scope: Scope, key: Key) -> bool:
    return (
        scope.resource == key.resource
        and scope.namespace in ("", key.namespace)
        and scope.name in ("", key.name)
    )


def spelled(scope: Scope) -> str:
    """The scope as text, for messages."""
    return "/".join(part for part in scope if part)
