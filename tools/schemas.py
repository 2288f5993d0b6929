"""Writes src/allotment/api/schema/documents/ from Kubernetes' own documents: names, types and numbers, and nobody's sentences.

    python tools/schemas.py --openapi FOLDER [--openapi FOLDER] --go API --go APIMACHINERY --go APIEXTENSIONS

The OpenAPI folders hold OpenAPI v3 documents (``api/openapi-spec/v3`` of k8s.io/kubernetes). The Go folders are the
modules k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver (``go list -m -f '{{.Dir}}' k8s.io/api``):
their generated.proto says how a field is written in protobuf, their structs' tags say which JSON field that is.

Each Go package gives two files, because readers of one rarely want the other: ``core.v1.fields`` (read by
``allotment.api.schema.schema``, which describes the form) and ``core.v1.wire`` (read by ``allotment.api.schema.wire``).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "src" / "allotment" / "api" / "schema" / "documents"

GROUPS = frozenset(
    {
        *(
            "core",
            "apps",
            "autoscaling",
            "batch",
            "policy",
            "apiextensions",
            "authentication",
            "authorization",
        ),
        *("coordination", "events", "networking", "node", "rbac", "resource", "scheduling", "storage"),
    }
)
"""Packages whose kinds we keep, in every version that the documents have."""
META_KINDS = frozenset(
    {
        *("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "LabelSelector"),
        *("ListMeta", "ObjectMeta", "Status", "WatchEvent"),
    }
)
NOT_SERVED = frozenset({"autoscaling.v2", "coordination.v1alpha2", "coordination.v1beta1"})

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
SCALARS = {
    f"{META}Time": "time",
    f"{META}MicroTime": "microtime",
    f"{META}Duration": "duration",
    f"{META}FieldsV1": "fields",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
}
"""Definitions that are one value to JSON."""
RAW_JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
"""Also any JSON, and written in protobuf as RawExtension is; its schema is its own."""

Definitions = dict[str, dict[str, Any]]


def split(name: str) -> tuple[str, str]:
    """A definition's package and own name."""
    package, _, own = name.rpartition(".")
    return package, own


def short(package: str) -> str:
    """``core.v1`` for ``io.k8s.api.core.v1``: the last two parts are unique."""
    return ".".join(package.split(".")[-2:])


def written(name: str, package: str) -> str:
    """A definition's name as seen from a package."""
    if name in SCALARS:
        return SCALARS[name]
    home, own = split(name)
    return own if home == package else f"{short(home)}.{own}"


# --- OpenAPI: what the fields are ---


def read_openapi(folders: list[Path]) -> Definitions:
    found: Definitions = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            found.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
    return found


def referred(schema: dict[str, Any]) -> str:
    inner = schema["allOf"][0] if "allOf" in schema else schema
    return str(inner.get("$ref", "")).removeprefix("#/components/schemas/")


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield referred(schema)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def roots(definitions: Definitions) -> Iterator[str]:
    for name, schema in definitions.items():
        package, own = split(name)
        served = {kind["kind"] for kind in schema.get("x-kubernetes-group-version-kind", ())}
        if package + "." == META:
            wanted = own in META_KINDS
        else:
            wanted = short(package).split(".")[0] in GROUPS and short(package) not in NOT_SERVED
            wanted = wanted and own in served and not own.endswith("List")
        if wanted:
            yield name


def reachable(definitions: Definitions) -> set[str]:
    seen: set[str] = set()
    pending = list(roots(definitions))
    while pending:
        name = pending.pop()
        if name not in seen and name not in SCALARS:
            seen.add(name)
            pending.extend(references(definitions[name]))
    return seen


def type_of(schema: dict[str, Any], package: str) -> str:
    name = referred(schema)
    if name:
        return written(name, package)
    match schema.get("type"):
        case "array":
            return f"[{type_of(schema['items'], package)}]"
        case "object":
            inner = schema.get("additionalProperties")
            return f"{{{type_of(inner, package)}}}" if inner else "raw"
        case "string":
            return {"date-time": "time", "byte": "bytes"}.get(schema.get("format", ""), "string")
        case "integer":
            return str(schema.get("format", "int64"))
        case "number":
            return str(schema.get("format", "number"))
        case None:
            return "any"
        case kind:
            return str(kind)


def marks(schema: dict[str, Any]) -> Iterator[str]:
    """How a field merges, and its default. ``{}`` marks what is always there, if only as an empty object."""
    keys = ",".join(schema.get("x-kubernetes-list-map-keys", ()))
    if list_type := schema.get("x-kubernetes-list-type"):
        yield f"list={list_type}" + (f":{keys}" if keys else "")
    if map_type := schema.get("x-kubernetes-map-type"):
        yield f"map={map_type}"
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        key = schema.get("x-kubernetes-patch-merge-key")
        yield f"patch={strategy}" + (f":{key}" if key else "")
    if schema.get("default") is not None:
        default = json.dumps(schema["default"], separators=(",", ":"))
        assert " " not in default, "marks are separated by blanks"
        yield f"default={default}"


def block(name: str, schema: dict[str, Any]) -> str:
    package, own = split(name)
    kinds = {kind["kind"] for kind in schema.get("x-kubernetes-group-version-kind", ())}
    heading = [own, *(["kind"] if own in kinds else []), *marks(schema)]
    if "type" not in schema:
        heading.append("any")
    required = set(schema.get("required", ()))
    lines = [" ".join(heading)]
    for field, inner in sorted(schema.get("properties", {}).items()):
        told = [field, type_of(inner, package), *(["required"] if field in required else []), *marks(inner)]
        lines.append(" ".join(told))
    return "\n".join(lines)


def api_version(package: str, schemas: list[dict[str, Any]]) -> str:
    if package + "." == META:
        return "v1"
    for schema in schemas:
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            return "/".join(part for part in (kind["group"], kind["version"]) if part)
    return "-"


# --- protobuf: how the fields are numbered ---

_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) )?(map<string, ?)?([\w.]+)>? (\w+) = (\d+);$", re.MULTILINE)
_STRUCT = re.compile(r"^(?:type )?\t?(\w+) struct \{$(.*?)^\t?\}$", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"^\s*(?:\w+\s+)?(\S+)\s+`(.*)`", re.MULTILINE)
_JSON_TAG = re.compile(r'json:"([^",]*)([^"]*)"')
_PROTO_TAG = re.compile(r'protobuf:"\w+,(\d+),')


@dataclass
class Tag:
    """What a Go struct says of a field: its JSON name, empty if it is inlined; whether JSON leaves a zero out."""

    json_name: str
    omits_zero: bool


@dataclass
class Message:
    fields: list[
        tuple[int, str, str, bool]
    ]  # number, JSON name or "." for inlined, type, whether zero is left out
    is_list: bool = False


def tags(folder: Path) -> dict[str, dict[int, Tag]]:
    """Of each Go struct, the fields by their protobuf numbers."""
    found: dict[str, dict[int, Tag]] = defaultdict(dict)
    for path in sorted(folder.glob("*.go")):
        if path.name.startswith(("generated", "zz_generated")) or path.name.endswith("_test.go"):
            continue
        for own, body in _STRUCT.findall(path.read_text()):
            for go_type, written in _TAGGED.findall(body):
                in_json, in_proto = _JSON_TAG.search(written), _PROTO_TAG.search(written)
                if in_json and in_proto:
                    omits = "omit" in in_json[2] and not go_type.startswith("*")
                    found[own].setdefault(int(in_proto[1]), Tag(in_json[1], omits))
    return found


def read_messages(modules: list[Path]) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for module in modules:
        for path in sorted(module.rglob("generated.proto")):
            text = path.read_text()
            declared = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
            assert declared, path
            package = in_openapi(declared[1])
            named = tags(path.parent)
            for own, body in _MESSAGE.findall(text):
                found[f"{package}.{own}"] = message(package, body, named.get(own))
    return found


def in_openapi(package: str) -> str:
    return re.sub(r"^k8s\.io", "io.k8s", package).replace("_", "-")


def message(package: str, body: str, tagged: dict[int, Tag] | None) -> Message:
    fields = []
    for label, mapped, kind, proto_name, number in _FIELD.findall(body):
        if kind.startswith("."):
            kind = in_openapi(kind[1:])
        elif kind[0].isupper():
            kind = f"{package}.{kind}"
        told = f"{{{kind}}}" if mapped else f"[{kind}]" if label == "repeated" else kind
        tag = (tagged or {}).get(int(number), Tag(proto_name, omits_zero=False))
        fields.append((int(number), tag.json_name or ".", told, tag.omits_zero))
    return Message(fields, is_list=tagged is None and [name for _, name, _, _ in fields] == ["items"])


def wire_block(name: str, known: Message) -> str:
    package, own = split(name)
    lines = [f"{own} list" if known.is_list else own]
    for number, field, kind, omits_zero in known.fields:
        bare = kind.strip("[]{}")
        shown = "raw" if bare == RAW_JSON else written(bare, package) if "." in bare else bare
        kind = kind.replace(bare, shown)
        lines.append(f"{number} {field} {kind}" + (" omit" if omits_zero and kind[0] not in "[{" else ""))
    return "\n".join(lines)


def messages_reached(start: set[str], messages: dict[str, Message]) -> set[str]:
    seen: set[str] = set()
    pending = sorted(start & messages.keys())
    while pending:
        name = pending.pop()
        if name not in seen and name not in SCALARS and name != RAW_JSON:
            seen.add(name)
            kinds = (kind.strip("[]{}") for _, _, kind, _ in messages[name].fields)
            pending.extend(kind for kind in kinds if "." in kind)
    return seen


# --- writing ---


def by_package(names: set[str]) -> dict[str, list[str]]:
    packages: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        packages[split(name)[0]].append(name)
    return packages


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--openapi", action="append", type=Path, required=True)
    parser.add_argument("--go", action="append", type=Path, required=True)
    arguments = parser.parse_args()

    definitions = read_openapi(arguments.openapi)
    messages = read_messages(arguments.go)
    kept = reachable(definitions)
    TARGET.mkdir(exist_ok=True)
    for old in (*TARGET.glob("*.fields"), *TARGET.glob("*.wire")):
        old.unlink()
    for package, names in by_package(kept).items():
        version = api_version(package, [definitions[name] for name in names])
        blocks = [f"{package} {version}", *(block(name, definitions[name]) for name in names)]
        (TARGET / f"{short(package)}.fields").write_text("\n\n".join(blocks) + "\n")
    for package, names in by_package(messages_reached(kept, messages)).items():
        blocks = [package, *(wire_block(name, messages[name]) for name in names)]
        (TARGET / f"{short(package)}.wire").write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
