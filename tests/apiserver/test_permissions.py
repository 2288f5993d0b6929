"""Who may do what: every identity that the defaults know, every verb, every resource and subresource that is served, in their
own namespace, in another one and across all. What a table here does not grant is refused in Kubernetes' words.

The tables are written by hand, in the server's stead: ``resources: verbs``, a letter each for get, list, watch, create,
update, patch, delete and deletecollection (x). Requests carry bodies and options that are refused after authorization, so that
those which are let through change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR, ANONYMOUS, Identity
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from tests.apiserver.http.serving import Reply, Serving, configmap, serving

MINE, OTHER = "mine", "other"
VERBS = {
    "g": ("GET", "get"),
    "l": ("GET", "list"),
    "w": ("GET", "watch"),
    "c": ("POST", "create"),
    "u": ("PUT", "update"),
    "p": ("PATCH", "patch"),
    "d": ("DELETE", "delete"),
    "x": ("DELETE", "deletecollection"),
}
READ, WRITE, ALL = "glw", "cupdx", "glwcupdx"

# --- the tables ---

_EVERYONE = {
    "selfsubjectaccessreviews selfsubjectrulesreviews selfsubjectreviews": "c",
    "resourcepools resourcepools/status": READ,  # counts only
}
_WORK = (
    "configmaps events persistentvolumeclaims pods replicationcontrollers replicationcontrollers/scale serviceaccounts services "
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale cronjobs jobs "
    "ingresses poddisruptionbudgets resourceclaims resourceclaimtemplates resourceclaimparameters podgroups workloads"
)
_SEEN = (
    "endpoints limitranges resourcequotas resourcequotas/status persistentvolumeclaims/status pods/status controllerrevisions "
    "replicationcontrollers/status services/status daemonsets/status deployments/status replicasets/status statefulsets/status "
    "cronjobs/status jobs/status ingresses/status poddisruptionbudgets/status resourceclaims/status podgroups/status namespaces namespaces/status"
)
_VIEW = {_WORK: READ, _SEEN: READ}
_EDIT = {
    _WORK: ALL,
    _SEEN: READ,
    "secrets leases": ALL,
    "pods/eviction serviceaccounts/token": "c",
}
_ADMIN = {**_EDIT, "roles rolebindings": ALL, "localsubjectaccessreviews": "c"}
_DEVICES = (
    "deviceclasses devicetaintrules resourceslices noderesourceslices resourceclasses resourceclassparameters"
)
_NODE = {
    "services csidrivers": READ,
    "nodes": "cup",  # whose, admission sees
    "nodes/status pods/status": "up",
    "events": "cup",
    "pods": "cd",
    "resourceslices noderesourceslices tokenreviews subjectaccessreviews localsubjectaccessreviews": "c",
}
_SCHEDULER = {
    "events": "cup",
    "leases tokenreviews subjectaccessreviews pods/binding": "c",
    "namespaces nodes replicationcontrollers services replicasets statefulsets poddisruptionbudgets": READ,
    "csidrivers csinodes csistoragecapacities volumeattachments storageclasses": READ,
    "deviceclasses devicetaintrules resourceslices podgroups workloads": READ,
    "persistentvolumes persistentvolumeclaims resourceclaims/status": "glwup",
    "pods": "glwd",
    "pods/status podgroups/status": "up",
    "resourceclaims": "glwcupd",
}
_CONTROLLERS = {
    "events": "cp",
    "pods/eviction": "c",
    "leases": "glwc",
    "nodes": "glwcpd",
    "nodes/status": "p",
    "resourceslices noderesourceslices": "c",  # of simulated machines
    f"namespaces resourcequotas daemonsets resourceclaimtemplates deployments poddisruptionbudgets customresourcedefinitions {_DEVICES}": READ,
    "resourceclaimparameters resourceclassparameters": "glwcpd",
    "pods/status devicetaintrules/status resourceclaims/status": "p",
    "deployments/status replicasets/status jobs/status poddisruptionbudgets/status": "p",
    "pods resourceclaims replicasets": "glwcpd",
    "persistentvolumes": "glwcpd",
    "persistentvolumeclaims": "glwcp",
    "persistentvolumes/status persistentvolumeclaims/status": "p",
    "storageclasses csidrivers csinodes csistoragecapacities volumeattachments": READ,
    "jobs": "glwd",
    "podgroups": READ,
    "podgroups/status": "p",
    "resourcepools": "glwcd",
    "resourcepoolstatusrequests": "glwd",
    "resourcepools/status resourcepoolstatusrequests/status": "p",
    "nodeclaims/status nodeoverlays/status nodepools/status nodegroups/status": "p",
    "nodeoverlays nodepools nodegroups": READ,
    "nodeclaims": "glwcpd",
}
_VIEWER = {f"nodes priorityclasses nodeoverlays nodepools nodeclaims nodegroups {_DEVICES}": READ}


class Case(NamedTuple):
    who: Identity
    granted: dict[str, str] | None  # None: everything
    role: str = ""  # bound to them in MINE
    everywhere: bool = False  # the grants hold in all namespaces and across them


def person(name: str, *groups: str) -> Identity:
    return Identity(name, (*groups, "system:authenticated"))


_ACCOUNT = ("system:serviceaccounts", f"system:serviceaccounts:{MINE}")
CASES = {
    "nobody": Case(ANONYMOUS, {}),
    "someone": Case(person("someone"), {}),
    "view": Case(person("vera"), _VIEW, "view"),
    "edit": Case(person("ed"), _EDIT, "edit"),
    "admin": Case(person("ada"), _ADMIN, "admin"),
    "masters": Case(ADMINISTRATOR, None, everywhere=True),
    "cluster-admin": Case(person("root"), None, "cluster-admin"),
    "node": Case(person("system:node:n1", "system:nodes"), _NODE, everywhere=True),
    "no node without the group": Case(person("system:node:n1"), {}),
    "no node without the name": Case(person("n1", "system:nodes"), {}),
    "service account": Case(person(f"system:serviceaccount:{MINE}:default", *_ACCOUNT), {}),
    "service account with a role": Case(
        person(f"system:serviceaccount:{MINE}:robot", *_ACCOUNT), _VIEW, "view"
    ),
    "kube-scheduler": Case(person("system:kube-scheduler"), _SCHEDULER, everywhere=True),
    "controllers": Case(person("allotment:controllers"), _CONTROLLERS, everywhere=True),
    "viewer": Case(person("allotment:viewer"), _VIEWER, everywhere=True),
}


# --- asking ---


class Question(NamedTuple):
    group: str
    version: str
    resource: str  # with its subresource
    letter: str
    namespace: str

    @property
    def path(self) -> str:
        plural, _, subresource = self.resource.partition("/")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{self.namespace}" if self.namespace and plural != "namespaces" else ""
        path = f"{root}{place}/{plural}"
        if self.letter in "gupd" or subresource:
            path += f"/{self.namespace or 'absent'}" if plural == "namespaces" else "/absent"
        return path + (f"/{subresource}" if subresource else "")

    async def ask(self, server: Serving) -> Reply:
        query = {"resourceVersion": "x"} if self.letter in "lwx" else {}
        if self.letter == "w":
            query["watch"] = "true"
        body = b"" if self.letter in "glw" else b"["
        media = {"content-type": "application/merge-patch+json" if self.letter == "p" else "application/json"}
        return await server.call(VERBS[self.letter][0], self.path, body, media, **query)

    def refusal(self, who: Identity) -> str:
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'User "{who.name}" cannot {VERBS[self.letter][1]} resource "{self.resource}" in API group "{self.group}" {scope}'


def questions(catalogue: ResourceCatalogue) -> Iterator[Question]:
    for group, versions in catalogue.groups().items():
        for version in versions:
            for served in catalogue.of_version(group, version):
                if not isinstance(served, ServedResource):
                    spaces: tuple[str, ...] = (MINE, OTHER) if served.namespaced else ("",)
                    yield from (Question(group, version, served.plural, "c", space) for space in spaces)
                    continue
                resource = served.resource
                spaces = (MINE, OTHER, "") if resource.namespaced else ("",)
                if resource.plural == "namespaces":
                    spaces = (MINE, OTHER)
                subresources = [*resource.actions, *resource.views, *(["status"] if resource.status else [])]
                for space in spaces:
                    for letter in ALL:
                        if resource.plural == "namespaces" and letter in "lwcx":
                            continue
                        yield Question(group, version, resource.plural, letter, space)
                    for name in subresources:
                        for letter in "gcupd":
                            yield Question(group, version, f"{resource.plural}/{name}", letter, space)


def expected(case: Case, question: Question) -> bool:
    if (
        not case.everywhere
        and case.granted != {}
        and question.namespace == MINE
        and _has(case.granted, question)
    ):
        return True
    if case.everywhere and _has(case.granted, question):
        return True
    return "system:authenticated" in case.who.groups and _has(_EVERYONE, question)


def _has(granted: dict[str, str] | None, question: Question) -> bool:
    if granted is None:
        return True
    return any(
        question.letter in letters for names, letters in granted.items() if question.resource in names.split()
    )


async def bind(server: Serving, role: str, who: Identity, namespace: str = MINE) -> None:
    group = "rbac.authorization.k8s.io"
    subject: Any = {"apiGroup": group, "kind": "User", "name": who.name}
    body = {
        "metadata": {"name": "bound"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    path = f"/apis/{group}/v1/namespaces/{namespace}/rolebindings"
    assert (await server.call("POST", path, body)).status == 201


async def make_namespaces(server: Serving) -> None:
    for name in (MINE, OTHER):
        assert (await server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})).status == 201


Story = Callable[[Serving], Awaitable[None]]


def told(folder: Path, story: Story) -> None:
    async def main() -> None:
        async with serving(folder) as server:
            await make_namespaces(server)
            await story(server)

    asyncio.run(main())


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_granted_is_refused_and_nothing_else_is(tmp_path: Path, name: str) -> None:
    case = CASES[name]

    async def story(server: Serving) -> None:
        if case.role:
            await bind(server, case.role, case.who)
        them = Serving(server.server, case.who)
        wrong, asked = [], 0
        for question in questions(server.server.catalogue):
            reply = await question.ask(them)
            asked += 1
            refused = reply.status == 403 and question.refusal(case.who) in reply.json["message"]
            if refused is expected(case, question):
                wrong.append(f"{VERBS[question.letter][1]} {question.path}: {reply.status}")
            assert reply.status < 500, (question, reply.body)
            assert refused or reply.status != 401
        assert not wrong, "\n".join(wrong)
        assert asked > 1000

    told(tmp_path, story)


# --- ways around ---


async def grant(server: Serving, user: str, *rules: tuple[str, str, str], namespace: str = MINE) -> Serving:
    """Someone who may do just this in a namespace; rules are verbs, group and resources."""
    group = "rbac.authorization.k8s.io"
    root = f"/apis/{group}/v1/namespaces/{namespace}"
    made = [
        {"verbs": verbs.split(), "apiGroups": [of], "resources": resources.split()}
        for verbs, of, resources in rules
    ]
    role = {"metadata": {"name": f"r-{user}"}, "rules": made}
    assert (await server.call("POST", f"{root}/roles", role)).status == 201
    bound = {
        "metadata": {"name": f"b-{user}"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": f"r-{user}"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    assert (await server.call("POST", f"{root}/rolebindings", bound)).status == 201
    return Serving(server.server, person(user))


MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
SECRETS = f"/api/v1/namespaces/{OTHER}/secrets"
MAPS = f"/api/v1/namespaces/{MINE}/configmaps"


def test_a_write_that_would_create_needs_the_right_to_create(tmp_path: Path) -> None:
    async def story(server: Serving) -> None:
        them = await grant(
            server, "u", ("update patch", "coordination.k8s.io", "leases"), ("update patch", "", "configmaps")
        )
        lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{MINE}/leases"
        applied = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        for tried in (
            await them.call("PUT", f"{path}/a", lease),
            await them.call("PATCH", f"{path}/a", applied, APPLY, fieldManager="m"),
            await them.call("PUT", f"{path}/a", lease, dryRun="All"),
        ):
            assert (tried.status, "cannot create resource" in tried.json["message"]) == (403, True)
        made = await server.call("PUT", f"{path}/a", lease)
        assert made.status == 201
        assert (await them.call("PUT", f"{path}/a", made.json)).status == 200

    told(tmp_path, story)


def test_nothing_tells_what_there_is_in_a_namespace_that_one_may_not_read(tmp_path: Path) -> None:
    async def story(server: Serving) -> None:
        secret = {"metadata": {"name": "there", "finalizers": ["x.io/y"]}, "stringData": {"k": "v"}}
        assert (await server.call("POST", SECRETS, secret)).status == 201
        await bind(server, "admin", person("eve"))
        eve = Serving(server.server, person("eve"))
        for method, headers, body in (
            ("GET", {}, None),
            ("PUT", {}, secret),
            ("PATCH", MERGE, {"metadata": {"labels": {"a": "b"}}}),
            ("PATCH", APPLY, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}}),
            ("DELETE", {}, {"preconditions": {"uid": "x"}}),
            ("DELETE", {}, {"dryRun": ["All"]}),
        ):
            replies = [
                await eve.call(method, f"{SECRETS}/{name}", body, headers, fieldManager="m")
                for name in ("there", "gone")
            ]
            assert {reply.status for reply in replies} == {403}
            texts = {
                reply.body.replace(name, b"NAME")
                for reply, name in zip(replies, (b"there", b"gone"), strict=True)
            }
            assert len(texts) == 1, method
        queries: list[dict[str, str]] = [
            {},
            {"watch": "true"},
            {"watch": "1"},
            {"watch": ""},
            {"limit": "1"},
            {"resourceVersion": "0"},
            {"fieldSelector": f"metadata.namespace={MINE}"},
            {"fieldSelector": "metadata.name=there"},
            {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoibWluZS9hXHUwMDAwIn0"},
        ]
        for query in queries:
            for path in (SECRETS, "/api/v1/secrets"):
                reply = await eve.call("GET", path, None, None, **query)
                assert reply.status == 403, (path, query)
                assert "fieldSelector" in query or b"there" not in reply.body
        assert (await eve.call("DELETE", SECRETS, dryRun="All")).status == 403
        assert (await eve.call("DELETE", "/api/v1/secrets")).status in (403, 405)

    told(tmp_path, story)


ELSEWHERE = [
    f"//api/v1/namespaces/{OTHER}/secrets/there",
    f"/api//v1/namespaces/{OTHER}/secrets/there",
    f"/api/v1//namespaces/{OTHER}/secrets/there",
    f"/api/v1/namespaces//{OTHER}/secrets/there",
    f"/api/v1/namespaces/{MINE}/../{OTHER}/secrets/there",
    f"/api/v1/namespaces/{MINE}/secrets/../../{OTHER}/secrets/there",
    f"/api/v1/namespaces/{MINE}/./../{OTHER}/secrets",
    f"/api/v1/namespaces/{MINE}/secrets/{OTHER}/there",
    f"/api/v1/namespaces/{MINE}/namespaces/{OTHER}/secrets/there",
    f"/api/v1/namespaces/{OTHER}/secrets/there/",
    f"/api/v1/namespaces/{OTHER}/secrets/",
    f"/api/v1/namespaces/{OTHER}/SECRETS/there",
    f"/api/v1/namespaces/{OTHER.upper()}/secrets/there",
    f"/api/v1/namespaces/{OTHER}\0/secrets/there",
    f"/api/v1/namespaces/{OTHER}/secrets/there/status",
    f"/api/v1/watch/namespaces/{OTHER}/secrets",
    f"/api/v1/proxy/namespaces/{OTHER}/secrets/there",
    f"/apis//v1/namespaces/{OTHER}/secrets/there",
    f"/apis/core/v1/namespaces/{OTHER}/secrets/there",
    f"/api/v1/secrets/{OTHER}/there",
    "/api/v1/secrets/there",
    f"/api/v1/namespaces/{OTHER}",
    "/api/v1/namespaces",
]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "POST"])
def test_no_spelling_of_a_path_leads_around_the_check(tmp_path: Path, method: str) -> None:
    async def story(server: Serving) -> None:
        secret = {"metadata": {"name": "there"}, "stringData": {"k": "v"}}
        before = (await server.call("POST", SECRETS, secret)).json
        await bind(server, "admin", person("eve"))
        eve = Serving(server.server, person("eve"))
        headers = MERGE if method == "PATCH" else {}
        body = secret if method in ("POST", "PUT", "PATCH") else None
        for path in ELSEWHERE:
            reply = await eve.call(method, path, body, headers)
            assert reply.status in (403, 404, 405), path
        assert (await server.call("GET", f"{SECRETS}/there")).json == before

    told(tmp_path, story)


def test_a_body_cannot_name_another_namespace(tmp_path: Path) -> None:
    async def story(server: Serving) -> None:
        await bind(server, "admin", person("eve"))
        eve = Serving(server.server, person("eve"))
        body = configmap("a")
        body["metadata"]["namespace"] = OTHER
        assert (await eve.call("POST", MAPS, body)).status == 400
        await eve.call("POST", MAPS, configmap("a"))
        assert (await eve.call("PUT", f"{MAPS}/a", body)).status == 400
        moved = {"metadata": {"namespace": OTHER}}
        assert (await eve.call("PATCH", f"{MAPS}/a", moved, MERGE)).status in (400, 422)
        listed = (await server.call("GET", f"/api/v1/namespaces/{OTHER}/configmaps")).json["items"]
        assert [each["metadata"]["name"] for each in listed if each["metadata"]["name"] == "a"] == []

    told(tmp_path, story)


IMPERSONATIONS: list[dict[str, str]] = [
    {"impersonate-user": "system:admin"},
    {"impersonate-user": "eve", "impersonate-group": "system:masters"},
    {"impersonate-group": "system:masters"},
    {"impersonate-user": f"system:serviceaccount:{OTHER}:default"},
    {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"},
    {"impersonate-user": "system:anonymous"},
    {"impersonate-uid": "1"},
    {"impersonate-user": "eve", "impersonate-extra-scopes": "all"},
    {"impersonate-user": ""},
]


@pytest.mark.parametrize("headers", IMPERSONATIONS, ids=lambda headers: " ".join(headers.values()) or "empty")
def test_nobody_becomes_somebody_else_without_the_right_to(tmp_path: Path, headers: dict[str, str]) -> None:
    """An admin of a namespace may become its service accounts, and nobody else."""

    async def story(server: Serving) -> None:
        await bind(server, "admin", person("eve"))
        eve = Serving(server.server, person("eve"))
        reply = await eve.call("GET", SECRETS, headers=headers)
        assert reply.status in (400, 403, 500)
        assert b'"items"' not in reply.body
        own = {"impersonate-user": f"system:serviceaccount:{MINE}:default"}
        reply = await eve.call("GET", f"/api/v1/namespaces/{MINE}/secrets", headers=own)
        assert f"system:serviceaccount:{MINE}:default" in reply.json["message"]  # became it, and it may not
        escalated = {**own, "impersonate-group": "system:masters"}
        reply = await eve.call("GET", SECRETS, headers=escalated)
        assert (reply.status, "impersonate" in reply.json["message"]) == (403, True)

    told(tmp_path, story)


POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PODS = f"/api/v1/namespaces/{MINE}/pods"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{MINE}/resourceclaims"


def test_a_subresource_is_a_right_of_its_own(tmp_path: Path) -> None:
    async def story(server: Serving) -> None:
        account = {"metadata": {"name": "default"}}
        await server.call("POST", f"/api/v1/namespaces/{MINE}/serviceaccounts", account)
        made = await server.call("POST", PODS, POD)
        assert made.status == 201, made.body
        them = await grant(
            server,
            "main",
            ("get create update patch delete", "", "pods serviceaccounts namespaces"),
            ("update patch", "apps", "deployments"),
        )
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        token = {"spec": {"audiences": ["x"]}}
        for method, path, body in (
            ("POST", f"{PODS}/p/binding", binding),
            ("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}),
            ("PATCH", f"{PODS}/p/status", {"status": {"phase": "Failed"}}),
            ("PATCH", f"{PODS}/p/resize", {"spec": {}}),
            ("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {}}),
            ("POST", f"/api/v1/namespaces/{MINE}/serviceaccounts/default/token", token),
            ("PUT", f"/api/v1/namespaces/{MINE}/finalize", {"metadata": {"name": MINE}}),
            ("PATCH", f"/apis/apps/v1/namespaces/{MINE}/deployments/d/scale", {"spec": {"replicas": 9}}),
        ):
            reply = await them.call(method, path, body, MERGE if method == "PATCH" else {})
            assert reply.status == 403, (path, reply.body)
        # What the main resource takes does not change what belongs to a subresource.
        changed = await them.call(
            "PATCH", f"{PODS}/p", {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}}, MERGE
        )
        assert (changed.status, changed.json["status"]["phase"]) == (200, "Pending")
        assert (await them.call("PATCH", f"{PODS}/p", {"spec": {"nodeName": "n1"}}, MERGE)).status == 422

    told(tmp_path, story)


def test_the_status_of_a_claim_needs_the_right_to_bind_for_allocation_and_reservation(tmp_path: Path) -> None:
    async def story(server: Serving) -> None:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        assert (await server.call("POST", CLAIMS, claim)).status == 201
        rights = ("get update patch", "resource.k8s.io", "resourceclaims/status")
        them = await grant(server, "status", rights)
        binder = await grant(
            server, "binder", rights, ("update patch", "resource.k8s.io", "resourceclaims/binding")
        )
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        refused = await them.call("PATCH", f"{CLAIMS}/c/status", status, MERGE)
        assert refused.status == 422  # as upstream: a field that they may not set
        assert 'resource="resourceclaims/binding"' in refused.json["message"], refused.body
        for version in ("v1beta1", "v1beta2"):
            path = f"{CLAIMS}/c/status".replace("/v1/", f"/{version}/")
            assert (await them.call("PATCH", path, status, MERGE)).status == 422
        # Devices belong to the whole cluster, so a right in one namespace is not enough.
        assert (await binder.call("PATCH", f"{CLAIMS}/c/status", status, MERGE)).status == 422
        scheduler = Serving(server.server, person("system:kube-scheduler"))
        assert (await scheduler.call("PATCH", f"{CLAIMS}/c/status", status, MERGE)).status == 200
        taken = await them.call("PATCH", f"{CLAIMS}/c/status", {"status": None}, MERGE)
        assert taken.status == 422

    told(tmp_path, story)
