"""Small writes that turn out to be much work: the loop begins them, and a thread does them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.allowance import ALLOWED_MICROSECONDS, TooMuchAtOnce, at_once, left, spend
from allotment.apiserver.http.heavy import HeavyWork
from allotment.apiserver.http.resources import LARGE_BODY, MAX_REVIEW
from allotment.apiserver.registry.reviews.access import MOST_LISTED_RULES
from tests.apiserver.http.serving import Serving, serving
from tests.apiserver.registry.custom.schemas import definition
from tests.builders.plain import claim
from tests.costs.steps import longest_step

Obj = dict[str, Any]
JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
HELD = 0.15
"""Seconds of the processor, for a machine that is busy: each of these held the loop for longer, the rule for seconds."""

PAIRS = {"rule": "self.all(x, self.all(y, x != y || x == y))"}
SPEC = {
    "type": "object",
    "properties": {
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "pairs": {
            "type": "array",
            "maxItems": 300,
            "items": {"type": "string", "maxLength": 5},
            "x-kubernetes-validations": [PAIRS],
        },
        "parts": {
            "type": "array",
            "items": {"type": "object", "properties": {"note": {"type": "string", "default": "x" * 2000}}},
        },
        "matched": {"type": "string", "anyOf": [{"pattern": f"(.{{0,{n}}}c)"} for n in range(900, 915)]},
    },
}


def widget(name: str = "a", **spec: Any) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def selecting_claim(expression: str) -> Obj:
    selectors = [{"cel": {"expression": expression}}] * 2
    return claim("a", "c", request="r", namespace="default", selectors=selectors)


COPIES = [{"op": "copy", "from": "/spec/any/many", "path": f"/spec/any/m{n}"} for n in range(200)]
ALIASES = (
    "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {any: {"
    f"a: &a [{','.join('0' * 9000)}], {', '.join(f'a{n}: *a' for n in range(10))}}}}}}}"
)
GROWING: dict[str, tuple[str, str, str, bytes, int]] = {
    "copies of a patch": ("PATCH", f"{WIDGETS}/a", JSON_PATCH, json.dumps(COPIES).encode(), 200),
    "defaults": (
        "POST",
        WIDGETS,
        JSON,
        json.dumps(widget("b", parts=[{}] * 1500)).encode(),
        201,
    ),
    "a rule about pairs": (
        "POST",
        WIDGETS,
        JSON,
        json.dumps(widget("b", pairs=[f"a{n}" for n in range(300)])).encode(),
        201,
    ),
    "patterns": ("POST", WIDGETS, JSON, json.dumps(widget("b", matched="a" * 4000 + "c")).encode(), 201),
    "aliases": ("POST", WIDGETS, YAML, ALIASES.encode(), 201),
    "aliases of an apply": ("PATCH", f"{WIDGETS}/b?fieldManager=m", APPLY, ALIASES.encode(), 201),
    "expressions with large patterns": (
        "POST",
        CLAIMS,
        JSON,
        json.dumps(
            selecting_claim(
                " || ".join(f"device.driver.matches('(.{{0,{n}}}c)')" for n in range(980, 961, -1))
            )
        ).encode(),
        201,
    ),
    "long expressions": (
        "POST",
        CLAIMS,
        JSON,
        json.dumps(selecting_claim(f"[{','.join('1' * 4900)}].all(x, x == 1)")).encode(),
        201,
    ),
}


@pytest.mark.parametrize(("method", "path", "type_", "body", "status"), GROWING.values(), ids=GROWING)
def test_a_small_write_that_grows_does_not_hold_the_loop(
    method: str,
    path: str,
    type_: str,
    body: bytes,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_threads: list[str] = []
    run_ = HeavyWork.run

    async def run(heavy: HeavyWork, user: str, work: Callable[[], Any]) -> Any:
        in_threads.append(threading.current_thread().name)
        return await run_(heavy, user, work)

    monkeypatch.setattr(HeavyWork, "run", run)

    async def scenario() -> None:
        async with serving(tmp_path / "data") as server:
            await _define(server)
            await server.call("POST", WIDGETS, widget(many=[], any={"many": [0] * 6000}))
            assert len(body) < LARGE_BODY
            in_threads.clear()
            where, _, query = path.partition("?")
            told = dict(each.split("=") for each in query.split("&") if each)
            with longest_step() as longest:
                call = server.call(method, where, body, {"content-type": type_}, **told)
                reply = await asyncio.create_task(call)
            assert reply.status == status, reply.body[:500]
            assert in_threads, "the loop did it all"
            assert longest.seconds < HELD

    asyncio.run(scenario())


async def _define(server: Serving) -> None:
    crd = definition()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": SPEC}}
    made = await server.call("POST", CRDS, crd)
    assert made.status == 201, made.body
    while (await server.call("GET", WIDGETS)).status != 200:
        await asyncio.sleep(0)


def test_a_small_write_is_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules, defaults and expressions of the usual size are no reason to wait for a thread."""

    async def run(heavy: HeavyWork, user: str, work: Callable[[], Any]) -> Any:
        raise AssertionError("a thread was asked")

    async def scenario() -> None:
        async with serving(tmp_path / "data") as server:
            await _define(server)
            monkeypatch.setattr(HeavyWork, "run", run)
            made = await server.call("POST", WIDGETS, widget(pairs=["a", "b"], parts=[{}]))
            assert made.status == 201, made.body
            selector = 'device.attributes["gpu.example.com"].model == "a"'
            made = await server.call("POST", CLAIMS, selecting_claim(selector))
            assert made.status == 201, made.body

    asyncio.run(scenario())


def test_a_question_about_ten_thousand_groups_is_answered_and_a_larger_one_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path / "data") as server:
            for count, status in ((10_000, 201), (90_000, 413)):
                groups = [f"group-{number}" for number in range(count)]
                asked = {"verb": "get", "resource": "pods"}
                spec = {"user": "u", "groups": groups, "resourceAttributes": asked}
                body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
                assert (len(json.dumps(body)) > MAX_REVIEW) == (status == 413)
                with longest_step() as longest:
                    reply = await asyncio.create_task(server.call("POST", REVIEWS, body))
                assert reply.status == status
                assert longest.seconds < HELD

    asyncio.run(scenario())


def test_what_is_spent_counts_only_where_work_is_counted() -> None:
    spend(10 * ALLOWED_MICROSECONDS)
    with at_once():
        spend(ALLOWED_MICROSECONDS / 2)
        assert left() == ALLOWED_MICROSECONDS / 2
        with pytest.raises(TooMuchAtOnce):
            spend(ALLOWED_MICROSECONDS)
    spend(10 * ALLOWED_MICROSECONDS)


def test_a_thread_that_the_work_is_handed_to_counts_nothing() -> None:
    async def scenario() -> None:
        with suppress(TooMuchAtOnce), at_once():
            spend(2 * ALLOWED_MICROSECONDS)
        await asyncio.to_thread(spend, 2 * ALLOWED_MICROSECONDS)

    asyncio.run(scenario())


LIMITS = {f"count/things{number}.example.com": "5" for number in range(2000)}
SCOPE = {"scopeName": "PriorityClass", "operator": "In"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"hard": LIMITS}, "spec.hard: Too many: 2000"),
        ({"scopes": ["Terminating"] * 30}, "spec.scopes: Too many: 30"),
        (
            {"scopeSelector": {"matchExpressions": [{**SCOPE, "values": ["a"]}] * 30}},
            "spec.scopeSelector.matchExpressions: Too many: 30",
        ),
        (
            {"scopeSelector": {"matchExpressions": [{**SCOPE, "values": ["a"] * 2000}]}},
            "spec.scopeSelector.matchExpressions.values: Too many: 2000",
        ),
    ],
    ids=["amounts", "scopes", "expressions", "values"],
)
def test_a_quota_is_small_as_every_new_object_is_compared_with_all_of_it(
    spec: Obj, told: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path / "data") as server:
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
            reply = await server.call("POST", "/api/v1/namespaces/default/resourcequotas", quota)
            assert reply.status == 422
            assert told in reply.json["message"]

    asyncio.run(scenario())


def test_of_very_many_rules_the_first_are_listed(tmp_path: Path) -> None:
    rbac, rules = "rbac.authorization.k8s.io", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    metadata, version = {"name": "r"}, {"apiVersion": f"{rbac}/v1"}
    allowed = [
        {"apiGroups": ["a"], "resources": [f"x{n}"], "verbs": ["get"]} for n in range(MOST_LISTED_RULES + 10)
    ]
    role = {**version, "kind": "Role", "metadata": metadata, "rules": allowed}
    subject = {"kind": "User", "apiGroup": rbac, "name": "somebody"}
    reference = {"apiGroup": rbac, "kind": "Role", "name": "r"}
    binding = {"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}

    async def scenario() -> None:
        async with serving(tmp_path / "data") as server:
            path = f"/apis/{rbac}/v1/namespaces/default"
            assert (await server.call("POST", f"{path}/roles", role)).status == 201
            assert (await server.call("POST", f"{path}/rolebindings", version | binding)).status == 201
            somebody = {"impersonate-user": "somebody"}
            asked = {**body, "spec": {"namespace": "default"}}
            status = (await server.call("POST", rules, asked, somebody)).json["status"]
            assert len(status["resourceRules"]) <= MOST_LISTED_RULES
            assert status["incomplete"]
            assert f"only the first {MOST_LISTED_RULES} of" in status["evaluationError"]

    asyncio.run(scenario())
