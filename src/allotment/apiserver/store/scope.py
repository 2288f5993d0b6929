"""What a watch covers: all of a resource, one namespace of it, or a name."""

from __future__ import annotations

from allotment.apiserver.store.record import Key

Scope = Key
"""A key whose namespace or name, or both, may be empty: then it covers every namespace, every name."""


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
    """For messages."""
    return "/".join(part for part in scope if part)
