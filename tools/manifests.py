"""Writes the rights of components where servers read them, from the statements beside the components' code.

    python tools/manifests.py

``src/allotment/apiserver/auth/component_rights.py`` is for the embedded server. In ``examples/kubernetes`` only the rules of
the ClusterRoles that components have are written anew; all else in those files is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from allotment.api.rights import READING, Grant
from allotment.apiserver.auth import users
from allotment.apiserver.auth.roles import NODE_LEASES_IN
from allotment.daemons import rights

ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = ROOT / "examples" / "kubernetes"
EMBEDDED = ROOT / "src" / "allotment" / "apiserver" / "auth" / "component_rights.py"

_HEADING = '''"""What each component may do on the embedded server, in the lines of ``api.rights``.

`make manifests` writes this file from the statements beside the components' code, which the server does not know; edit those.
"""
'''
_RULES = re.compile(r"^rules:.*\n(?:[-# ].*\n)+", re.MULTILINE)
_NAME = re.compile(r"^kind: ClusterRole\nmetadata: \{name: ([a-z-]+)\}", re.MULTILINE)
_WIDTH = 100


def written() -> dict[Path, str]:
    """The files as they should be."""
    roles = rights.manifest_roles()
    made = {path: _manifest(path.read_text(), roles) for path in sorted(MANIFESTS.glob("*.yaml"))}
    return {EMBEDDED: _embedded(), **made}


def _embedded() -> str:
    roles = rights.embedded_roles()
    everywhere = {user: [each for each in role if not each.namespace] for user, role in roles.items()}
    [*leases] = (each for each in roles[users.CONTROLLERS] if each.namespace == NODE_LEASES_IN)
    tables = {
        "SCHEDULER": everywhere[users.SCHEDULER],
        "CONTROLLERS": everywhere[users.CONTROLLERS],
        "NODE_LEASES": leases,
        "AUTOSCALER": everywhere[users.AUTOSCALER],
        "DASHBOARD": everywhere[users.DASHBOARD],
    }
    return _HEADING + "".join(_table(name, role) for name, role in tables.items())


def _table(name: str, role: Iterable[Grant]) -> str:
    lines = [f'    "{part.line}",\n' for each in role for part in _short(each)]
    if len(lines) == 1:
        return f"\n{name} = ({lines[0].strip()})\n"
    return f"\n{name} = (\n{''.join(lines)})\n"


def _short(grant: Grant) -> list[Grant]:
    """The grant in several, if its line would be too long."""
    if len(grant.line) <= _WIDTH or len(grant.resources) == 1:
        return [grant]
    half = len(grant.resources) // 2
    parts = (grant.resources[:half], grant.resources[half:])
    return [
        short
        for part in parts
        for short in _short(Grant(grant.verbs, grant.groups, part, grant.names, namespace=grant.namespace))
    ]


def _manifest(text: str, roles: dict[str, list[Grant]]) -> str:
    """A file with the rules of the components' roles as they should be. Documents are apart by ``---``."""
    documents = re.split(r"(?<=\n)---\n", text)
    return "---\n".join(_document(document, roles) for document in documents)


def _document(text: str, roles: dict[str, list[Grant]]) -> str:
    name = _NAME.search(text)
    if name is None or name[1] not in roles:
        return text
    return _RULES.sub(lambda _: _rules(roles[name[1]]), text)


def _rules(role: list[Grant]) -> str:
    reads = [each for each in role if READING.issuperset(each.verbs)]
    writes = [each for each in role if each not in reads]
    return (
        "rules:  # by `make manifests`, from the statements beside the components' code\n"
        + "".join(map(_rule, reads))
        + "".join(map(_rule, writes))
    )


def _rule(grant: Grant) -> str:
    groups = ", ".join(group or '""' for group in grant.groups)
    names = f"  resourceNames: [{', '.join(grant.names)}]\n" if grant.names else ""
    resources, verbs = ", ".join(grant.resources), ", ".join(grant.verbs)
    return f"- apiGroups: [{groups}]\n  resources: [{resources}]\n{names}  verbs: [{verbs}]\n"


def main() -> None:
    for path, text in written().items():
        if path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
