"""Strategic merge patch: a merge patch that knows from the schema how lists merge.

A list with the patch strategy ``merge`` is merged by element: scalars as a set, objects by their merge key. All other
lists are replaced. Directives inside the patch change that:

==============================  ===========================================================================
``$patch: replace``             in a map: it replaces the map; as an element of a list: the rest replaces the list
``$patch: delete``              in a map: empties it; in an element of a list: removes the elements with its merge key
``$retainKeys: [a, b]``         of the map that it is in, only these keys stay
``$setElementOrder/x: […]``     the order of list ``x`` after the merge
``$deleteFromPrimitiveList/x``  scalars to remove from list ``x``
==============================  ===========================================================================

The order of a merged list: elements that the patch names stand in the patch's order, the others in the live one's,
and the latter are woven in before the first element of the patch that the live list has behind them.

Where Kubernetes answers a malformed patch with an internal error (500), this one is a BadRequest with its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from allotment.api.schema.schema import Schema
from allotment.api.status import BadRequest, Invalid
from allotment.apiserver.patch.value import copied, identity, shown
from allotment.apiserver.store.record import Obj

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
ELEMENT_ORDER: Final = "$setElementOrder"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList"

_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_PRIMITIVES = "invalid patch format of primitive list"
_UNKNOWN = Schema()

_Identify = Callable[[Any], Any]


def strategic_merge(obj: Obj, patch: Any, schema: Schema) -> Obj:
    """``obj`` after ``patch``, as a new object that shares what the patch leaves alone; both stay as they are.

    Raises BadRequest or Invalid for a patch that makes no sense.
    """
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a strategic merge patch is an object")
    return _merge_map(obj, copied(patch, "the patch"), schema)


def _merge_map(live: Obj, patch: Obj, schema: Schema) -> Obj:
    """``live`` with ``patch`` merged into it, which is used up."""
    if DIRECTIVE in patch:
        directive = patch.pop(DIRECTIVE)
        if directive == "replace":
            return {key: plain(value) for key, value in patch.items() if _is_plain(key, value)}
        if directive == "delete":
            return {}
        raise BadRequest(
            f"unknown patch type: {shown(directive)} in map: {shown({DIRECTIVE: directive, **patch})}"
        )
    live = live.copy()
    if RETAIN_KEYS in patch:
        _retain_keys(live, patch)
    for directive in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        _merge_ordered(live, patch, directive, schema)
    for key, value in patch.items():
        if key.startswith(DELETE_PRIMITIVES):
            _delete_primitives(live, _named(key, DELETE_PRIMITIVES, _BAD_PRIMITIVES), value)
        else:
            _merge_field(live, key, value, schema)
    return live


def _merge_field(live: Obj, key: str, value: Any, schema: Schema) -> None:
    if value is None:
        live.pop(key, None)
        return
    current = live.get(key)
    field = _field(schema, key)
    if isinstance(value, dict) and isinstance(current, dict) and "replace" not in field.patch_strategies:
        live[key] = _merge_map(current, value, field)
    elif isinstance(value, list) and isinstance(current, list):
        live[key] = _merge_list(current, value, field)
    elif isinstance(value, dict) and DIRECTIVE in value:
        live.pop(key, None)
    else:
        live[key] = plain(value)


def _field(schema: Schema, key: str) -> Schema:
    return schema.properties.get(key) or schema.additional or _UNKNOWN


def _named(directive: str, prefix: str, complaint: str) -> str:
    """The field that a directive such as ``$setElementOrder/ports`` is about."""
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise BadRequest(complaint)
    return name


def _is_plain(key: str, value: Any) -> bool:
    if value is None or key == RETAIN_KEYS or key.startswith((f"{ELEMENT_ORDER}/", f"{DELETE_PRIMITIVES}/")):
        return False
    return not (isinstance(value, dict) and DIRECTIVE in value)


def plain(value: Any) -> Any:
    """What a part of a patch adds where there was nothing: itself, without directives and nulls."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if _is_plain(key, inner)}
    if isinstance(value, list):
        return [plain(inner) for inner in value if not (isinstance(inner, dict) and DIRECTIVE in inner)]
    return value


def _retain_keys(live: Obj, patch: Obj) -> None:
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list) or not all(isinstance(key, str) for key in retained):
        raise BadRequest(_BAD_RETAIN_KEYS)
    keys = frozenset(retained)
    for key, value in patch.items():
        aside = value is None or key.startswith((ELEMENT_ORDER, DELETE_PRIMITIVES))
        if not aside and key not in keys:
            raise BadRequest(_BAD_RETAIN_KEYS)
    for key in [key for key in live if key not in keys]:
        del live[key]


def _delete_primitives(live: Obj, key: str, doomed: Any) -> None:
    if doomed is None:
        live.pop(key, None)
        return
    current = live.get(key)
    if not isinstance(doomed, list) or not isinstance(current, list):
        return
    _require_one_type(current, doomed)
    if any(isinstance(value, dict) for value in doomed):
        raise BadRequest(_BAD_PRIMITIVES)
    gone = {identity(value) for value in doomed}
    live[key] = [value for value in current if identity(value) not in gone]


# --- lists ---


def _merge_list(live: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    if "merge" not in schema.patch_strategies:
        return [plain(value) for value in patch if not (isinstance(value, dict) and DIRECTIVE in value)]
    if not live and not patch:
        return live
    if _require_one_type(live, patch) is not dict:
        merged = _unique([*live, *patch])
        return _ordered(merged, live, patch, identity, identity)
    if not schema.patch_key:
        raise BadRequest(f"cannot merge lists without merge key for {(schema.items or schema).name}")
    return _merge_objects(live, patch, schema)


def _merge_objects(live: list[Obj], patch: list[Obj], schema: Schema) -> list[Obj]:
    key_of = _by_merge_key(schema.patch_key)
    additions = [element for element in patch if DIRECTIVE not in element]
    doomed, replace = _special_elements(patch, key_of)
    if replace:
        return [plain(element) for element in additions]
    kept = [element for element in live if schema.patch_key not in element or key_of(element) not in doomed]
    merged = list(kept)
    places: dict[Any, int] = {}
    for place, element in enumerate(kept):
        if schema.patch_key in element:
            places.setdefault(key_of(element), place)
    for element in additions:
        key = key_of(element)
        if key in places:
            merged[places[key]] = _merge_map(merged[places[key]], element, schema.items or _UNKNOWN)
        else:
            places[key] = len(merged)
            merged.append(plain(element))
    return _ordered(merged, kept, additions, key_of, _by_merge_key(schema.patch_key, stored=True))


def _special_elements(patch: list[Obj], key_of: _Identify) -> tuple[set[Any], bool]:
    """The merge keys in elements with ``$patch: delete``, and whether the patch replaces the list."""
    doomed, replace = set(), False
    for element in patch:
        directive = element.get(DIRECTIVE, _UNKNOWN)
        if directive is _UNKNOWN:
            continue
        if directive == "delete":
            doomed.add(key_of(element))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise BadRequest("merging lists cannot yet be specified in the patch")
        else:
            raise BadRequest(f"unknown patch type: {shown(directive)} in map: {shown(element)}")
    return doomed, replace


def _merge_ordered(live: Obj, patch: Obj, directive: str, schema: Schema) -> None:
    """Merges the list that a ``$setElementOrder`` is about, and puts it into that order."""
    order = patch.pop(directive)
    name = _named(directive, ELEMENT_ORDER, _BAD_ORDER)
    if not isinstance(order, list):
        raise BadRequest(_BAD_ORDER)
    current, change = live.get(name), patch.pop(name, None)
    if not isinstance(current, list | None) or not isinstance(change, list | None):
        raise BadRequest(_BAD_ORDER)
    field = _field(schema, name)
    _require_one_type(current or [], change or [])
    key_of: _Identify = identity
    live_key_of: _Identify = identity
    if field.patch_key:
        key_of, live_key_of = _by_merge_key(field.patch_key), _by_merge_key(field.patch_key, stored=True)
    _require_order(change or [], order, key_of)
    if change is None:
        merged = current or []
    elif current is None:
        merged = plain(change)
    else:
        merged = _merge_list(list(current), change, field)
    if merged or current is not None or change is not None:
        live[name] = _ordered(merged, current or [], order, key_of, live_key_of)


def _require_order(change: list[Any], order: list[Any], key_of: _Identify) -> None:
    """The patch's elements must all be in ``$setElementOrder``, in the same order."""
    if not change or not order:
        return
    expected = iter([_scalar(key_of, element) for element in order])
    for element in change:
        if isinstance(element, dict) and DIRECTIVE in element:
            continue
        if _scalar(key_of, element) not in expected:  # goes on from where the last one was found
            raise BadRequest(
                f"The order in patch list:\n{shown(change)}\n doesn't match {ELEMENT_ORDER} list:\n{shown(order)}\n"
            )


def _ordered(
    merged: Iterable[Any],
    live: Sequence[Any],
    order: Sequence[Any],
    key_of: _Identify,
    live_key_of: _Identify,
) -> list[Any]:
    """``merged`` with the elements in ``order`` first sorted by it, then the others woven in as ``live`` has them."""
    wanted = _places(order, key_of)
    lived = _places(live, live_key_of)
    keyed = [(_scalar(live_key_of, element), element) for element in merged]
    named = sorted((pair for pair in keyed if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [pair for pair in keyed if pair[0] not in wanted]
    others.sort(key=lambda pair: lived.get(pair[0], len(lived)))
    result: list[Any] = []
    waiting = iter(others)
    other = next(waiting, None)
    for key, element in named:
        while other is not None and lived.get(other[0], len(lived)) < lived.get(key, -1):
            result.append(other[1])
            other = next(waiting, None)
        result.append(element)
    if other is not None:
        result.append(other[1])
    result.extend(element for _, element in waiting)
    return result


def _places(elements: Sequence[Any], key_of: _Identify) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, element in enumerate(elements):
        places.setdefault(_scalar(key_of, element), place)
    return places


def _unique(values: list[Any]) -> list[Any]:
    return list({_scalar(identity, value): value for value in values}.values())


def _scalar(key_of: _Identify, element: Any) -> Any:
    try:
        return key_of(element)
    except TypeError:
        raise BadRequest(f"expected a scalar, but received {shown(element)}") from None


def _by_merge_key(merge_key: str, *, stored: bool = False) -> _Identify:
    """The key of an element; what is ``stored`` may lack it, and is then like no element of a patch."""

    def key_of(element: Any) -> Any:
        if not isinstance(element, dict):
            raise BadRequest(f"expected a map, but received {shown(element)}")
        if merge_key not in element:
            if stored:
                return _NO_KEY
            raise BadRequest(f"map: {shown(element)} does not contain declared merge key: {merge_key}")
        try:
            return identity(element[merge_key])
        except TypeError:
            raise BadRequest(f"the merge key {merge_key} of {shown(element)} is no scalar") from None

    return key_of


_NO_KEY = object()


def _require_one_type(*lists: list[Any]) -> type | None:
    """The type of all elements; None if there are none."""
    types = {type(element) for elements in lists for element in elements}
    if list in types:
        raise Invalid("lists of lists are not supported")
    if len(types) > 1 or type(None) in types:
        raise BadRequest(f"list element types are not identical: {shown(list(lists))}")
    return types.pop() if types else None
