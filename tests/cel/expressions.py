"""Random expressions about the device of :mod:`tests.cel.devices`: mostly well-typed, often failing.

Sorts: ``b`` bool, ``i`` int, ``s`` string, ``q`` quantity, ``v`` version, ``I`` and ``S`` lists, ``M`` map of
strings, ``O`` optional string. A template's ``{b}`` is a smaller expression of that sort. Iteration variables
are ``x`` (ints) and ``t`` (strings); used where nothing binds them they make an expression that does not compile,
which is a case too.
"""

from hypothesis import strategies as st

ATTRIBUTE = 'device.attributes["dra.example.com"]'
NAMES = ("bool", "int", "string", "version", "missing", "ints", "strings", "empty")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

LEAVES = {
    "b": ["true", "false", "device.allowMultipleAllocations", f"has({ATTRIBUTE}.int)", f"has({ATTRIBUTE}.missing)",
          f'"int" in {ATTRIBUTE}', '"zzz" in device.attributes', f"{ATTRIBUTE}.bool", f"{ATTRIBUTE}.missing"],
    "i": ["0", "1", "-1", "10", "x", 'int("7")', "dyn(5)", f"{ATTRIBUTE}.int", f"{ATTRIBUTE}.string"],
    "s": ['"a"', '""', '"fish"', '"hello world"', "t", "device.driver", 'dyn("q")', f"{ATTRIBUTE}.string", '"1.0.0"'],
    "q": ['quantity("1Ki")', 'quantity("bad")', 'device.capacity["dra.example.com"].mem',
          'device.capacity["dra.example.com"].missing', 'device.capacity["dra.example.com"].cores.add(quantity("1"))'],
    "v": ['semver("1.0.0")', 'semver("x")', f"{ATTRIBUTE}.version", f"{ATTRIBUTE}.versions[0]"],
    "I": ["[1, 2, 3]", "[]", f"{ATTRIBUTE}.ints", f"[{ATTRIBUTE}.int, 2]"],
    "S": ['["a", "b"]', "[]", f"{ATTRIBUTE}.strings", '[device.driver, "q"]'],
    "M": ['{"a": "x", "b": "yy"}', "{}", '{"a": device.driver}'],
    "O": ["optional.none()", f"{ATTRIBUTE}.?string", f"{ATTRIBUTE}.?missing", 'device.attributes[?"nope"].a'],
}  # fmt: skip
TEMPLATES = {
    "b": ["({b} && {b})", "({b} || {b})", "!({b})", "({b} ? {b} : {b})", "({q} == {q})", "{s}.startsWith({s})",
          "{s}.contains({s})", '{s}.matches("fi.h")', "{I}.all(x, {b})", "{I}.exists(x, {b})", "{S}.exists_one(t, {b})",
          "({i} in {I})", "({s} in {S})", "({s} in {M})", "{q}.isGreaterThan({q})", "{v}.isLessThan({v})",
          "({I} == {I})", "cel.bind(z, {b}, z || {b})", "{S}.all(k, t, {b})", "has({M}.a)", "{O}.hasValue()",
          f"({ATTRIBUTE}.strings == {{S}})", "(type({i}) == int)", "(double({i}) < 1.5)", '(bytes({s}) == b"a")',
          *(f"({{i}} {c} {{i}})" for c in COMPARISONS), *(f"({{s}} {c} {{s}})" for c in COMPARISONS)],
    "i": ["({i} + {i})", "({i} - {i})", "({i} * {i})", "({i} / {i})", "({i} % {i})", "-({i})", "size({s})", "{S}.size()",
          "({b} ? {i} : {i})", "{I}[{i}]", "{I}.sum()", "{s}.indexOf({s})", "{q}.compareTo({q})", "int({s})"],
    "s": ["({s} + {s})", "{s}.lowerAscii()", "{s}.replace({s}, {s})", "{s}.substring({i})", "({b} ? {s} : {s})",
          "{S}.join({s})", "string({i})", '{s}.find("[a-z]+")', "{S}[{i}]", "{O}.orValue({s})", "{M}.a",
          "cel.bind(t, {s}, t + t)", '"%s-%d".format([{s}, {i}])'],
    "q": ["{q}.add({q})", "{q}.sub({i})", "quantity({s})"],
    "v": ["semver({s})"],
    "I": ["({I} + {I})", "{I}.map(x, {i})", "{I}.filter(x, {b})", "[{i}, {i}]", "{I}.transformList(k, x, {i})",
          "{I}.map(x, {b}, {i})", "{I}.reverse()"],
    "S": ["{s}.split({s})", "{S}.map(t, {s})", "{S}.filter(t, {b})", "[{s}, {s}]", "{M}.map(t, {s})", "[?{O}, {s}]"],
    "M": ['{{"a": {s}, "b": {s}}}', "{M}.transformMap(k, t, {s})", '{{?"a": {O}}}'],
    "O": ["optional.of({s})", "{M}.?a", "{S}[?{i}]", "{O}.or({O})", "optional.of({s}).optMap(t, {s})"],
}  # fmt: skip


def of(sort: str, depth: int) -> st.SearchStrategy[str]:
    """Expressions of a sort that nest no deeper than ``depth``."""
    leaf = st.sampled_from(LEAVES[sort])
    if depth == 0:
        return leaf
    return st.deferred(
        lambda: leaf | st.sampled_from(TEMPLATES[sort]).flatmap(lambda text: _filled(text, depth - 1))
    )


def _filled(template: str, depth: int) -> st.SearchStrategy[str]:
    pieces: list[st.SearchStrategy[str]] = []
    text = ""
    at = 0
    while at < len(template):
        if template[at : at + 2] in ("{{", "}}"):
            text, at = text + template[at], at + 2
        elif template[at] == "{" and template[at + 2] == "}":
            pieces += (st.just(text), of(template[at + 1], depth))
            text, at = "", at + 3
        else:
            text, at = text + template[at], at + 1
    return st.tuples(*pieces, st.just(text)).map("".join)


selectors = of("b", 3)
