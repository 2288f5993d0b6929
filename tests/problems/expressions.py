"""Random CEL expressions and devices to ask them about, in the form of ``allot cel --ndjson``.

A grammar of templates: a hole ``{int}`` is filled with an expression of that type, as deep as the budget allows, then
with a leaf. Now and then a hole gets an expression of a wrong type, so that compile errors turn up as well. ``attr``
is an attribute of a device, whose type nobody knows before it runs. Maps have one entry: Go visits several in random
order, and a fold that ends early then costs now more, now less.
"""

import random
import re
from typing import Any

DRIVER = "gpu.example.com"
HOLE = re.compile(r"\{(\w+)\}")

# fmt: off
LEAVES: dict[str, tuple[str, ...]] = {
    "bool": ("true", "false", "device.allowMultipleAllocations", '"model" in device.attributes["gpu.example.com"]',
             'has(device.attributes["gpu.example.com"].numa)', 'device.driver == "gpu.example.com"',
             '"zzz" in device.attributes', "has(device.attributes.zzz)"),
    "int": ("0", "1", "2", "-3", "7", "9223372036854775807", "size(device.driver)"),
    "uint": ("0u", "3u", "18446744073709551615u"),
    "double": ("0.0", "1.5", "-2.25", "1e3"),
    "string": ('""', '"a"', '"a100"', '"A100-x"', '"1.2.3"', '"10Gi"', '"héé☺"', "device.driver", '"a,b,c"', "r'\\d+'"),
    "ints": ("[1, 2, 3]", "[0]", "[1, 1]"),
    "strings": ('["a", "b"]', '["a100", "h100"]', '"a,b,c".split(",")'),
    "bools": ("[true, false]", "[true]"),
    "quantity": ('quantity("10Gi")', 'quantity("500m")', 'quantity("3")', 'device.capacity["gpu.example.com"].memory'),
    "semver": ('semver("1.2.3")', 'semver("2.0.0-rc.1")', 'semver("v1.0", true)'),
    "map": ('{"a": 1}', '{"b": 0}'),
    "attr": ('device.attributes["gpu.example.com"].model', 'device.attributes["gpu.example.com"].numa',
             'device.attributes["gpu.example.com"].healthy', 'device.attributes["gpu.example.com"].version',
             'device.attributes["gpu.example.com"].links', 'device.attributes["gpu.example.com"].names',
             'device.attributes["common.example.com"].root', 'device.attributes["gpu.example.com"].missing',
             'device.attributes["gpu.example.com"]["numa"]', 'device.attributes.zzz.a'),
    "duration": ('duration("1h")', 'duration("90s")'),
    "timestamp": ('timestamp("2024-02-29T12:30:00Z")',),
    "ip": ('ip("10.0.0.1")', 'ip("::1")'),
    "cidr": ('cidr("10.0.0.0/8")',),
    "url": ('url("https://example.com:80/a/b?q=1")',),
    "optint": ("optional.of(1)", "optional.none()", '{"a": 1}[?"a"]', '{"a": 1}.?b'),
    "bytes": ('b"abc"', 'bytes("ü")'),
    "dyn": ("dyn(1)", 'dyn("a")', "dyn(true)", "dyn([1])"),
}
TEMPLATES: dict[str, tuple[str, ...]] = {
    "bool": (
        "{bool} && {bool}", "{bool} || {bool}", "!{bool}", "{bool} ? {bool} : {bool}", "{int} == {int}", "{int} < {int}",
        "{int} >= {int}", "{double} < {int}", "dyn({uint}) != {int}", "{uint} > {int}", "{string} == {string}", "{string} != {string}",
        "{string} < {string}", "{string}.startsWith({string})", "{string}.endsWith({string})", "{string}.contains({string})",
        "{string}.matches({string})", '{string}.matches("^[a-z]+[0-9]*$")', "{int} in {ints}", "{string} in {strings}",
        "{ints} == {ints}", "{ints}.all(i, i < {int})", "{ints}.exists(i, i == {int})", "{ints}.exists_one(i, i > {int})",
        "{strings}.exists(s, s.startsWith({string}))", "{strings}.all(s, s.size() > {int})", "{ints}.isSorted()",
        "{bools}.all(b, b)", "{quantity}.isGreaterThan({quantity})", "{quantity}.isLessThan({quantity})",
        "{quantity} == {quantity}", "{quantity}.isInteger()", "isQuantity({string})", "{semver}.isGreaterThan({semver})",
        "{semver}.isLessThan({semver})", "{semver} == {semver}", "isSemver({string})", "isSemver({string}, {bool})",
        "{attr} == {string}", "{attr} == {int}", "{attr} == {bool}", "{attr} > {int}", "{attr}", "{attr} == {attr}",
        "{attr}.isGreaterThan({semver})", "{attr}.exists(x, x == {int})", "{int} in {attr}", "{attr}.startsWith({string})",
        "{attr}.size() > {int}", "{attr}.includes({int})", "type({attr}) == int", "sets.contains({ints}, {ints})",
        "sets.intersects({strings}, {strings})", "sets.equivalent({ints}, {ints})", "{string} in {map}", "has({map}.a)",
        "{map}.all(k, v, v < {int})", "{map}.exists(k, k == {string})", "{ints}.exists(i, v, i < v)",
        "{duration} < {duration}", "{timestamp} - {duration} < {timestamp}", "isIP({string})", "{ip}.isLoopback()",
        "{ip} == {ip}", "{cidr}.containsIP({ip})", "isCIDR({string})", "isURL({string})", "{optint}.hasValue()",
        "{bytes} == {bytes}", "cel.bind(v, {int}, v > {int} && v < {int})", "cel.bind(s, {string}, s == s)", "{dyn} == {int}",
        "{dyn}", "ip.isCanonical({string})", 'format.named("dns1123Label").value().validate({string}).hasValue()',
        '[[{int}]].exists(a, a.exists(b, b == {int}))', "{string} in device.attributes", "dyn({int}) == {double}",
        'cel.bind(dra, device.attributes["gpu.example.com"], dra.?numa.orValue(0) > {int} || {bool})',
    ),
    "int": (
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} / {int}", "{int} % {int}", "-{int}", "size({string})",
        "{strings}.size()", "{ints}[{int}]", "{map}[{string}]", "{string}.indexOf({string})", "{string}.lastIndexOf({string})",
        "{ints}.sum()", "{ints}.min()", "{ints}.max()", "{ints}.indexOf({int})", "{quantity}.compareTo({quantity})",
        "{semver}.compareTo({semver})", "{semver}.major()", "{semver}.minor()", "{quantity}.asInteger()", "sign({quantity})",
        "int({string})", "int({double})", "int({uint})", "{optint}.orValue({int})", "{optint}.value()",
        'device.attributes["gpu.example.com"].?numa.orValue({int})', "{bool} ? {int} : {int}", "{duration}.getSeconds()",
        "{timestamp}.getFullYear()", "{timestamp}.getDayOfWeek()", "{ip}.family()", "{cidr}.prefixLength()", "{bytes}.size()",
        "cel.bind(v, {int}, v + v)", "{ints}.map(i, i * 2).sum()", "{string}.find(\"[0-9]+\") == \"\" ? 0 : 1",
    ),
    "uint": ("{uint} + {uint}", "uint({int})", "{uint} * {uint}", "{uint} % {uint}"),
    "double": ("{double} + {double}", "{double} * {double}", "{double} / {double}", "double({int})", "double({string})",
               "{quantity}.asApproximateFloat()"),
    "string": (
        "{string} + {string}", "{string}.lowerAscii()", "{string}.upperAscii()", "{string}.trim()",
        "{string}.replace({string}, {string})", "{string}.replace({string}, {string}, {int})", "{string}.substring({int})",
        "{string}.substring({int}, {int})", "{string}.charAt({int})", "{strings}.join({string})", "{strings}[{int}]",
        "string({int})", "string({double})", "string({bool})", "string({bytes})", "{bool} ? {string} : {string}",
        "{string}.find({string})", '{string}.find("[a-z]+")', '"%s-%d".format([{string}, {int}])', '"%.2f".format([{double}])',
        "{url}.getHost()", "{url}.getScheme()", "string({ip})", "strings.quote({string})", "string({duration})",
        'device.attributes["gpu.example.com"].?model.orValue({string})', "{strings}.min()", "string({timestamp})",
    ),
    "ints": ("{ints} + {ints}", "{ints}.map(i, i + {int})", "{ints}.filter(i, i > {int})", "{ints}.slice(0, {int})",
             "{ints}.distinct()", "{ints}.sort()", "{ints}.reverse()", "lists.range({int})", "{ints}.map(i, i > {int}, i)",
             "[{int}, {int}]", "[[{int}], [{int}]].flatten()", "{strings}.map(s, s.size())", "{ints}.transformList(i, v, i + v)"),
    "strings": ("{strings} + {strings}", "{string}.split({string})", '{string}.split("")', "{string}.split({string}, {int})",
                "{strings}.filter(s, s != {string})", '{string}.findAll("[a-z]")', "[{string}, {string}]",
                "{strings}.map(s, s + {string})", "{strings}.distinct()", "{strings}.sort()", "{map}.map(k, k)"),
    "bools": ("[{bool}, {bool}]", "{ints}.map(i, i > {int})"),
    "quantity": ("{quantity}.add({quantity})", "{quantity}.sub({quantity})", "{quantity}.add({int})", "quantity({string})"),
    "semver": ("semver({string})", "semver({string}, {bool})"),
    "map": ('{"a": {int}}', "{ints}.transformMap(i, v, v > {int}, v).size() > 0 ? {map} : {map}"),
    "attr": ("{bool} ? {attr} : {attr}",),
    "duration": ("{duration} + {duration}", "duration({string})"),
    "timestamp": ("{timestamp} + {duration}", "timestamp({string})"),
    "ip": ("ip({string})", "{cidr}.ip()"),
    "cidr": ("{cidr}.masked()", "cidr({string})"),
    "url": ("url({string})",),
    "optint": ("optional.of({int})", "{optint}.or({optint})", "{map}[?{string}]", "{optint}.optMap(x, x + {int})", "{ints}.first()"),
    "bytes": ("bytes({string})", "{bytes} + {bytes}"),
    "dyn": ("dyn({int})", "dyn({string})", "{bool} ? dyn({int}) : dyn({string})"),
}
# fmt: on
PLAIN = (
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "ints",
    "strings",
    "bools",
    "map",
    "duration",
    "timestamp",
    "bytes",
    "dyn",
)
DERIVED = ("int", "string", "bool", "semver", "ints", "strings", "attr", "double", "map", "bools")


def random_expression(rng: random.Random, kind: str = "bool", depth: int = 3) -> str:
    """An expression that is mostly of the type ``kind``."""
    if rng.random() < 0.01:
        kind = rng.choice(list(LEAVES))
    options = LEAVES[kind] if depth <= 0 or rng.random() < 0.12 else TEMPLATES[kind]
    template = rng.choice(options)

    def fill(hole: re.Match[str]) -> str:
        inner = random_expression(rng, hole[1], depth - 1 - rng.randrange(2))
        return inner if re.fullmatch(r"[\w.]+|\"[^\"]*\"|\[[^\[\]]*\]", inner) else f"({inner})"

    if options is LEAVES[kind]:
        return template
    return HOLE.sub(fill, template)


def random_device(rng: random.Random) -> dict[str, Any]:
    """Attributes and capacity in every type; each may be missing."""
    attributes: dict[str, Any] = {
        "model": {"string": rng.choice(["a100", "h100", ""])},
        "numa": {"int": rng.choice([0, 1, 2, -3])},
        "healthy": {"bool": rng.random() < 0.5},
        "version": {"version": rng.choice(["1.2.3", "2.0.0-rc.1", "0.1.0"])},
        "links": {"ints": rng.sample([0, 1, 2, 7], rng.randint(1, 3))},
        "names": {"strings": rng.sample(["a", "b", "a100"], rng.randint(1, 3))},
        "common.example.com/root": {"string": "pci-0"},
        "gpu.example.com/qualified": {"bools": [True, False]},
        "versions": {"versions": ["1.0.0", "2.0.0"]},
    }
    kept = {name: value for name, value in attributes.items() if rng.random() < 0.85}
    if rng.random() < 0.03:
        kept["model"] = rng.choice([{"int": 5}, {"version": "bad"}, {}, {"strings": []}])
    capacity = {
        "memory": {"value": rng.choice(["10Gi", "80Gi", "1500m", "0"])},
        "other.example.com/x": {"value": "1k"},
    }
    device: dict[str, Any] = {"driver": DRIVER, "attributes": kept}
    if rng.random() < 0.9:
        device["capacity"] = capacity
    if rng.random() < 0.5:
        device["allowMultipleAllocations"] = rng.random() < 0.5
    return device


def random_question(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A selector or a derived attribute, in one of the environments, on a random device."""
    derived = rng.random() < 0.15
    kind = rng.choice(DERIVED) if derived else "bool"
    return {
        "name": "question",
        "expression": random_expression(rng, kind, depth),
        **random_device(rng),
        "derived": derived,
        "envType": rng.choice(["StoredExpressions", "StoredExpressions", "NewExpressions"]),
        "features": {
            "EnableConsumableCapacity": rng.random() < 0.7,
            "EnableListTypeAttributes": rng.random() < 0.7,
        },
    }


def random_plain_question(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """An expression of the plain language; variables stand in for the device."""
    expression = random_expression(rng, rng.choice(PLAIN), depth)
    expression = re.sub(r'device\.attributes(\["[\w.]+"\]|\.zzz)(\.|\["?)(\w+)("\])?', _variable, expression)
    expression = re.sub(r'device\.capacity\["[\w.]+"\]\.memory', 'quantity("5")', expression)
    expression = expression.replace("device.driver", "text").replace(
        "device.allowMultipleAllocations", "flag"
    )
    return {
        "name": "question",
        "expression": re.sub(r'device\.attributes(\["[\w.]+"\])?', "table", expression),
        "bindings": {
            "text": ["string", rng.choice(["gpu.example.com", "", "é☺"])],
            "flag": ["bool", rng.random() < 0.5],
            "unknown": rng.choice(
                [["int", 1], ["string", "a100"], ["list", [["int", 1], ["string", "a"]]], ["null"]]
            ),
            "table": ["map", [[["string", "numa"], ["int", rng.choice([0, 2])]]]],
        },
        "declarations": {"text": "string", "flag": "bool", "unknown": "dyn", "table": "map<string, dyn>"},
        "container": "",
    }


def _variable(access: re.Match[str]) -> str:
    """An attribute becomes an entry of a map if it may be there, else a variable of any type."""
    return "table.numa" if access[3] == "numa" else "unknown"
